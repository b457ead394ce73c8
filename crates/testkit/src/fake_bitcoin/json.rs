//! The JSON forms of headers, blocks and transactions, as Bitcoin Core writes them.

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Amount, Block, BlockHash, Transaction};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::chain::{Chain, Stored};

/// Regtest's difficulty, as Core prints it.
const DIFFICULTY: &str = "4.656542373906925e-10";

fn number(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("invariant: only decimal text is passed")
}

/// Coins with eight decimals, exact.
fn coins(amount: Amount) -> Box<RawValue> {
    let sats = amount.to_sat();
    number(&format!("{}.{:08}", sats / 100_000_000, sats % 100_000_000))
}

#[derive(Serialize)]
struct HeaderJson {
    hash: String,
    confirmations: i64,
    height: u32,
    version: i32,
    #[serde(rename = "versionHex")]
    version_hex: String,
    merkleroot: String,
    time: u32,
    mediantime: u32,
    nonce: u32,
    bits: String,
    difficulty: Box<RawValue>,
    chainwork: String,
    #[serde(rename = "nTx")]
    transactions: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    previousblockhash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nextblockhash: Option<String>,
}

#[derive(Serialize)]
struct BlockJson {
    #[serde(flatten)]
    header: HeaderJson,
    strippedsize: usize,
    size: usize,
    weight: u64,
    tx: Vec<TransactionJson>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum TransactionJson {
    Id(String),
    Whole(Box<Decoded>),
}

#[derive(Serialize)]
struct Decoded {
    txid: String,
    hash: String,
    version: i32,
    size: usize,
    vsize: usize,
    weight: u64,
    locktime: u32,
    vin: Vec<Value>,
    vout: Vec<Output>,
    hex: String,
}

#[derive(Serialize)]
struct Output {
    value: Box<RawValue>,
    n: usize,
    #[serde(rename = "scriptPubKey")]
    script: Value,
}

pub(super) fn header(chain: &Chain, hash: &BlockHash, stored: &Stored) -> impl Serialize {
    header_json(chain, hash, stored)
}

fn header_json(chain: &Chain, hash: &BlockHash, stored: &Stored) -> HeaderJson {
    let header = &stored.block.header;
    let confirmations = chain.confirmations(hash, stored.height);
    let next = chain.shown_hash_at(stored.height + 1).filter(|_| confirmations > 0);
    HeaderJson {
        hash: hash.to_string(),
        confirmations,
        height: stored.height,
        version: header.version.to_consensus(),
        version_hex: format!("{:08x}", header.version.to_consensus()),
        merkleroot: header.merkle_root.to_string(),
        time: header.time,
        mediantime: median_time(chain, hash),
        nonce: header.nonce,
        bits: format!("{:08x}", header.bits.to_consensus()),
        difficulty: number(DIFFICULTY),
        chainwork: chainwork(stored.height),
        transactions: stored.block.txdata.len(),
        previousblockhash: (stored.height > 0).then(|| header.prev_blockhash.to_string()),
        nextblockhash: next.map(|hash| hash.to_string()),
    }
}

pub(super) fn block(chain: &Chain, hash: &BlockHash, stored: &Stored, decoded: bool) -> impl Serialize {
    let block: &Block = &stored.block;
    let form = |tx: &Transaction| {
        if decoded {
            TransactionJson::Whole(Box::new(transaction(tx)))
        } else {
            TransactionJson::Id(tx.compute_txid().to_string())
        }
    };
    let size = block.total_size();
    let weight = block.weight().to_wu();
    BlockJson {
        header: header_json(chain, hash, stored),
        strippedsize: usize::try_from(weight).unwrap_or(usize::MAX).saturating_sub(size) / 3,
        size,
        weight,
        tx: block.txdata.iter().map(form).collect(),
    }
}

fn transaction(tx: &Transaction) -> Decoded {
    let vin = tx.input.iter().map(|input| {
        if tx.is_coinbase() {
            return json!({ "coinbase": input.script_sig.to_hex_string(), "sequence": input.sequence.0 });
        }
        json!({
            "txid": input.previous_output.txid.to_string(),
            "vout": input.previous_output.vout,
            "scriptSig": { "hex": input.script_sig.to_hex_string() },
            "txinwitness": input.witness.iter().map(const_hex::encode).collect::<Vec<_>>(),
            "sequence": input.sequence.0,
        })
    });
    let vout = tx.output.iter().enumerate().map(|(n, output)| Output {
        value: coins(output.value),
        n,
        script: json!({ "hex": output.script_pubkey.to_hex_string() }),
    });
    Decoded {
        txid: tx.compute_txid().to_string(),
        hash: tx.compute_wtxid().to_string(),
        version: tx.version.0,
        size: tx.total_size(),
        vsize: tx.vsize(),
        weight: tx.weight().to_wu(),
        locktime: tx.lock_time.to_consensus_u32(),
        vin: vin.collect(),
        vout: vout.collect(),
        hex: serialize_hex(tx),
    }
}

/// The median of the last eleven timestamps of the branch that ends here.
pub(super) fn median_time(chain: &Chain, hash: &BlockHash) -> u32 {
    let mut times = Vec::new();
    let mut next = *hash;
    while let Some(stored) = chain.stored(&next) {
        times.push(stored.block.header.time);
        next = stored.block.header.prev_blockhash;
        if times.len() == 11 {
            break;
        }
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// Two hashes of work per block, the genesis block included.
pub(super) fn chainwork(height: u32) -> String {
    format!("{:064x}", (u64::from(height) + 1) * 2)
}

pub(super) fn difficulty() -> Box<RawValue> {
    number(DIFFICULTY)
}
