//! The order of a key's events: sequence within a state, epoch across states.

use crate::{EventKind, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Per deposit key: 0 = never reported, 1 = first confirmed, 2 = its reverted, 3 = confirmed again, …
/// Odd stands, even does not. Kept for ever for every key ever reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Never reported.
    pub const NONE: Self = Self(0);

    /// The next event's sequence.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Whether the last event left the deposit standing.
    pub fn stands(self) -> bool {
        self.0 % 2 == 1
    }

    /// The kind an event with this sequence has; `None` for 0.
    pub fn kind(self) -> Option<EventKind> {
        match (self.0, self.stands()) {
            (0, _) => None,
            (_, true) => Some(EventKind::Confirmed),
            (_, false) => Some(EventKind::Reverted),
        }
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A state's creation time in Unix seconds. A rebuilt or restored state takes a new one;
/// events of a key are ordered by (epoch, sequence).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of a state that is put back from a copy at this time: greater than any it ever had, also where the clock went back.
    #[must_use]
    pub fn restored(self, now: Timestamp) -> Self {
        Self(now.seconds().max(self.0.saturating_add(1)))
    }
}
