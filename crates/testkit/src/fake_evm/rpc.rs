//! The JSON-RPC methods.

use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes, U256};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::block::Mined;
use super::chain::{Chain, Finality};
use super::handle::Node;
use super::{json as forms, logs, trace};
use crate::faults::Faults;
use crate::json_rpc::{Dialect, RpcError, RpcNode, RpcResult, raw};

impl RpcNode for Node {
    fn dialect(&self) -> Dialect {
        Dialect::V2
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn authorised(&self, _headers: &HeaderMap) -> bool {
        true
    }

    fn call(&self, method: &str, params: &[Value]) -> RpcResult {
        call(&mut self.chain(), method, params)
    }

    fn get(&self, _path: &str, _query: Option<&str>) -> Option<Response> {
        None
    }
}

fn call(chain: &mut Chain, method: &str, params: &[Value]) -> RpcResult {
    match method {
        "eth_chainId" => raw(&U256::from(chain.chain_id)),
        "net_version" => raw(&chain.chain_id.to_string()),
        "web3_clientVersion" => raw("Geth/v1.16.7-stable/linux-amd64/go1.25.3"),
        "eth_syncing" => syncing(chain),
        "eth_blockNumber" => raw(&U256::from(chain.shown_tip())),
        "eth_getBlockByNumber" => block_by_number(chain, params),
        "eth_getBlockByHash" => {
            let hash: B256 = param(params, 0)?;
            block(chain.shown(&hash), params)
        }
        "eth_getBlockReceipts" => match selected(chain, params)? {
            Some(mined) => raw(&forms::receipts(mined)),
            None => raw(&Value::Null),
        },
        "eth_getTransactionReceipt" => receipt(chain, param(params, 0)?),
        "eth_getTransactionByHash" => transaction(chain, param(params, 0)?),
        "eth_getLogs" => {
            let filter: Value = param(params, 0)?;
            raw(&logs::get(chain, &filter)?)
        }
        "debug_traceBlockByHash" => trace_block(chain, params),
        "debug_traceTransaction" => trace_transaction(chain, params),
        "eth_getCode" => {
            let address: Address = param(params, 0)?;
            let known = chain.contracts.contains_key(&address);
            raw(if known { "0x60806040" } else { "0x" })
        }
        "eth_call" => view(chain, params),
        _ => Err(missing(method)),
    }
}

fn missing(method: &str) -> RpcError {
    RpcError::new(-32601, &format!("the method {method} does not exist/is not available"))
}

pub(super) fn invalid(what: &str) -> RpcError {
    RpcError::new(-32602, &format!("invalid argument: {what}"))
}

fn param<T: DeserializeOwned>(params: &[Value], n: usize) -> Result<T, RpcError> {
    let value = params.get(n).ok_or_else(|| RpcError::new(-32602, &format!("missing value for required argument {n}")))?;
    serde_json::from_value(value.clone()).map_err(|error| invalid(&format!("{n}: {error}")))
}

/// What a number or tag stands for.
pub(super) enum Tagged {
    Height(u64),
    Null,
}

pub(super) fn block_number(chain: &Chain, value: &Value) -> Result<Tagged, RpcError> {
    let text = value.as_str().ok_or_else(|| invalid("a block number is a string"))?;
    match text {
        "latest" | "pending" => Ok(Tagged::Height(chain.shown_tip())),
        "earliest" => Ok(Tagged::Height(0)),
        "safe" => finality(chain, chain.safe, text),
        "finalized" => finality(chain, chain.finalized, text),
        hex => hex
            .strip_prefix("0x")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(Tagged::Height)
            .ok_or_else(|| invalid("hex string without 0x prefix or out of range")),
    }
}

fn finality(chain: &Chain, finality: Finality, tag: &str) -> Result<Tagged, RpcError> {
    match finality {
        Finality::Distance(blocks) => Ok(Tagged::Height(chain.shown_tip().saturating_sub(blocks))),
        Finality::At(height) => Ok(Tagged::Height(height)),
        Finality::Null => Ok(Tagged::Null),
        Finality::NotFound => Err(RpcError::new(-39001, &format!("{tag} block not found"))),
    }
}

fn syncing(chain: &Chain) -> RpcResult {
    if !chain.syncing {
        return raw(&false);
    }
    raw(&json!({
        "startingBlock": "0x0",
        "currentBlock": U256::from(chain.shown_tip()),
        "highestBlock": U256::from(chain.tip_height()),
    }))
}

fn block_by_number(chain: &Chain, params: &[Value]) -> RpcResult {
    match block_number(chain, &param(params, 0)?)? {
        Tagged::Height(height) => block(chain.shown_at(height), params),
        Tagged::Null => raw(&Value::Null),
    }
}

fn block(mined: Option<&Arc<Mined>>, params: &[Value]) -> RpcResult {
    let full: bool = param(params, 1)?;
    match mined {
        Some(mined) => raw(&forms::block(mined, full)),
        None => raw(&Value::Null),
    }
}

/// A block named by hash, number, tag, or an object with one of them.
fn selected<'a>(chain: &'a Chain, params: &[Value]) -> Result<Option<&'a Arc<Mined>>, RpcError> {
    let given: Value = param(params, 0)?;
    let by_hash = given.get("blockHash").or(Some(&given).filter(|given| is_hash(given)));
    if let Some(hash) = by_hash {
        let hash: B256 = serde_json::from_value(hash.clone()).map_err(|error| invalid(&error.to_string()))?;
        return Ok(chain.shown(&hash));
    }
    match block_number(chain, given.get("blockNumber").unwrap_or(&given))? {
        Tagged::Height(height) => Ok(chain.shown_at(height)),
        Tagged::Null => Ok(None),
    }
}

