//! A change set: the only way a chain's state changes, committed whole or not at all (G5).

use crate::{
    AssetId, BlockRef, ChainId, ChainName, DepositKey, Event, FinalityTag, Halt, Height, ListedAsset, Orphaned, Pending,
    Position, Reported, Rescan, Small, StateVersion, Trail, WatchEntry, deposit::Archived,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One step of a change set; applied in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The operator's name for the chain, kept for people who read the state without a configuration.
    Named(ChainName),
    /// Forget every ref above this height, and what was called final there.
    TrailCut(Height),
    /// A block that links to the trail's tip, or the first one.
    TrailPushed(BlockRef),
    /// A block far below the source's tip, entered without a link.
    TrailJumped(BlockRef),
    /// A sparse ref that is no longer needed.
    TrailForgot(Height),
    /// The floor; only ever higher.
    FloorRaised(Height),
    /// An accepted reorg below the floor: the trail starts anew at this block, which is also the floor.
    Reanchored(BlockRef),
    /// The chain's own finality; only ever higher.
    MarkRaised(FinalityTag, Height),
    /// Seen, not deep enough.
    PendingPut(Pending),
    /// Confirmed, or orphaned.
    PendingDropped(DepositKey),
    /// Confirmed, revertible.
    ReportedPut(Reported),
    /// Reverted, or settled.
    ReportedDropped(DepositKey),
    /// Its block left the best chain.
    OrphanedPut(Orphaned),
    /// Seen again, or below the floor.
    OrphanedDropped(DepositKey),
    /// Seen, below its asset's minimum.
    SmallSeen(Small),
    /// Kept for ever by key.
    Archived(DepositKey, Archived),
    /// An address was added, removed or changed.
    WatchPut(WatchEntry),
    /// Nothing is held for a removed address any more. Carries the address' bytes.
    WatchForgotten(Arc<[u8]>),
    /// An asset was listed, changed or delisted.
    AssetPut(ListedAsset),
    /// Nothing is held for a delisted asset any more.
    AssetForgotten(AssetId),
    /// A rescan was asked for, went on, or ended.
    RescanPut(Rescan),
    /// The chain stops.
    Halted(Halt),
    /// An operator resumed it.
    Resumed,
}

/// Everything one tick, or one command, changes in one chain: state and outbox together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    /// Which chain.
    pub chain: ChainId,
    /// The version of the state it was made from; a store refuses it if the state has moved on.
    pub base: StateVersion,
    /// In order.
    pub changes: Vec<Change>,
    /// In order; reverted before the confirmed of the same key, informative ones at their place among a key's. The store gives each the
    /// next position.
    pub events: Vec<(Event, Arc<[u8]>)>,
}

impl ChangeSet {
    /// Nothing yet.
    pub fn new(chain: ChainId, base: StateVersion) -> Self {
        Self { chain, base, changes: Vec::new(), events: Vec::new() }
    }

    /// Whether a commit would change nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.events.is_empty()
    }

    /// The block this set goes back to on the trail before it, and whether an operator accepted that (such a set may cut and
    /// anchor anew).
    pub fn rollback(&self, before: &Trail) -> Option<(BlockRef, bool)> {
        let anchored = self.changes.iter().find_map(|change| match change {
            Change::Reanchored(block) => Some((block.clone(), true)),
            _ => None,
        });
        anchored.or_else(|| {
            self.changes.iter().find_map(|change| match change {
                Change::TrailCut(above) => Some((BlockRef { height: *above, hash: before.hash_at(*above)?.clone() }, false)),
                _ => None,
            })
        })
    }

    /// The height above which blocks leave the best chain, if any do.
    pub fn lowest_cut(&self) -> Option<Height> {
        let cuts = self.changes.iter().filter_map(|change| match change {
            Change::TrailCut(above) => Some(*above),
            Change::Reanchored(block) => Some(block.height),
            _ => None,
        });
        cuts.min()
    }

    /// The decisions among its events: what the state and the read model follow from.
    pub fn decisions(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().map(|(event, _)| event).filter(|event| event.decides())
    }

    /// Adds an event and freezes its body.
    pub fn push_event(&mut self, event: Event) {
        let body = event.to_body().into();
        self.events.push((event, body));
    }
}

/// What a commit gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The state's version from here on.
    pub version: StateVersion,
    /// The first event's position, if there were events; the others follow without a gap.
    pub first_event: Option<Position>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::BlockHash;

    #[test]
    fn going_back_below_the_floor_is_told_as_accepted_though_the_trail_is_cut_first() {
        let block = |height: u64| BlockRef { height: Height(height), hash: BlockHash::new(format!("b{height}")).unwrap() };
        let mut trail = Trail::default();
        (1..=5).for_each(|height| trail.push(&block(height)));
        let mut set = ChangeSet::new(ChainId::new("scripted:one").unwrap(), StateVersion(0));
        assert_eq!(set.rollback(&trail), None);
        set.changes = vec![Change::TrailCut(Height(3))];
        assert_eq!(set.rollback(&trail), Some((block(3), false)));
        set.changes.push(Change::Reanchored(block(3)));
        assert_eq!(set.rollback(&trail), Some((block(3), true)));
    }
}
