//! What a store keeps of a queue.

use crate::{KeyDigest, Position, Timestamp};

/// Where an undelivered event is, as a store keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenState {
    /// Waits for its first attempt since it was queued, or behind an earlier event of its key.
    Queued,
    /// An attempt failed.
    Retrying {
        /// When the next one is due.
        at: Timestamp,
    },
    /// The last attempt failed.
    Dead,
}

/// One undelivered event, as a store keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenDelivery {
    /// Which deposit; events of one key go out in order.
    pub key: KeyDigest,
    /// Where it is.
    pub state: OpenState,
    /// Failed attempts since it was last queued.
    pub attempts: u32,
    /// Failed attempts ever.
    pub attempts_ever: u32,
}

/// What a store writes so that a restart finds the queue as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueChanges {
    /// Every event below is delivered, not for this consumer, given up, or has a record.
    pub cursor: Position,
    /// Records to write.
    pub put: Vec<(Position, OpenDelivery)>,
    /// Records to remove.
    pub gone: Vec<Position>,
}

/// How many undelivered events are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounts {
    /// Queued or retrying, blocked ones included.
    pub waiting: usize,
    /// Of these, after a failed attempt.
    pub retrying: usize,
    /// Dead letters.
    pub dead: usize,
    /// Of the waiting ones, behind a dead one of their key.
    pub blocked: usize,
}
