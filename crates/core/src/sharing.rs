//! What instances that share a store tell each other about a chain. Nothing here decides: the version check of a commit does.

use crate::{ChainId, ChangeSet, StateVersion, StoreError};
use async_trait::async_trait;
use std::time::Duration;

/// Whose turn it is to read a chain's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Ours, until the time that was asked for has passed.
    Ours,
    /// Another instance's.
    Theirs {
        /// So much longer, if it gives no further sign of life.
        left: Duration,
    },
}

/// A store that several instances decide on. One with a single owner has no use for it.
#[async_trait]
pub trait Sharing: std::fmt::Debug + Send + Sync {
    /// What was committed after a version, oldest first, without events; `None` if the store does not keep all of it any more:
    /// then the state must be loaded.
    async fn changes_since(&self, chain: &ChainId, version: StateVersion) -> Result<Option<Vec<ChangeSet>>, StoreError>;

    /// Asks for the turn, or keeps it, for so long. Spares the node the reads of many; two instances that believe it is theirs do
    /// no harm.
    async fn turn(&self, chain: &ChainId, hold: Duration) -> Result<Turn, StoreError>;

    /// Lets the turn go: this instance's node does not serve.
    async fn pass(&self, chain: &ChainId) -> Result<(), StoreError>;

    /// Returns when another instance may have changed the chain since this last returned. May return for nothing.
    async fn changed(&self, chain: &ChainId);
}
