//! What a chain is doing, for people and metrics.

use super::rescan::RescanStatus;
use confirmd_core::{BlockRef, ChainId, ChainName, ChainState, FinalityTag, Halt, Height, Timestamp};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the watcher of a chain is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum Phase {
    /// Nothing was read yet.
    Starting,
    /// Far below the source's tip.
    CatchingUp,
    /// At the tip.
    Following,
    /// The source's chain ends below our tip and contradicts nothing.
    Behind {
        /// Since when.
        since: Timestamp,
        /// Longer than the configured alarm.
        alarm: bool,
    },
    /// A fork that is not longer than our trail is waited for. Nothing is confirmed meanwhile.
    WaitingForFork {
        /// Where it parts from our trail.
        ancestor: BlockRef,
        /// Since when.
        since: Timestamp,
    },
    /// Stopped until an operator resumes it.
    Halted {
        /// Why and since when.
        halt: Halt,
    },
    /// The source gives no answer; tried again at every poll.
    Unreachable {
        /// Since when.
        since: Timestamp,
        /// The last error, with its causes.
        error: String,
    },
}

impl Phase {
    /// One word, for logs and lists.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::CatchingUp => "catching up",
            Self::Following => "following",
            Self::Behind { .. } => "behind",
            Self::WaitingForFork { .. } => "waiting for fork",
            Self::Halted { .. } => "halted",
            Self::Unreachable { .. } => "unreachable",
        }
    }
}

/// The last time blocks left the best chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastReorg {
    /// The common ancestor.
    pub ancestor: BlockRef,
    /// Blocks of the trail that were replaced.
    pub orphaned: u64,
    /// Reverted events it caused.
    pub reverted: u64,
    /// When it was taken over.
    pub at: Timestamp,
}

/// A chain's status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainStatus {
    /// The operator's name.
    pub name: ChainName,
    /// The CAIP-2 id.
    pub chain: ChainId,
    /// What it is doing.
    #[serde(flatten)]
    pub phase: Phase,
    /// The highest recorded block.
    pub trail_tip: Option<BlockRef>,
    /// The source's tip when last asked.
    pub source_tip: Option<BlockRef>,
    /// At or below it everything is final.
    pub floor: Height,
    /// The chain's own finality as far as seen.
    pub marks: BTreeMap<FinalityTag, Height>,
    /// Deposits seen, not deep enough.
    pub pending: usize,
    /// Deposits reported and revertible.
    pub reported: usize,
    /// Watched addresses, leaving ones included.
    pub watched: usize,
    /// Rescans that are open, then the last of those that ended.
    pub rescans: Vec<RescanStatus>,
    /// The last reorg since the start of this process.
    pub last_reorg: Option<LastReorg>,
    /// When the status was last written.
    pub changed_at: Timestamp,
}

impl ChainStatus {
    pub(super) fn new(name: ChainName, chain: ChainId) -> Self {
        Self {
            name,
            chain,
            phase: Phase::Starting,
            trail_tip: None,
            source_tip: None,
            floor: Height::default(),
            marks: BTreeMap::new(),
            pending: 0,
            reported: 0,
            watched: 0,
            rescans: Vec::new(),
            last_reorg: None,
            changed_at: Timestamp::default(),
        }
    }

    pub(super) fn take(&mut self, state: &ChainState) {
        self.trail_tip = state.trail.tip();
        self.floor = state.trail.floor();
        self.marks = state.marks.clone();
        self.pending = state.pending.len();
        self.reported = state.reported.len();
        self.watched = state.watch.len();
    }
}
