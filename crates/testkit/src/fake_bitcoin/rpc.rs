//! The JSON-RPC methods.

use axum::http::HeaderMap;
use axum::response::Response;
use bitcoin::BlockHash;
use bitcoin::consensus::encode::serialize_hex;
use serde_json::{Value, json};

use super::chain::{Chain, Stored};
use super::handle::Node;
use super::{filters, json, rest};
use crate::faults::Faults;
use crate::json_rpc::{Dialect, RpcError, RpcNode, RpcResult, raw};

impl RpcNode for Node {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn authorised(&self, headers: &HeaderMap) -> bool {
        self.credentials().accept(headers)
    }

    fn call(&self, method: &str, params: &[Value]) -> RpcResult {
        call(&self.chain(), self.dialect, method, params)
    }

    fn get(&self, path: &str, query: Option<&str>) -> Option<Response> {
        rest::get(&self.chain(), self.dialect, path, query)
    }
}

pub(super) fn call(chain: &Chain, dialect: Dialect, method: &str, params: &[Value]) -> RpcResult {
    match method {
        "getblockchaininfo" => chain_info(chain, dialect),
        "getbestblockhash" => raw(&chain.shown_tip().1.to_string()),
        "getblockcount" => raw(&chain.shown_tip().0),
        "getblockhash" => block_hash(chain, params),
        "getblockheader" => block_header(chain, params),
        "getblock" => block(chain, params),
        "getnetworkinfo" => network_info(chain),
        "getindexinfo" => index_info(chain),
        // Core has it since version 25, Litecoin not yet.
        "scanblocks" if dialect != Dialect::Legacy => filters::scan_blocks(chain, params),
        "getmempoolinfo" => raw(&json!({ "loaded": true, "size": chain.mempool.len() })),
        "getrawmempool" => {
            let ids = chain.mempool.iter().map(|tx| tx.compute_txid().to_string());
            raw(&ids.collect::<Vec<_>>())
        }
        _ => Err(RpcError::new(-32601, "Method not found")),
    }
}

fn chain_info(chain: &Chain, dialect: Dialect) -> RpcResult {
    let (blocks, best) = chain.shown_tip();
    let mut info = json!({
        "chain": "regtest",
        "blocks": blocks,
        "headers": if chain.initial_block_download { chain.tip_height() } else { blocks },
        "bestblockhash": best.to_string(),
        "difficulty": json::difficulty(),
        "time": chain.stored(&best).map(|stored| stored.block.header.time),
        "mediantime": json::median_time(chain, &best),
        "verificationprogress": if chain.initial_block_download { 0.5 } else { 1.0 },
        "initialblockdownload": chain.initial_block_download,
        "chainwork": json::chainwork(blocks),
        "size_on_disk": 1_000_000,
        "pruned": chain.pruned_below.is_some(),
        "warnings": if dialect == Dialect::Legacy { json!("") } else { json!([]) },
    });
    if let (Some(kept_from), Some(fields)) = (chain.pruned_below, info.as_object_mut()) {
        fields.insert("pruneheight".to_owned(), json!(kept_from));
    }
    raw(&info)
}

fn index_info(chain: &Chain) -> RpcResult {
    let index = json!({ "synced": true, "best_block_height": chain.shown_tip().0 });
    let mut indexes = json!({ "txindex": index });
    if let (true, Some(fields)) = (chain.filters, indexes.as_object_mut()) {
        fields.insert("basic block filter index".to_owned(), index);
    }
    raw(&indexes)
}

fn network_info(chain: &Chain) -> RpcResult {
    let (subversion, version) = chain.network().user_agent();
    raw(&json!({
        "version": version,
        "subversion": subversion,
        "protocolversion": 70016,
        "connections": 8,
        "networkactive": true,
    }))
}

fn block_hash(chain: &Chain, params: &[Value]) -> RpcResult {
    let height =
        params.first().and_then(Value::as_i64).ok_or_else(|| RpcError::new(-3, "JSON value is not of expected type number"))?;
    let hash = u32::try_from(height).ok().and_then(|height| chain.shown_hash_at(height));
    match hash {
        Some(hash) => raw(&hash.to_string()),
        None => Err(RpcError::new(-8, "Block height out of range")),
    }
}

fn block_header(chain: &Chain, params: &[Value]) -> RpcResult {
    let (hash, stored) = known_block(chain, params)?;
    match params.get(1) {
        Some(Value::Bool(false)) => raw(&serialize_hex(&stored.block.header)),
        None | Some(Value::Null | Value::Bool(true)) => raw(&json::header(chain, &hash, stored)),
        Some(_) => Err(RpcError::new(-3, "JSON value is not of expected type bool")),
    }
}

fn block(chain: &Chain, params: &[Value]) -> RpcResult {
    let (hash, stored) = known_block(chain, params)?;
    if chain.is_pruned(&hash, stored.height) {
        return Err(RpcError::new(-1, "Block not available (pruned data)"));
    }
    let verbosity = match params.get(1) {
        None | Some(Value::Null | Value::Bool(true)) => 1,
        Some(Value::Bool(false)) => 0,
        Some(value) => value.as_u64().ok_or_else(|| RpcError::new(-3, "JSON value is not of expected type number"))?,
    };
    match verbosity {
        0 => raw(&serialize_hex(stored.block.as_ref())),
        1 => raw(&json::block(chain, &hash, stored, false)),
        _ => raw(&json::block(chain, &hash, stored, true)),
    }
}

fn known_block<'a>(chain: &'a Chain, params: &[Value]) -> Result<(BlockHash, &'a Stored), RpcError> {
    let text =
        params.first().and_then(Value::as_str).ok_or_else(|| RpcError::new(-3, "JSON value is not of expected type string"))?;
    let hash: BlockHash = text.parse().map_err(|_| {
        let length = text.len();
        RpcError::new(-8, &format!("blockhash must be of length 64 (not {length}, for '{text}')"))
    })?;
    let stored = chain.shown(&hash).ok_or_else(|| RpcError::new(-5, "Block not found"))?;
    Ok((hash, stored))
}
