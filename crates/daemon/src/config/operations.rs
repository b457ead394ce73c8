//! `[operations]`: who is told when the instance itself needs a person.

use super::chain::missing_kind;
use confirmd_core::{ConfigError, ConsumerName, HumanDuration, Registry, Sink, SinkContext};
use serde::Deserialize;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// `[operations]` as it is written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationsSection {
    /// Reorgs that go back at least so many blocks are told.
    #[serde(default = "OperationsSection::default_reorg_blocks")]
    pub reorg_blocks: NonZeroU64,
    /// A consumer no attempt for which succeeded for so long is told of.
    #[serde(default = "OperationsSection::default_failing_after")]
    pub failing_after: HumanDuration,
    /// A sink's own table: `kind`, and the keys of that kind. Required.
    #[serde(default)]
    pub sink: toml::Table,
}

impl OperationsSection {
    fn default_reorg_blocks() -> NonZeroU64 {
        NonZeroU64::new(3).expect("invariant: not zero")
    }

    fn default_failing_after() -> HumanDuration {
        HumanDuration(Duration::from_secs(600))
    }
}

/// Who is told, and of what.
#[derive(Debug)]
pub struct OperationsConfig {
    /// Reorgs that go back at least so many blocks are told.
    pub reorg_blocks: NonZeroU64,
    /// A consumer no attempt for which succeeded for so long is told of.
    pub failing_after: Duration,
    /// Built, nothing contacted. Is no consumer: it gets no deposits and has no delivery records.
    pub sink: Arc<dyn Sink>,
}

impl OperationsConfig {
    /// Builds the sink. Errors name the key below `[operations]`.
    pub(super) fn build(section: OperationsSection, registry: &Registry) -> Result<Self, ConfigError> {
        let OperationsSection { reorg_blocks, failing_after, mut sink } = section;
        if failing_after.0.is_zero() {
            return Err(ConfigError::new("failing_after", "0 would tell of every failed attempt; write \"10m\", say"));
        }
        let below = |error: ConfigError| error.below("sink");
        let kind = match sink.remove("kind") {
            Some(toml::Value::String(kind)) => kind,
            _ => return Err(below(missing_kind(registry.sinks().map(|kind| kind.name)))),
        };
        let kind = registry.sink(&kind).map_err(below)?;
        let consumer = ConsumerName::new("operations").expect("invariant: a valid name");
        let sink = (kind.build)(SinkContext { consumer }, sink).map_err(below)?;
        if sink.books().is_some() {
            let problem = format!(
                "{:?} keeps books of deposits; operational events go to a kind that only sends, webhook or file, say",
                kind.name
            );
            return Err(ConfigError::new("sink.kind", problem));
        }
        Ok(Self { reorg_blocks, failing_after: failing_after.0, sink })
    }
}
