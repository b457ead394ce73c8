//! The source against a node that speaks real JSON-RPC over really encoded blocks, and misbehaves on request.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod faults;
mod frugal;
mod identity;
mod network;
mod proof;
mod value;

use crate::evidence::BlockEvidence;
use crate::kind::KIND;
use alloy::primitives::{Address as Account, B256, U256, address};
use confirmd_core::*;
use confirmd_rpc::{EndpointConfig, Limits, RpcClient};
use confirmd_testkit::fake_evm::EvmPayment;
use confirmd_testkit::{EvmOptions, FakeEvm};
use serde_json::{json, value::RawValue};
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const TOKEN: Account = address!("a0b86991c6218b36c1d19d4a2e9eb0ce3606eb48");
pub(crate) const OTHER_TOKEN: Account = address!("dac17f958d2ee523a2206206994597c13d831ec7");
pub(crate) const WATCHED: Account = address!("5aaeb6053f3e94c9b9a09f33669435e7ef1beaed");
pub(crate) const WATCHED_TOO: Account = address!("fb6916095ca1df60bb79ce92ce3ea74c37c5d359");
pub(crate) const PAYER: Account = address!("00000000000000000000000000000000000000b0");

/// Every kind of payment this chain may hold.
pub(crate) const ALL: &str = "native = { symbol = 'ETH' }\nwithdrawals = true\n
    assets = [{ symbol = 'USDC', contract = '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48', decimals = 6 }]";
pub(crate) const TOKENS: &str =
    "assets = [{ symbol = 'USDC', contract = '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48', decimals = 6 }]";

pub(crate) fn context(reorg_depth: u64) -> ChainContext {
    ChainContext {
        name: ChainName::new("evm").unwrap(),
        default_requirement: Requirement::confirmations(NonZeroU32::MIN),
        requirements: BTreeMap::new(),
        minimums: BTreeMap::new(),
        reorg_depth: NonZeroU64::new(reorg_depth).unwrap(),
        start: StartAt::Tip,
        poll_interval: None,
        fork_grace: Duration::from_secs(60),
        behind_alarm: Duration::from_secs(600),
        span_max: None,
        meter: SourceMeter::default(),
    }
}

pub(crate) fn build(node: &FakeEvm, keys: &str, reorg_depth: u64) -> Arc<dyn ChainSource> {
    let limits = "limits = { requests_per_second = 100000, attempts = 1 }";
    let table = format!("chain_id = 31337\nrpc = [{{ url = '{}' }}]\n{limits}\n{keys}", node.url()).parse().unwrap();
    (KIND.build)(context(reorg_depth), table).unwrap()
}

pub(crate) async fn node() -> FakeEvm {
    FakeEvm::start(EvmOptions::default()).await.unwrap()
}

pub(crate) fn watch(source: &dyn ChainSource, accounts: &[Account]) -> WatchSet {
    let mut watch = WatchSet::default();
    for account in accounts {
        watch.put_address(WatchEntry {
            address: source.parse_address(&account.to_checksum(None)).unwrap(),
            reference: None,
            from: Height(0),
            origin: WatchOrigin::Config,
            state: WatchState::Watching,
            history: None,
        });
    }
    source.profile().assets.iter().for_each(|asset| watch.put_asset(asset.clone()));
    watch
}

pub(crate) fn tip(node: &FakeEvm) -> BlockRef {
    let (height, hash) = node.tip();
    block(height, hash)
}

pub(crate) fn block(height: u64, hash: B256) -> BlockRef {
    BlockRef { height: Height(height), hash: BlockHash::new(hash.to_string()).unwrap() }
}

pub(crate) type Row = (String, u64, String, U256, u64);

pub(crate) fn rows(transfers: &[Transfer]) -> Vec<Row> {
    let row = |t: &Transfer| {
        let id = (t.key.tx_id.to_string(), u64::from(t.key.output_index));
        (id.0, id.1, t.payment.address.to_string(), t.payment.amount.as_u256(), t.block.height.0)
    };
    transfers.iter().map(row).collect()
}

/// What the node was made to pay to these accounts in coin or the listed token.
pub(crate) fn truth(node: &FakeEvm, accounts: &[Account]) -> Vec<Row> {
    let ours = |p: &EvmPayment| accounts.contains(&p.to) && p.token.is_none_or(|token| token == TOKEN);
    let row = |p: EvmPayment| (p.tx_id, p.output_index, p.to.to_checksum(None), p.amount, p.height);
    node.payments().into_iter().filter(ours).map(row).collect()
}

/// The payments of a block as its receipts, whole block and traces say, without `eth_getLogs`.
pub(crate) async fn receipts_only(node: &FakeEvm, height: u64, watch: &WatchSet) -> Vec<Transfer> {
    let endpoint = EndpointConfig::new(url::Url::parse(&node.url()).unwrap());
    let client = RpcClient::new(&[endpoint], &Limits::default()).unwrap();
    let hash = node.hash_at(height).unwrap();
    let block: Box<RawValue> = client.call("eth_getBlockByHash", json!([hash, true])).await.unwrap();
    let receipts: Box<RawValue> = client.call("eth_getBlockReceipts", json!([hash])).await.unwrap();
    let traces: Box<RawValue> = client.call("debug_traceBlockByHash", json!([hash, { "tracer": "callTracer" }])).await.unwrap();
    let evidence = BlockEvidence::parse(block.get(), receipts.get(), Some(traces.get())).unwrap();
    evidence.transfers(watch, true).unwrap()
}
