//! What the registry gets.

use crate::config::Settings;
use crate::source::EvmSource;
use confirmd_core::{ChainContext, ChainKind, ChainSource, ConfigError, NewHeads};
use confirmd_rpc::{HeadSubscription, RpcClient, RpcClientBuilder};
use std::sync::Arc;

/// `kind = "evm"`.
pub const KIND: ChainKind = ChainKind {
    name: "evm",
    summary: "Ethereum and every network with its JSON-RPC: native coin, ERC-20 tokens, internal payments, beacon withdrawals",
    example: EXAMPLE,
    build,
};

const EXAMPLE: &str = r#"# Ethereum, or any network whose nodes speak its JSON-RPC.
[chains.ethereum]
kind = "evm"
chain_id = 1
# Several endpoints: failover; one tick reads from one endpoint. A URL or header that carries a key comes from the
# environment or a file: { url = { env = "ETH_RPC_URL" }, headers = { Authorization = { env = "ETH_RPC_AUTH" } } }
rpc = [{ url = "http://127.0.0.1:8545" }]
# A number, "safe", "finalized", or both: USDC = { at_least = 12, tag = "finalized" }
confirmations = { default = 12 }
reorg_depth = 96
start = "tip"
# The chain's own coin. Without it native payments are not watched and far fewer bytes are read.
native = { symbol = "ETH", decimals = 18, slip44 = 60 }
# Tokens are matched by contract, never by symbol; decimals are taken from here, never from the chain.
assets = [{ symbol = "USDC", contract = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", decimals = 6 }]
# Payments by contracts show only in traces: "auto" reads them where the node offers debug_traceBlockByHash, "required"
# halts the chain where it does not, "off" never reads them.
internal_transfers = "auto"
# Beacon withdrawals to watched addresses.
withdrawals = false
# Contracts that repeat native payments as Transfer logs (0x800A on ZKsync, say): never counted as tokens.
# native_log_emitters = ["0x000000000000000000000000000000000000800A"]
# Where another network has the same chain id: the hash of block 0.
# genesis = "0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3"
# Blocks per eth_getLogs far below the tip; halved by itself when a provider refuses it.
# log_range_max = 500
# New blocks are looked at at once, where the node has a WebSocket; without it every poll_interval.
# push = "ws://127.0.0.1:8546"
# limits = { requests_per_second = 50, attempts = 5, deadline = "30s" }
"#;

/// A subscription to new heads, where `push` names the node's WebSocket.
///
/// # Errors
/// As of the kind.
pub fn build_new_heads(context: &ChainContext, table: toml::Table) -> Result<Option<Arc<dyn NewHeads>>, ConfigError> {
    let Some(push) = Settings::parse(context, table)?.config.push else { return Ok(None) };
    let heads = HeadSubscription::new(&push).map_err(|error| error.below("push"))?;
    Ok(Some(Arc::new(heads)))
}

fn build(context: ChainContext, table: toml::Table) -> Result<Arc<dyn ChainSource>, ConfigError> {
    build_over(RpcClient::builder(), context, table)
}

/// As the kind builds it, over another transport: for simulations.
///
/// # Errors
/// As of the kind.
pub fn build_over(rpc: RpcClientBuilder, context: ChainContext, table: toml::Table) -> Result<Arc<dyn ChainSource>, ConfigError> {
    let settings = Settings::parse(&context, table)?;
    let rpc = rpc.meter(context.meter.clone());
    Ok(Arc::new(EvmSource::new(context, settings, rpc)?))
}
