//! One block with its receipts and traces, and what is watched in it.

use confirmd_chain_evm::{BlockEvidence, KIND};
use confirmd_core::*;
use confirmd_hostile::{JsonAlteration, JsonChange};
use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Subject {
    pub(crate) block: Value,
    pub(crate) receipts: Value,
    pub(crate) traces: Value,
    pub(crate) watch: WatchSet,
    /// What the unaltered answers pay.
    pub(crate) paid: Vec<Transfer>,
}

pub(crate) fn source(tokens: &[&str]) -> Arc<dyn ChainSource> {
    let token = |(n, contract): (usize, &&str)| format!("{{ symbol = 'T{n}', contract = '{contract}', decimals = 0 }}");
    let tokens: Vec<_> = tokens.iter().enumerate().map(token).collect();
    let table = format!(
        "chain_id = 1\nrpc = [{{ url = 'http://127.0.0.1:1' }}]\nnative = {{ symbol = 'ETH' }}\nassets = [{}]",
        tokens.join(",")
    );
    let context = ChainContext {
        name: ChainName::new("ethereum").unwrap(),
        default_requirement: Requirement::confirmations(NonZeroU32::MIN),
        requirements: BTreeMap::new(),
        minimums: BTreeMap::new(),
        reorg_depth: NonZeroU64::new(10).unwrap(),
        start: StartAt::Tip,
        poll_interval: None,
        fork_grace: Duration::from_secs(60),
        behind_alarm: Duration::from_secs(600),
        span_max: None,
        meter: SourceMeter::default(),
    };
    (KIND.build)(context, table.parse().unwrap()).unwrap()
}

fn watch(tokens: &[&str], accounts: &BTreeSet<String>) -> WatchSet {
    let source = source(tokens);
    let mut watch = WatchSet::default();
    for account in accounts {
        let Ok(address) = source.parse_address(account) else { continue };
        let (origin, state) = (WatchOrigin::Config, WatchState::Watching);
        watch.put_address(WatchEntry { address, reference: None, from: Height(0), origin, state, history: None });
    }
    source.profile().assets.iter().for_each(|asset| watch.put_asset(asset.clone()));
    watch
}

impl Subject {
    /// Watches everybody who is paid, in every token.
    pub(crate) fn new(block: Value, receipts: Value, traces: Value) -> Self {
        let (mut accounts, mut tokens) = (BTreeSet::new(), BTreeSet::new());
        accounts.extend(block["transactions"].as_array().unwrap().iter().filter_map(|tx| tx["to"].as_str().map(str::to_owned)));
        for log in receipts.as_array().unwrap().iter().flat_map(|receipt| receipt["logs"].as_array().unwrap()) {
            tokens.insert(log["address"].as_str().unwrap().to_owned());
            let to =
                log["topics"].get(2).and_then(Value::as_str).and_then(|word| word.strip_prefix("0x000000000000000000000000"));
            accounts.extend(to.map(|digits| format!("0x{digits}")));
        }
        let withdrawals = block["withdrawals"].as_array().cloned().unwrap_or_default();
        accounts.extend(withdrawals.iter().filter_map(|w| w["address"].as_str().map(str::to_owned)));
        accounts.remove("0x0000000000000000000000000000000000000000");
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let watch = watch(&tokens, &accounts);
        let mut subject = Self { block, receipts, traces, watch, paid: Vec::new() };
        subject.paid = subject.read().unwrap();
        subject
    }

    pub(crate) fn read(&self) -> Result<Vec<Transfer>, String> {
        self.read_texts(&self.block.to_string(), &self.receipts.to_string(), &self.traces.to_string())
    }

    pub(crate) fn read_texts(&self, block: &str, receipts: &str, traces: &str) -> Result<Vec<Transfer>, String> {
        let evidence = BlockEvidence::parse(block, receipts, Some(traces)).map_err(|error| error.to_string())?;
        evidence.transfers(&self.watch, true).map_err(|error| error.to_string())
    }

    /// Changes one place of one answer; panics if something else is paid then and nothing could tell.
    pub(crate) fn try_structural_change(&mut self, seed: u64) -> bool {
        let mut rng = Rng::with_seed(seed);
        let part = match rng.u8(..3) {
            0 => &mut self.block,
            1 => &mut self.receipts,
            _ => &mut self.traces,
        };
        let whole = part.clone();
        let done = JsonAlteration::apply(part, &mut rng);
        let (altered, read) = (part.clone(), self.read());
        let refused = read.is_err();
        if let Ok(paid) = read {
            assert!(paid == self.paid || unnoticeable(&done, &altered), "seed {seed}: {done:?} changed what is paid, silently");
        }
        match rng_part(seed) {
            0 => self.block = whole,
            1 => self.receipts = whole,
            _ => self.traces = whole,
        }
        refused
    }
}

