//! What a node tells of its own accord: a wake-up, never a fact.

use crate::{ChainContext, ConfigError, SourceError};
use async_trait::async_trait;
use std::sync::Arc;

/// Learns from a node that there may be a new block. Nothing is decided by it: it only makes the watcher look at once instead
/// of at its next poll, and whatever is missed is found by that poll.
#[async_trait]
pub trait NewHeads: std::fmt::Debug + Send + Sync {
    /// Returns when there may be something new. May be dropped at any await, and asked again.
    ///
    /// # Errors
    /// The node tells nothing (any more); the next call tries anew. The caller paces the calls that follow an error.
    async fn next(&self) -> Result<(), SourceError>;
}

/// Builds it from the same keys as the kind's own `build`. No I/O. `None` where the operator did not ask for it.
pub type BuildNewHeads = fn(&ChainContext, toml::Table) -> Result<Option<Arc<dyn NewHeads>>, ConfigError>;
