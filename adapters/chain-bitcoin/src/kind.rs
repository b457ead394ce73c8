//! The kind of chain that the daemon registers.

use crate::source::BitcoinSource;
use confirmd_core::{ChainContext, ChainKind, ChainSource, ConfigError, parse_table};
use confirmd_rpc::{RpcClient, RpcClientBuilder};
use std::sync::Arc;

/// `kind = "bitcoin"`: Bitcoin and Litecoin, their test networks included.
pub const KIND: ChainKind = ChainKind {
    name: "bitcoin",
    summary: "Bitcoin and Litecoin (mainnet, testnet4, signet, regtest, litecoin, litecoin-testnet, litecoin-regtest) over a node's RPC",
    example: EXAMPLE,
    build,
};

const EXAMPLE: &str = r#"[chains.bitcoin]
kind = "bitcoin"
network = "mainnet"                    # mainnet, testnet4, signet, regtest, litecoin, litecoin-testnet, litecoin-regtest
# The node's RPC port. Several endpoints take over from one another; one tick reads from one of them.
# Instead of cookie_file: user = "name", password = { env = "BITCOIN_RPC_PASSWORD" }
rpc = [{ url = "http://127.0.0.1:8332", cookie_file = "~/.bitcoin/.cookie" }]
confirmations = { default = 3 }        # coinbase outputs wait for 100, peg-outs of Litecoin for 6
reorg_depth = 24
start = "tip"
rest = "auto"                          # blocks by the node's REST interface where it has one (-rest), else by RPC; or "off"
# push = "long-poll"                   # a new block is looked at at once; keeps one RPC thread of the node busy
filters = "auto"                       # old blocks that can't match by the node's compact filters (-blockfilterindex=1) are not read; or "off"
limits = { attempts = 5, deadline = "30s" } # requests_per_second: 10000 at a node in a private network, else 50
"#;

fn build(context: ChainContext, table: toml::Table) -> Result<Arc<dyn ChainSource>, ConfigError> {
    build_over(RpcClient::builder(), context, table)
}

/// As the kind builds it, over another transport: for simulations.
///
/// # Errors
/// As of the kind.
pub fn build_over(rpc: RpcClientBuilder, context: ChainContext, table: toml::Table) -> Result<Arc<dyn ChainSource>, ConfigError> {
    let rpc = rpc.meter(context.meter.clone());
    Ok(Arc::new(BitcoinSource::new(context, parse_table(table)?, rpc)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use confirmd_core::{ChainName, Height, Requirement, StartAt};
    use std::num::{NonZeroU32, NonZeroU64};
    use std::time::Duration;

    fn context() -> ChainContext {
        ChainContext {
            name: ChainName::new("btc").unwrap(),
            default_requirement: Requirement::confirmations(NonZeroU32::new(3).unwrap()),
            requirements: Default::default(),
            minimums: Default::default(),
            reorg_depth: NonZeroU64::new(24).unwrap(),
            start: StartAt::Height(Height(1)),
            poll_interval: None,
            fork_grace: Duration::from_secs(1),
            behind_alarm: Duration::from_secs(1),
            span_max: None,
            meter: confirmd_core::SourceMeter::default(),
        }
    }

    fn build_from(text: &str) -> Result<Arc<dyn ChainSource>, ConfigError> {
        build(context(), text.parse().unwrap())
    }

    #[test]
    fn the_example_parses_with_its_own_keys() {
        let example: toml::Table = EXAMPLE.parse().unwrap();
        let mut table = example["chains"]["bitcoin"].as_table().unwrap().clone();
        for common in ["kind", "confirmations", "reorg_depth", "start"] {
            assert!(table.remove(common).is_some(), "{common}");
        }
        let source = build(context(), table).unwrap();
        let profile = source.profile();
        assert_eq!(profile.chain.as_str(), "bip122:000000000019d6689c085ae165831e93");
        assert_eq!(profile.assets.len(), 1);
        assert_eq!(profile.assets[0].asset.symbol, "BTC");
        assert!(!profile.several_endpoints);
    }

    #[test]
    fn unknown_networks_and_keys_are_refused_with_the_known_ones() {
        let error = build_from("network = 'testnet3'\nrpc = [{ url = 'http://127.0.0.1:1' }]").unwrap_err();
        assert_eq!(error.key, "network");
        assert!(error.problem.contains("litecoin-testnet"), "{error}");
        let error = build_from("network = 'regtest'\nrpc = [{ url = 'http://127.0.0.1:1' }]\nzmq = true").unwrap_err();
        assert!(error.to_string().contains("zmq"), "{error}");
        assert_eq!(build_from("network = 'regtest'\nrpc = []").unwrap_err().key, "rpc");
        assert!(build_from("rpc = [{ url = 'http://127.0.0.1:1' }]").unwrap_err().to_string().contains("network"));
    }

    #[test]
    fn confirmations_of_a_foreign_symbol_or_by_a_finality_tag_are_refused() {
        let table = || "network = 'litecoin'\nrpc = [{ url = 'http://127.0.0.1:1' }]".parse().unwrap();
        let mut foreign = context();
        foreign.requirements.insert("BTC".into(), foreign.default_requirement);
        let error = build(foreign, table()).unwrap_err();
        assert_eq!(error.key, "confirmations.BTC");
        assert!(error.problem.contains("LTC"), "{error}");
        let mut tagged = context();
        tagged.default_requirement.tag = Some(confirmd_core::FinalityTag::Finalized);
        assert_eq!(build(tagged, table()).unwrap_err().key, "confirmations.default");
    }
}
