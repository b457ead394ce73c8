//! Plug-ins: what an adapter crate exports, and the list a binary is built from.

use crate::{
    Amount, BuildNewHeads, ChainName, ChainSource, ConfigError, ConsumerName, ListedAsset, Requirement, Sink, SourceMeter,
    StartAt,
};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// What a chain adapter is built from: the parts of `[chains.NAME]` that mean the same on every chain, already read.
#[derive(Debug, Clone)]
pub struct ChainContext {
    /// The operator's name.
    pub name: ChainName,
    /// `confirmations.default`.
    pub default_requirement: Requirement,
    /// `confirmations.SYMBOL`, by symbol.
    pub requirements: BTreeMap<String, Requirement>,
    /// `minimum.SYMBOL`, in base units, by symbol.
    pub minimums: BTreeMap<String, Amount>,
    /// `reorg_depth`.
    pub reorg_depth: NonZeroU64,
    /// `start`.
    pub start: StartAt,
    /// `poll_interval`; `None` lets the adapter choose what fits the chain.
    pub poll_interval: Option<Duration>,
    /// `fork_grace`.
    pub fork_grace: Duration,
    /// `behind_alarm`.
    pub behind_alarm: Duration,
    /// `span_max`; `None` lets the adapter choose.
    pub span_max: Option<NonZeroU64>,
    /// Counts the requests to its nodes; `confirmd-rpc` does it for those who read through it.
    pub meter: SourceMeter,
}

impl ChainContext {
    /// The requirement for a symbol: its own entry, or the default.
    pub fn requirement(&self, symbol: &str) -> Requirement {
        self.requirements.get(symbol).copied().unwrap_or(self.default_requirement)
    }

    /// Lists an asset under its requirement and its minimum.
    pub fn list(&self, asset: crate::Asset) -> ListedAsset {
        let (requirement, minimum) = (self.requirement(&asset.symbol), self.minimums.get(&asset.symbol).copied());
        ListedAsset { requirement, minimum, asset, delisted: false }
    }
}

/// A kind of chain. Each chain adapter crate exports one as `KIND`.
#[derive(Clone, Copy)]
pub struct ChainKind {
    /// `kind = "..."` in the configuration.
    pub name: &'static str,
    /// One line for `confirmd kinds`.
    pub summary: &'static str,
    /// A commented `[chains.NAME]` table that parses.
    pub example: &'static str,
    /// Builds the source from the adapter's own keys. No I/O. Errors name the key below `[chains.NAME]`.
    pub build: fn(ChainContext, toml::Table) -> Result<Arc<dyn ChainSource>, ConfigError>,
}

/// What a sink is built from.
#[derive(Debug, Clone)]
pub struct SinkContext {
    /// The consumer it serves.
    pub consumer: ConsumerName,
}

/// A kind of sink. Each sink crate exports one as `KIND`.
#[derive(Clone, Copy)]
pub struct SinkKind {
    /// `kind = "..."` in the configuration.
    pub name: &'static str,
    /// One line for `confirmd kinds`.
    pub summary: &'static str,
    /// A commented `[sinks.NAME]` table that parses.
    pub example: &'static str,
    /// Builds the sink from its own keys. No I/O. Errors name the key below `[sinks.NAME]`.
    pub build: fn(SinkContext, toml::Table) -> Result<Arc<dyn Sink>, ConfigError>,
}

/// What is wrong with every request of a forged sink: each is one that a receiver must refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgery {
    /// It is signed with a secret that nobody configured.
    WrongSecret,
    /// The signature is that of another body.
    AlteredBody,
    /// It carries no signature.
    NoSignature,
    /// It is signed rightly, an hour ago: somebody plays it back.
    OldTimestamp,
}

/// Builds, from the same keys as the kind's own `build`, a sink whose every request is wrong in this way. No I/O.
pub type BuildForgedSink = fn(SinkContext, toml::Table, Forgery) -> Result<Arc<dyn Sink>, ConfigError>;

/// The kinds a binary knows.
#[derive(Clone, Default)]
pub struct Registry {
    chains: BTreeMap<&'static str, ChainKind>,
    sinks: BTreeMap<&'static str, SinkKind>,
    forged_sinks: BTreeMap<&'static str, BuildForgedSink>,
    new_heads: BTreeMap<&'static str, BuildNewHeads>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("chains", &self.chains.keys()).field("sinks", &self.sinks.keys()).finish()
    }
}

impl Registry {
    /// Adds a kind of chain; a later one of the same name wins.
    #[must_use]
    pub fn with_chain(mut self, kind: ChainKind) -> Self {
        self.chains.insert(kind.name, kind);
        self
    }

    /// Adds a kind of sink; a later one of the same name wins.
    #[must_use]
    pub fn with_sink(mut self, kind: SinkKind) -> Self {
        self.sinks.insert(kind.name, kind);
        self
    }

    /// Adds how a kind of sink is forged, so that `confirmd conform --sink` can see whether a receiver refuses forgeries. For
    /// kinds whose requests prove where they come from.
    #[must_use]
    pub fn with_forged_sink(mut self, kind: &'static str, build: BuildForgedSink) -> Self {
        self.forged_sinks.insert(kind, build);
        self
    }

    /// How a kind of sink is forged, if it can be.
    pub fn forged_sink(&self, kind: &str) -> Option<BuildForgedSink> {
        self.forged_sinks.get(kind).copied()
    }

    /// Adds how a kind of chain learns of new blocks without asking, for nodes that tell.
    #[must_use]
    pub fn with_new_heads(mut self, kind: &'static str, build: BuildNewHeads) -> Self {
        self.new_heads.insert(kind, build);
        self
    }

    /// How a kind of chain learns of new blocks without asking, if it can.
    pub fn new_heads(&self, kind: &str) -> Option<BuildNewHeads> {
        self.new_heads.get(kind).copied()
    }

    /// A kind of chain; unknown ones list the known.
    pub fn chain(&self, name: &str) -> Result<&ChainKind, ConfigError> {
        self.chains.get(name).ok_or_else(|| unknown("chain", name, self.chains.keys()))
    }

    /// A kind of sink; unknown ones list the known.
    pub fn sink(&self, name: &str) -> Result<&SinkKind, ConfigError> {
        self.sinks.get(name).ok_or_else(|| unknown("sink", name, self.sinks.keys()))
    }

    /// Every kind of chain, by name.
    pub fn chains(&self) -> impl Iterator<Item = &ChainKind> {
        self.chains.values()
    }

    /// Every kind of sink, by name.
    pub fn sinks(&self) -> impl Iterator<Item = &SinkKind> {
        self.sinks.values()
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a &'static str>) -> ConfigError {
    let known: Vec<_> = known.copied().collect();
    ConfigError::new("kind", format!("unknown kind of {what} {name:?}; known: {}", known.join(", ")))
}
