//! The source against a node that speaks the real JSON-RPC over loopback HTTP, and misbehaves on demand.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod branches;
mod faults;
mod filters;
mod reading;
mod rest;

use bitcoin::ScriptBuf;
use confirmd_chain_bitcoin::{Destination, KIND, Network};
use confirmd_core::{
    Address, BlockHash, BlockRef, ChainContext, ChainName, ChainSource, FinalityTag, Height, Requirement, SourceError,
    SourceErrorKind, StartAt, Transfer, WatchEntry, WatchOrigin, WatchSet, WatchState,
};
use confirmd_testkit::fake_bitcoin::{Auth, Dialect, FakeNetwork, Loss};
use confirmd_testkit::{BitcoinOptions, FakeBitcoin, Remine};
use serde_json::json;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

const ADDRESS: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
const OTHER: &str = "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn";

fn context() -> ChainContext {
    ChainContext {
        name: ChainName::new("regtest").unwrap(),
        default_requirement: Requirement::confirmations(NonZeroU32::new(2).unwrap()),
        requirements: Default::default(),
        minimums: Default::default(),
        reorg_depth: NonZeroU64::new(6).unwrap(),
        start: StartAt::Tip,
        poll_interval: None,
        fork_grace: Duration::ZERO,
        behind_alarm: Duration::ZERO,
        span_max: None,
        meter: confirmd_core::SourceMeter::default(),
    }
}

/// Reads blocks by RPC alone, whose faults most trials are about.
fn source_with(network: &str, endpoint: &str) -> Arc<dyn ChainSource> {
    source_by("off", network, endpoint)
}

fn source_by(rest: &str, network: &str, endpoint: &str) -> Arc<dyn ChainSource> {
    let limits = "requests_per_second = 100000, attempts = 2, deadline = '5s', request_timeout = '2s'";
    let table = format!("network = '{network}'\nrest = '{rest}'\nrpc = [{{ {endpoint} }}]\nlimits = {{ {limits} }}");
    (KIND.build)(context(), table.parse().unwrap()).unwrap()
}

fn source(node: &FakeBitcoin) -> Arc<dyn ChainSource> {
    source_with("regtest", &format!("url = '{}'", node.url()))
}

async fn node() -> FakeBitcoin {
    FakeBitcoin::start(BitcoinOptions::default()).await.unwrap()
}

fn script(source: &dyn ChainSource, address: &str) -> ScriptBuf {
    ScriptBuf::from_bytes(source.parse_address(address).unwrap().bytes().to_vec())
}

fn watch(source: &dyn ChainSource, addresses: &[&str]) -> WatchSet {
    let mut watch = WatchSet::default();
    source.profile().assets.iter().for_each(|asset| watch.put_asset(asset.clone()));
    for address in addresses {
        let address: Address = source.parse_address(address).unwrap();
        watch.put_address(WatchEntry {
            address,
            reference: None,
            from: Height(0),
            origin: WatchOrigin::Command,
            state: WatchState::Watching,
            history: None,
        });
    }
    watch
}

fn at(node: &FakeBitcoin, height: u32) -> BlockRef {
    BlockRef { height: Height(u64::from(height)), hash: BlockHash::new(node.hash_at(height).unwrap().to_string()).unwrap() }
}

fn orphaned<T: std::fmt::Debug>(answer: Result<T, SourceError>) -> String {
    let error = answer.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Orphaned, "{error}");
    error.to_string()
}

fn transient<T: std::fmt::Debug>(answer: Result<T, SourceError>) {
    let error = answer.unwrap_err();
    assert!(matches!(error.kind, SourceErrorKind::Transient { .. }), "{error}");
}

fn fatal<T: std::fmt::Debug>(answer: Result<T, SourceError>) -> String {
    let error = answer.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Fatal, "{error}");
    error.to_string()
}

fn keys(transfers: &[Transfer]) -> Vec<(String, u32, u64)> {
    transfers.iter().map(|t| (t.key.tx_id.as_str().to_owned(), t.key.output_index, t.block.height.0)).collect()
}
