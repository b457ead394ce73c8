//! The records as they are written. Their bytes are pinned by a golden test; a change needs a new format version.

use crate::census::Census;
use crate::keys::{ChainNumber, ConsumerNumber};
use confirmd_core::{
    Archived, Attempt, AttemptOutcome, ChainId, ChainName, ConsumerFilter, ConsumerName, DepositRecord, Epoch, Event,
    FinalityTag, Height, KeyDigest, OpenDelivery, OpenState, Position, Timestamp,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The format of the store as a whole. 2: with a census. 3: watched addresses in files of their own.
/// 4: with a minimum for each asset and with informative events.
pub(crate) const FORMAT: u32 = 4;

/// The store's own record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta {
    pub(crate) format: u32,
    pub(crate) epoch: Epoch,
    pub(crate) instance: [u8; 16],
    pub(crate) created_at: Timestamp,
}

/// Counters that move with every commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) commits: u64,
    pub(crate) next_position: Position,
    pub(crate) next_chain: ChainNumber,
    pub(crate) next_consumer: ConsumerNumber,
    /// As in `Meta`, which is written once: one of them may be an older record.
    pub(crate) epoch: Epoch,
    pub(crate) census: Census,
    /// Where the last informative event is; before it there may be others.
    pub(crate) last_notice: Option<Position>,
}

impl Progress {
    /// Of a store that holds nothing.
    pub(crate) fn new(epoch: Epoch) -> Self {
        let (next_chain, next_consumer, census) = (1, 1, Census::default());
        Self { commits: 1, next_position: Position(1), next_chain, next_consumer, epoch, census, last_notice: None }
    }
}

/// A chain's state except its many parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeadRow {
    pub(crate) chain: ChainId,
    pub(crate) version: u64,
    pub(crate) name: Option<ChainName>,
    pub(crate) floor: Height,
    pub(crate) linked_from: Height,
    pub(crate) marks: Vec<(FinalityTag, Height)>,
    /// JSON, since its enum names its kind within itself.
    pub(crate) halt: Option<String>,
}

/// The files of a chain's watched addresses, and what they must be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct WatchListRow {
    pub(crate) next_file: u64,
    /// Oldest first.
    pub(crate) segments: Vec<WatchSegmentRow>,
    pub(crate) log: Option<WatchLogRow>,
}

/// A segment: its index, which has this checksum, begins at `index_at` and ends the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WatchSegmentRow {
    pub(crate) file: u64,
    pub(crate) records: u64,
    pub(crate) index_at: u64,
    pub(crate) bytes: u64,
    pub(crate) sum: u32,
}

/// As much of a log as was committed, and the checksum over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WatchLogRow {
    pub(crate) file: u64,
    pub(crate) bytes: u64,
    pub(crate) sum: u32,
}

/// A pending, reported or orphaned deposit, with the position of its key's last event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldRow<T> {
    pub(crate) deposit: T,
    pub(crate) event: Option<Position>,
}

/// What is kept for ever of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchiveRow {
    pub(crate) chain: ChainNumber,
    pub(crate) archived: Archived,
    pub(crate) event: Option<Position>,
}

/// An event in the outbox; its position is its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventRow {
    pub(crate) event: Event,
    pub(crate) body: Arc<[u8]>,
}

/// A consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConsumerRow {
    pub(crate) name: ConsumerName,
    pub(crate) filter: ConsumerFilter,
    /// Events before it are not this consumer's.
    pub(crate) began: Position,
    /// Every event below is delivered, not for this consumer, given up, or has a record.
    pub(crate) cursor: Position,
    pub(crate) paused: Option<String>,
}

/// An undelivered event below the cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenRow {
    key: KeyDigest,
    state: OpenStateRow,
    attempts: u32,
    attempts_ever: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum OpenStateRow {
    Queued,
    Retrying { at: Timestamp },
    Dead,
}

impl From<OpenDelivery> for OpenRow {
    fn from(open: OpenDelivery) -> Self {
        let state = match open.state {
            OpenState::Queued => OpenStateRow::Queued,
            OpenState::Retrying { at } => OpenStateRow::Retrying { at },
            OpenState::Dead => OpenStateRow::Dead,
        };
        Self { key: open.key, state, attempts: open.attempts, attempts_ever: open.attempts_ever }
    }
}

impl From<OpenRow> for OpenDelivery {
    fn from(row: OpenRow) -> Self {
        let state = match row.state {
            OpenStateRow::Queued => OpenState::Queued,
            OpenStateRow::Retrying { at } => OpenState::Retrying { at },
            OpenStateRow::Dead => OpenState::Dead,
        };
        Self { key: row.key, state, attempts: row.attempts, attempts_ever: row.attempts_ever }
    }
}

/// An event an operator gave up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SkippedRow {
    pub(crate) at: Timestamp,
    pub(crate) attempts: u32,
}

/// A failed attempt; what the other side answered stands beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptRow {
    pub(crate) number: u32,
    pub(crate) at: Timestamp,
    pub(crate) outcome: AttemptOutcome,
    pub(crate) status: Option<u16>,
    pub(crate) error: String,
}

impl From<&Attempt> for AttemptRow {
    fn from(attempt: &Attempt) -> Self {
        let Attempt { number, at, outcome, status, error, .. } = attempt.clone();
        Self { number, at, outcome, status, error }
    }
}

impl AttemptRow {
    pub(crate) fn with(self, excerpt: Option<String>) -> Attempt {
        let Self { number, at, outcome, status, error } = self;
        Attempt { number, at, outcome, status, error, excerpt }
    }
}

/// A deposit of the read model.
pub(crate) type DepositRow = DepositRecord;

#[cfg(test)]
mod tests;
