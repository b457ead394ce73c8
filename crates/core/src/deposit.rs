//! A deposit's life: pending, reported, then settled; or orphaned.

use crate::{Amount, BlockRef, DepositKey, EventRecord, Height, KeyDigest, Sequence, Transfer};
use serde::{Deserialize, Serialize};

/// Seen but not yet deep enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// As it sits in its block.
    pub transfer: Transfer,
    /// The key's last event; [`Sequence::NONE`] or even.
    pub last_sequence: Sequence,
}

/// Confirmed to the consumers and still revertible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// As it sits in its block.
    pub transfer: Transfer,
    /// The confirmed event's sequence; odd.
    pub sequence: Sequence,
}

/// Its block left the best chain above the floor; it may come back, in another block or with another payment.
/// Remembered until the floor passes its height, so that a removed address or delisted asset still finishes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphaned {
    /// As it sat in the orphaned block.
    pub transfer: Transfer,
    /// The key's last event; [`Sequence::NONE`] if it was only pending, else even.
    pub last_sequence: Sequence,
}

/// Seen, and less than the operator wants to hear of. Written down for people as long as history goes back, and held nowhere: whatever is
/// decided later is decided as if it had not been seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Small {
    /// As it sits in its block.
    pub transfer: Transfer,
    /// What it does not reach.
    pub minimum: Amount,
    /// The key's last event; [`Sequence::NONE`] or even.
    pub last_sequence: Sequence,
}

/// What is kept for ever of a key: settled if its sequence is odd, reverted for good (so far) if even.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archived {
    /// The height of the block that last carried it.
    pub height: Height,
    /// Its last event.
    pub sequence: Sequence,
}

/// A settled deposit as a store finds it again; its event is gone once history has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledDeposit {
    /// Stands for the key.
    pub digest: KeyDigest,
    /// Height and sequence.
    pub archived: Archived,
    /// The confirmed event, where history still holds it.
    pub event: Option<EventRecord>,
}

/// What pending, reported and orphaned have in common.
pub trait Held {
    /// As it sits (or sat) in its block.
    fn transfer(&self) -> &Transfer;
    /// Its key.
    fn key(&self) -> &DepositKey {
        &self.transfer().key
    }
    /// Its block.
    fn block(&self) -> &BlockRef {
        &self.transfer().block
    }
}

impl Held for Pending {
    fn transfer(&self) -> &Transfer {
        &self.transfer
    }
}
impl Held for Reported {
    fn transfer(&self) -> &Transfer {
        &self.transfer
    }
}
impl Held for Orphaned {
    fn transfer(&self) -> &Transfer {
        &self.transfer
    }
}
