//! The read model: deposits and events, for people, kept for a while.

use crate::text_id::{is_name, text_id};
use crate::{
    Address, Amount, Asset, BlockRef, ChainId, DepositKey, EventId, EventRecord, FinalityTag, Height, Position, Sequence,
    StoreError, Timestamp,
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
    /// Seen, below its asset's minimum: written down, never reported.
    #[serde(rename = "below_minimum")]
    BelowMinimum,
}

impl DepositState {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Confirmed, Self::Settled, Self::Orphaned, Self::Reverted, Self::BelowMinimum];

    /// Whether nothing follows by itself, so that history may forget it.
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Confirmed)
    }
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
    /// Only this output of a transaction.
    pub output_index: Option<u32>,
    /// Only in this asset, by its id or the operator's symbol.
    pub asset: Option<String>,
    /// Only first seen at this time or later.
    pub seen_from: Option<Timestamp>,
    /// Only first seen before this time.
    pub seen_before: Option<Timestamp>,
}

/// What made a deposit deep enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Confirmations the operator asks for.
    pub at_least: u32,
    /// Confirmations the chain itself asks for (coinbase outputs, say).
    pub maturity: Option<u32>,
    /// The chain's own finality the operator asks for, and how far it had come.
    pub tag: Option<(FinalityTag, Option<Height>)>,
}

/// What happened to a deposit in one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LifeEvent {
    /// Seen in this block, not deep enough.
    Seen(BlockRef),
    /// Decided: it stands.
    Confirmed {
        /// Which event says so.
        event: EventId,
        /// Its sequence.
        sequence: Sequence,
        /// The block that carries it.
        block: BlockRef,
        /// The block itself counts.
        confirmations: u64,
        /// What it was measured by; `None` for an asset that is no longer listed.
        rule: Option<Rule>,
    },
    /// Decided: the chain took it back.
    Reverted {
        /// Which event says so.
        event: EventId,
        /// Its sequence.
        sequence: Sequence,
        /// The block that carried it.
        block: BlockRef,
        /// Where the reorg began, if one did it.
        ancestor: Option<BlockRef>,
    },
    /// Its block left the best chain before it was deep enough.
    Left {
        /// The block that carried it.
        block: BlockRef,
        /// Where the reorg began.
        ancestor: Option<BlockRef>,
    },
    /// Final: at or below this floor.
    Settled(Height),
    /// Seen in this block, below the minimum of its asset.
    BelowMinimum {
        /// The block that carries it.
        block: BlockRef,
        /// What it does not reach, in base units.
        minimum: Amount,
    },
}

/// One step of a deposit's life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifeStep {
    /// When it was committed.
    pub at: Timestamp,
    /// What happened.
    pub what: LifeEvent,
}

/// Blocks of a reorg that are named; further ones are counted.
pub const REORG_BLOCKS_MAX: usize = 32;

/// A reorg that was followed, or accepted by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReorgRecord {
    /// When it was committed.
    pub at: Timestamp,
    /// The last common block.
    pub ancestor: BlockRef,
    /// How many blocks of the trail were replaced.
    pub depth: u64,
    /// The highest of them, highest first, at most [`REORG_BLOCKS_MAX`].
    pub orphaned: Vec<BlockRef>,
    /// Reported deposits that were taken back.
    pub reverted: u64,
    /// Pending deposits whose block left.
    pub dropped: u64,
    /// Whether an operator accepted it: it reached below the floor.
    pub accepted: bool,
}

text_id!(
    /// A reader's name for its place in the events.
    CursorName, "a cursor name", "1 to 64 of [-_a-z0-9], starting with a letter or digit", is_name
);

/// Where a reader that pulls events has come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullCursor {
    /// The reader's name for it.
    pub name: CursorName,
    /// Every event up to here was taken.
    pub after: Position,
    /// When it was last used.
    pub used_at: Timestamp,
    /// It was idle for longer than history; events behind it may be gone. It holds nothing any more.
    pub expired: bool,
}

/// More readers than anyone has.
pub const CURSORS_MAX: usize = 100;

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

    /// Events behind a position in outbox order, at most `limit` (and never more than 1,000), as far as history holds them.
    async fn events(&self, after: Position, limit: usize) -> Result<Vec<EventRecord>, StoreError>;

    /// What happened to a deposit, oldest first, as far as history holds it.
    async fn life(&self, chain: &ChainId, key: &DepositKey) -> Result<Vec<LifeStep>, StoreError>;

    /// Reorgs of a chain, newest first, at most `limit`, as far as history holds them.
    async fn reorgs(&self, chain: &ChainId, limit: usize) -> Result<Vec<ReorgRecord>, StoreError>;

    /// Every reader's cursor, by name.
    async fn cursors(&self) -> Result<Vec<PullCursor>, StoreError>;

    /// Writes a cursor down, or replaces it. `Invalid` beyond [`CURSORS_MAX`].
    async fn put_cursor(&self, cursor: &PullCursor) -> Result<(), StoreError>;

    /// Forgets a cursor; whether there was one.
    async fn remove_cursor(&self, name: &CursorName) -> Result<bool, StoreError>;

    /// Forgets what ended before `before` and nobody waits for: no consumer, and no cursor that was used since (T10, T13). A cursor
    /// that was not used since expires. Returns how many events went.
    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError>;
}
