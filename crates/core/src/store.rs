//! Where a chain's state is written down.

use crate::{
    Archived, ChainId, ChainState, ChangeSet, CommitReceipt, DepositKey, Epoch, Height, Rescan, SettledDeposit, StateVersion,
    WatchEntry,
};
use async_trait::async_trait;
use std::collections::BTreeMap;

crate::text_id::text_id!(
    /// Names a store for ever; a copy of it has the same name, one that is made anew has another.
    StoreId, "a store id", "32 hex digits", |text| text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
);

/// What went wrong in a store; the variants are what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another owner committed first. Nothing was written: load again and decide anew.
    #[error("the state of {chain} has moved on from version {} to {}", .expected.0, .found.0)]
    Conflict {
        /// Which chain.
        chain: ChainId,
        /// The change set's base.
        expected: StateVersion,
        /// What the store holds.
        found: StateVersion,
    },
    /// The outcome is unknown: nothing may be decided or delivered from this handle before the store is opened again.
    #[error("{context}; what was written is unknown until the store is opened again")]
    Unknown {
        /// What was tried.
        context: String,
        /// Why it failed.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// Damaged, of another format, in use, not initialised: an operator is needed. The text says what to do.
    #[error("{context}")]
    Refused {
        /// What is wrong and what to do.
        context: String,
        /// Why.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// What was asked for does not exist, or can't be done in its present state.
    #[error("{0}")]
    Invalid(String),
}

/// Watcher state, one chain at a time. Every method may run at the same time as others; dropping a call's future
/// leaves the store consistent (a commit whose future was dropped may or may not have happened).
#[async_trait]
pub trait StateStore: std::fmt::Debug + Send + Sync {
    /// This state's epoch: its creation time.
    fn epoch(&self) -> Epoch;

    /// This store's name; constant.
    fn identity(&self) -> StoreId;

    /// The chains that have a state, by id.
    async fn chains(&self) -> Result<Vec<ChainId>, StoreError>;

    /// A chain's state; `None` before its first commit. Equals the application of all its committed change sets (T3).
    async fn load(&self, chain: &ChainId) -> Result<Option<ChainState>, StoreError>;

    /// Of these keys, the archived ones (settled, or reverted below the floor). Cost follows the number of keys asked (T5).
    async fn settled_among(&self, chain: &ChainId, keys: &[DepositKey]) -> Result<BTreeMap<DepositKey, Archived>, StoreError>;

    /// Settled deposits (odd sequences only) in blocks above a height, for an operator who accepts a deep reorg. Scans.
    async fn settled_above(&self, chain: &ChainId, height: Height) -> Result<Vec<SettledDeposit>, StoreError>;

    /// Watched addresses in the order of their bytes, after those of `after`, at most `limit`.
    async fn watched(&self, chain: &ChainId, after: Option<&[u8]>, limit: usize) -> Result<Vec<WatchEntry>, StoreError>;

    /// A chain's rescans, ended ones included, by number.
    async fn rescans(&self, chain: &ChainId) -> Result<Vec<Rescan>, StoreError>;

    /// Writes state and outbox in one atomic, durable commit (T1, T2). Errors: `Conflict` wrote nothing;
    /// `Unknown` may have written everything (T12).
    async fn commit(&self, changes: ChangeSet) -> Result<CommitReceipt, StoreError>;
}
