//! The configuration file: read, checked, built.
//!
//! Reading is two steps, so that a command that only needs the state's folder or one chain's addresses asks for no
//! secret: [`ConfigFile`] is the text's shape, [`Config`] what it stands for.

mod chain;
mod confirmations;
mod error;
mod file;
mod home;
#[cfg(test)]
mod hostile;
mod locate;
mod minimum;
mod operations;
mod sink;
mod state;
mod telemetry;
#[cfg(test)]
mod tests;
mod value;

pub use chain::{ChainConfig, ConfiguredAddress};
pub use error::{ConfigFault, ConfigFaults};
pub use file::{ApiSection, Backend, ConfigFile, LogFormat, LogSection, StateSection};
pub use operations::{OperationsConfig, OperationsSection};
pub use sink::SinkConfig;
pub(crate) use state::SharedKeys;
pub use telemetry::{TelemetryConfig, TelemetrySection};

use confirmd_core::{ConfigError, ConsumerName, Registry, Sink};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything a configuration stands for: sources and sinks built, nothing contacted.
#[derive(Debug)]
pub struct Config {
    /// Where it was read from, and the parts that are plain values.
    pub file: ConfigFile,
    /// By name.
    pub chains: Vec<ChainConfig>,
    /// By name.
    pub sinks: Vec<SinkConfig>,
    /// Who is told of the instance itself, if anyone.
    pub operations: Option<OperationsConfig>,
    /// Where traces go, if anywhere.
    pub telemetry: Option<TelemetryConfig>,
}

impl Config {
    /// Builds every chain and sink. Lists every mistake, not only the first.
    pub fn build(file: ConfigFile, registry: &Registry) -> Result<Self, ConfigFaults> {
        let (chains, mut errors) = build_chains(&file, registry);
        let mut sinks = Vec::new();
        if errors.is_empty() {
            for (name, table) in &file.sinks {
                match SinkConfig::build(name, table.clone(), registry, &chains) {
                    Ok(sink) => sinks.push(sink),
                    Err(error) => errors.push(error.below(&format!("sinks.{name}"))),
                }
            }
        }
        let mut below = |section: &str, error: ConfigError| errors.push(error.below(section));
        let operations = file.operations.clone().map(|section| OperationsConfig::build(section, registry)).transpose();
        let operations = operations.unwrap_or_else(|error| {
            below("operations", error);
            None
        });
        let telemetry = file.telemetry.as_ref().map(TelemetryConfig::build).transpose();
        let telemetry = telemetry.unwrap_or_else(|error| {
            below("telemetry", error);
            None
        });
        if errors.is_empty() { Ok(Self { chains, sinks, operations, telemetry, file }) } else { Err(file.faults(errors)) }
    }
}

impl Config {
    /// The kind of each configured consumer's sink.
    pub(crate) fn kinds(&self) -> BTreeMap<ConsumerName, &'static str> {
        self.sinks.iter().map(|sink| (sink.name().clone(), sink.kind)).collect()
    }

    /// The sink of each configured consumer.
    pub(crate) fn sinks_by_name(&self) -> BTreeMap<ConsumerName, Arc<dyn Sink>> {
        self.sinks.iter().map(|sink| (sink.name().clone(), sink.sink.clone())).collect()
    }
}

/// Builds the chains alone: enough to read addresses.
pub fn build_chains(file: &ConfigFile, registry: &Registry) -> (Vec<ChainConfig>, Vec<ConfigError>) {
    let (mut chains, mut errors) = (Vec::new(), Vec::new());
    for (name, table) in &file.chains {
        match ChainConfig::build(name, table.clone(), registry) {
            Ok(chain) => chains.push(chain),
            Err(error) => errors.push(error.below(&format!("chains.{name}"))),
        }
    }
    errors.extend(duplicates(&chains));
    (chains, errors)
}

/// One chain id belongs to one entry (design, section 1).
fn duplicates(chains: &[ChainConfig]) -> Vec<ConfigError> {
    let (mut seen, mut errors) = (BTreeMap::new(), Vec::new());
    for chain in chains {
        if let Some(first) = seen.insert(chain.id().clone(), &chain.name) {
            let problem = format!(
                "it is the same network as `chains.{first}` ({}); list the endpoints of one network in one entry's `rpc`, and remove this one",
                chain.id()
            );
            errors.push(ConfigError::new(format!("chains.{}", chain.name), problem));
        }
    }
    errors
}
