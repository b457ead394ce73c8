//! The adapter's own keys of `[chains.NAME]`.

use crate::filters::FilterMode;
use crate::long_poll::Push;
use crate::network::{NETWORKS, Network};
use crate::rest::RestMode;
use confirmd_core::{ChainContext, ConfigError};
use confirmd_rpc::{EndpointConfig, Limits};
use serde::{Deserialize, Deserializer};

/// What stands in `[chains.NAME]` beside the keys that every chain has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BitcoinConfig {
    /// Which network the node must serve; a name of the table.
    #[serde(deserialize_with = "network")]
    pub(crate) network: &'static Network,
    /// The node's RPC port, and those that take over when it fails.
    pub(crate) rpc: Vec<EndpointConfig>,
    /// How much, how often and how long a node is asked.
    #[serde(default)]
    pub(crate) limits: Limits,
    /// Whether blocks are read by the node's REST interface: "auto" (where it offers it) or "off".
    #[serde(default)]
    pub(crate) rest: RestMode,
    /// Whether blocks that can't match by the node's compact block filters are left out: "auto" (where it has the index) or "off".
    #[serde(default)]
    pub(crate) filters: FilterMode,
    /// Whether the node is asked to tell of new blocks: "off" or "long-poll".
    #[serde(default)]
    pub(crate) push: Push,
}

fn network<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static Network, D::Error> {
    let name = String::deserialize(deserializer)?;
    Network::by_name(&name).ok_or_else(|| {
        let known: Vec<_> = NETWORKS.iter().map(|network| network.name).collect();
        serde::de::Error::custom(format!("unknown network {name:?}; known: {}", known.join(", ")))
    })
}

/// The operator's confirmations must be for the network's one coin, and nothing here says what is final.
pub(crate) fn check_requirements(context: &ChainContext, network: &Network) -> Result<(), ConfigError> {
    for (symbol, requirement) in &context.requirements {
        let key = format!("confirmations.{symbol}");
        if symbol != network.symbol {
            return Err(ConfigError::new(key, format!("{} has no asset of this symbol, only {}", network.title, network.symbol)));
        }
        check_tag(key, requirement, network)?;
    }
    check_tag("confirmations.default".into(), &context.default_requirement, network)
}

fn check_tag(key: String, requirement: &confirmd_core::Requirement, network: &Network) -> Result<(), ConfigError> {
    match requirement.tag {
        None => Ok(()),
        Some(tag) => Err(ConfigError::new(
            key,
            format!("{} has no {:?} blocks of its own saying; give a number of confirmations", network.title, tag.as_str()),
        )),
    }
}
