//! A development chain in this process, and the configuration that watches it.

use crate::instance::{done, stdout};
use confirmd_testkit::alloy::primitives::{Address, U256};
use confirmd_testkit::{EvmOptions, FakeEvm};
use serde_json::Value;
use std::path::Path;

pub(crate) const CUSTOMER: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
pub(crate) const OTHER: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";

/// The keys of a chain that watches one customer.
pub(crate) const ONE_CUSTOMER: &str = r#"confirmations = { default = 2 }
watch = [{ address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", reference = "customer-42" }]"#;

pub(crate) const SCREEN: &str = "[sinks.screen]\nkind = 'stdout'";

/// Nobody listens there.
pub(crate) fn ledger(retry: &str) -> String {
    format!(
        "[sinks.ledger]\nkind = 'webhook'\nurl = 'http://127.0.0.1:1/hook'\nallow_private = ['127.0.0.0/8']\nsecret = {{ file = 'secret' }}\nretry = {retry}"
    )
}

/// A configuration with further keys of the API and of the chain, and with these sinks.
pub(crate) fn config(node: &FakeEvm, api: &str, chain: &str, sinks: &str) -> String {
    format!(
        r#"
[state]
path = "./state"
[api]
listen = "127.0.0.1:0"
{api}
[chains.dev]
kind = "evm"
chain_id = 31337
rpc = [{{ url = "{}" }}]
reorg_depth = 4
poll_interval = "20ms"
native = {{ symbol = "ETH", decimals = 18, slip44 = 60 }}
{chain}
{sinks}
"#,
        node.url()
    )
}

pub(crate) async fn node(chain_id: u64) -> FakeEvm {
    let node = FakeEvm::start(EvmOptions { chain_id, ..EvmOptions::default() }).await.unwrap();
    node.mine(8);
    node
}

pub(crate) fn pay(node: &FakeEvm, to: &str, wei: u64) {
    let from: Address = "0x00000000000000000000000000000000000000aa".parse().unwrap();
    node.transfer_native(from, to.parse().unwrap(), U256::from(wei));
}

/// What a command answers, a value a line.
pub(crate) fn json(dir: &Path, args: &[&str]) -> Vec<Value> {
    let output = done(dir, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