fn is_hash(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == 66)
}

/// Of the shown best chain.
fn located(chain: &Chain, hash: &B256) -> Option<(Arc<Mined>, usize)> {
    let place = chain.find(hash)?;
    let mined = chain.shown_at(place.height)?;
    Some((Arc::clone(mined), place.position))
}

fn receipt(chain: &Chain, hash: B256) -> RpcResult {
    let found = located(chain, &hash);
    raw(&found.and_then(|(mined, position)| forms::receipts(&mined).into_iter().nth(position)))
}

fn transaction(chain: &Chain, hash: B256) -> RpcResult {
    if let Some((mined, position)) = located(chain, &hash) {
        let n = u64::try_from(position).unwrap_or(u64::MAX);
        let sent = mined.transactions.get(position);
        return raw(&sent.map(|sent| forms::transaction(sent, Some((&mined, n)))));
    }
    raw(&chain.pooled(&hash).map(|sent| forms::transaction(sent, None)))
}

fn trace_block(chain: &Chain, params: &[Value]) -> RpcResult {
    let hash: B256 = param(params, 0)?;
    call_tracer(params)?;
    let mined = chain.shown(&hash).ok_or_else(|| RpcError::new(-32000, &format!("block {hash} not found")))?;
    if mined.header.number == 0 {
        return Err(RpcError::new(-32000, "genesis is not traceable"));
    }
    raw(&trace::of_block(mined))
}

fn trace_transaction(chain: &Chain, params: &[Value]) -> RpcResult {
    let hash: B256 = param(params, 0)?;
    call_tracer(params)?;
    let found = located(chain, &hash);
    match found.as_ref().and_then(|(mined, position)| mined.transactions.get(*position)) {
        Some(sent) => raw(&trace::top(sent)),
        None => Err(RpcError::new(-32000, "transaction not found")),
    }
}

fn call_tracer(params: &[Value]) -> Result<(), RpcError> {
    let tracer = params.get(1).and_then(|options| options.get("tracer")).and_then(Value::as_str);
    match tracer {
        Some("callTracer") => Ok(()),
        other => Err(RpcError::new(-32000, &format!("tracer not found: {other:?}"))),
    }
}

/// `decimals()` and `symbol()` of deployed tokens; nothing else is a view here.
fn view(chain: &Chain, params: &[Value]) -> RpcResult {
    let request: Value = param(params, 0)?;
    let field = |name: &str| request.get(name).cloned().unwrap_or(Value::Null);
    let to: Address = param(&[field("to")], 0)?;
    let input = request.get("input").or(request.get("data")).cloned().unwrap_or(Value::Null);
    let input: Bytes = param(&[input], 0)?;
    let Some(Some(token)) = chain.contracts.get(&to) else { return raw("0x") };
    match input.get(..4) {
        Some([0x31, 0x3c, 0xe5, 0x67]) => raw(&B256::from(U256::from(token.decimals))),
        Some([0x95, 0xd8, 0x9b, 0x41]) => {
            let mut encoded = U256::from(32).to_be_bytes_vec();
            encoded.extend(U256::from(token.symbol.len()).to_be_bytes_vec());
            let mut text = token.symbol.clone().into_bytes();
            text.resize(text.len().next_multiple_of(32), 0);
            encoded.extend(text);
            raw(&Bytes::from(encoded))
        }
        _ => Err(RpcError::new(3, "execution reverted")),
    }
}
