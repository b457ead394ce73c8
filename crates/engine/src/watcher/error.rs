//! Why a watcher could not do what it was asked.

use confirmd_core::{SourceError, StoreError};

/// What a caller of the watcher does next.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The store failed; see its kinds.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The source failed while a command needed it: try the command again.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The command can't be carried out in the chain's present state; the text says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// The watcher has stopped.
    #[error("the watcher of this chain is not running")]
    Stopped,
}
