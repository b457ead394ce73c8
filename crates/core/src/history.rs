//! The read model: deposits and events, for people, kept for a while.

use crate::{
    Address, Amount, Asset, BlockRef, ChainId, DepositKey, EventId, EventRecord, Position, Sequence, StoreError, Timestamp,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a deposit is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DepositState {
    /// Seen, not deep enough.
    Pending,
    /// Reported, revertible.
    Confirmed,
    /// Reported and final.
    Settled,
    /// Was pending in a block that left the best chain.
    Orphaned,
    /// Was reported, then taken back.
    Reverted,
}

/// A deposit as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositRecord {
    /// Which chain.
    pub chain: ChainId,
    /// Its key.
    pub key: DepositKey,
    /// Who was paid.
    pub address: Address,
    /// The operator's label.
    pub reference: Option<Arc<str>>,
    /// In what.
    pub asset: Asset,
    /// How much, in base units.
    pub amount: Amount,
    /// The block that carries or last carried it.
    pub block: BlockRef,
    /// Where it is in its life.
    pub state: DepositState,
    /// Its last event.
    pub sequence: Sequence,
    /// Where that event is in the outbox.
    pub event: Option<Position>,
    /// When it was first seen.
    pub seen_at: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
}

/// Which deposits to list; every given part must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DepositFilter {
    /// Only of this chain.
    pub chain: Option<ChainId>,
    /// Only to this address (its canonical spelling).
    pub address: Option<String>,
    /// Only with this label.
    pub reference: Option<String>,
    /// Only in this state.
    pub state: Option<DepositState>,
    /// Only of this transaction.
    pub tx_id: Option<String>,
}

/// What is kept for `history` beside what decides.
#[async_trait]
pub trait History: std::fmt::Debug + Send + Sync {
    /// Deposits, newest first by the time they were first seen, after `after` (a record of an earlier page), at most `limit`.
    async fn deposits(
        &self,
        filter: &DepositFilter,
        after: Option<&DepositRecord>,
        limit: usize,
    ) -> Result<Vec<DepositRecord>, StoreError>;

    /// An event by its id, as long as history holds it.
    async fn event(&self, id: &EventId) -> Result<Option<EventRecord>, StoreError>;

    /// Forgets what ended before `before` and nobody waits for (T10, T13). Returns how many events went.
    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError>;
}