fn rng_part(seed: u64) -> u8 {
    Rng::with_seed(seed).u8(..3)
}

/// What the format itself can't tell from a good answer: absence that has a meaning, and lists whose length nothing else says.
fn unnoticeable(done: &JsonAlteration, altered: &Value) -> bool {
    use JsonChange::{Nulled, Removed, Repeated, Replaced, Swapped};
    let gone = matches!(done.kind, Removed | Nulled);
    match done.key.as_str() {
        // A creation; an unknown sender; a type or mint of some networks; a transaction before Byzantium.
        "to" | "from" | "mint" | "type" | "status" => gone,
        // A call without calls or value, or one that succeeded.
        "calls" => gone || matches!(done.kind, Repeated | Swapped | Replaced),
        "value" => gone && altered.is_array(),
        "error" => true,
        // No root of these lists is recomputed.
        "logs" | "topics" | "withdrawals" => true,
        // Content: valid values in the place of others, or bytes that make no payment.
        "data" | "timestamp" | "amount" | "address" | "index" | "removed" => true,
        _ => false,
    }
}

/// A block with a native, a failed, a token and an internal payment, a creation and a withdrawal.
pub(crate) fn made() -> Subject {
    let hash = |n: u8| format!("0x{}", format!("{n:02x}").repeat(32));
    let account = |n: u8| format!("0x{}", format!("{n:02x}").repeat(20));
    let word = |n: u8| format!("0x{}{}", "0".repeat(24), format!("{n:02x}").repeat(20));
    let transfer = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
    let block_hash = hash(0xb1);
    let tx = |n: u8, to: Value, value: &str| {
        json!({ "hash": hash(n), "from": account(0xa0), "to": to, "value": value, "type": "0x2", "blockHash": block_hash,
                "transactionIndex": format!("{:#x}", n - 1), "input": "0x" })
    };
    let log = |n: u8, to: u8, amount: u8| {
        json!({ "address": account(0xcc), "topics": [transfer, word(0xa0), word(to)], "removed": false,
                "data": format!("0x{}{amount:02x}", "0".repeat(62)), "blockHash": block_hash, "blockNumber": "0x10",
                "transactionHash": hash(n), "logIndex": "0x0" })
    };
    let receipt = |n: u8, status: &str, logs: Vec<Value>| {
        json!({ "transactionHash": hash(n), "transactionIndex": format!("{:#x}", n - 1), "blockHash": block_hash,
                "blockNumber": "0x10", "status": status, "logs": logs })
    };
    let block = json!({
        "hash": block_hash, "number": "0x10", "parentHash": hash(0xb0), "timestamp": "0x64", "transactionsRoot": hash(0xee),
        "transactions": [tx(1, json!(account(0x11)), "0x5"), tx(2, json!(account(0x12)), "0x7"), tx(3, json!(account(0xcc)), "0x0"),
                         tx(4, Value::Null, "0x0")],
        "withdrawals": [{ "index": "0x1", "validatorIndex": "0x1", "address": account(0x14), "amount": "0x9" }],
    });
    let receipts = json!([
        receipt(1, "0x1", vec![]),
        receipt(2, "0x0", vec![]),
        receipt(3, "0x1", vec![log(3, 0x11, 3), log(3, 0x13, 4)]),
        receipt(4, "0x1", vec![]),
    ]);
    let quiet = |n: u8| json!({ "txHash": hash(n), "result": { "type": "CALL", "from": account(0xa0) } });
    let inner = json!({ "type": "CALL", "from": account(0xcc), "to": account(0x11), "value": "0x6", "calls": [] });
    let traces = json!([
        quiet(1),
        quiet(2),
        { "txHash": hash(3), "result": { "type": "CALL", "from": account(0xa0), "to": account(0xcc), "value": "0x0", "calls": [inner] } },
        quiet(4),
    ]);
    let subject = Subject::new(block, receipts, traces);
    assert_eq!(subject.paid.len(), 5, "{:?}", subject.paid);
    subject
}
