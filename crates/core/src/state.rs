//! A chain's watcher state, and the one way it changes.

use crate::{
    ChainName, Change, ChangeSet, FinalityTag, Halt, Height, Orphaned, Pending, Reported, Rescan, RescanId, Trail, WatchSet,
    held::ByHeight,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many change sets a chain's state has taken. Two ticks from one version can't both be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateVersion(pub u64);

/// Everything the watcher of one chain holds in memory. Settled keys are not here: they are asked by key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainState {
    /// Change sets taken so far.
    pub version: StateVersion,
    /// The operator's name for the chain when it last changed.
    pub name: Option<ChainName>,
    /// The recorded best-chain suffix.
    pub trail: Trail,
    /// The chain's own finality as far as we have seen it; falls only with a branch that is left (S18).
    pub marks: BTreeMap<FinalityTag, Height>,
    /// Addresses and assets.
    pub watch: WatchSet,
    /// Seen, not deep enough.
    pub pending: ByHeight<Pending>,
    /// Confirmed, revertible.
    pub reported: ByHeight<Reported>,
    /// Off the best chain above the floor.
    pub orphaned: ByHeight<Orphaned>,
    /// Rescans, ended ones included.
    pub rescans: BTreeMap<RescanId, Rescan>,
    /// Why it stands still, if it does.
    pub halt: Option<Halt>,
}

impl ChainState {
    /// Takes a committed change set over. `load` after any history of commits equals their application in order (T3).
    pub fn apply(&mut self, set: &ChangeSet) {
        debug_assert_eq!(self.version, set.base, "a change set was applied to a state it was not made from");
        self.version = StateVersion(set.base.0.saturating_add(1));
        set.changes.iter().for_each(|change| self.apply_one(change));
    }

    fn apply_one(&mut self, change: &Change) {
        match change {
            Change::Named(name) => self.name = Some(name.clone()),
            Change::TrailCut(above) => {
                self.trail.cut(*above);
                self.lower_marks(*above);
            }
            Change::TrailPushed(block) => self.trail.push(block),
            Change::TrailJumped(block) => self.trail.jump(block),
            Change::TrailForgot(height) => self.trail.forget(*height),
            Change::FloorRaised(floor) => self.trail.raise_floor(*floor),
            Change::Reanchored(block) => {
                self.trail.cut(block.height);
                self.trail.push(block);
                self.trail.set_floor(block.height, block.height);
                self.lower_marks(block.height);
            }
            Change::MarkRaised(tag, height) => {
                let mark = self.marks.entry(*tag).or_default();
                *mark = (*mark).max(*height);
            }
            Change::PendingPut(pending) => self.pending.put(pending.clone()),
            Change::PendingDropped(key) => drop(self.pending.remove(key)),
            Change::ReportedPut(reported) => self.reported.put(reported.clone()),
            Change::ReportedDropped(key) => drop(self.reported.remove(key)),
            Change::OrphanedPut(orphaned) => self.orphaned.put(orphaned.clone()),
            Change::OrphanedDropped(key) => drop(self.orphaned.remove(key)),
            Change::SmallSeen(_) | Change::Archived(..) => {}
            Change::WatchPut(entry) => self.watch.put_address(entry.clone()),
            Change::WatchForgotten(bytes) => self.watch.forget_address(bytes),
            Change::AssetPut(asset) => self.watch.put_asset(asset.clone()),
            Change::AssetForgotten(id) => self.watch.forget_asset(id),
            Change::RescanPut(rescan) => drop(self.rescans.insert(rescan.id, rescan.clone())),
            Change::Halted(halt) => self.halt = Some(halt.clone()),
            Change::Resumed => self.halt = None,
        }
    }

    /// What was called final above a common ancestor went with its branch.
    fn lower_marks(&mut self, ancestor: Height) {
        self.marks.values_mut().for_each(|mark| *mark = ancestor.min(*mark));
    }
}
