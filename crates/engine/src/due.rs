//! Which pending deposits may be deep enough now, found without looking at the others.

use confirmd_core::{ChainState, Change, DepositKey, FinalityTag, Height, Pending, WatchSet};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Pending keys by the tip height that gives them enough confirmations, or, under a finality policy, by their block's height.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueIndex {
    by_tip: BTreeSet<(Height, DepositKey)>,
    by_mark: BTreeMap<FinalityTag, BTreeSet<(Height, DepositKey)>>,
    slots: HashMap<DepositKey, Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Tip(Height),
    Mark(FinalityTag, Height),
}

/// Confirmations a pending deposit needs: its asset's policy or its own maturity, whichever is more.
pub(crate) fn needed(pending: &Pending, watch: &WatchSet) -> Option<(u64, Option<FinalityTag>)> {
    let requirement = watch.asset(&pending.transfer.payment.asset)?.requirement;
    let maturity = pending.transfer.maturity.map_or(0, u32::from);
    Some((u64::from(u32::from(requirement.at_least).max(maturity)), requirement.tag))
}

impl DueIndex {
    /// From scratch: at load, and whenever a policy has changed.
    pub fn of(state: &ChainState) -> Self {
        let mut index = Self::default();
        state.pending.iter().for_each(|pending| index.put(pending, &state.watch));
        index
    }

    /// Follows a committed change. `watch` is the set after the change set.
    pub fn apply(&mut self, change: &Change, watch: &WatchSet) {
        match change {
            Change::PendingPut(pending) => self.put(pending, watch),
            Change::PendingDropped(key) => self.remove(key),
            _ => {}
        }
    }

    /// Keys that may be deep enough with this tip and these marks.
    pub fn candidates<'a>(
        &'a self,
        tip: Height,
        marks: &'a BTreeMap<FinalityTag, Height>,
    ) -> impl Iterator<Item = &'a DepositKey> + 'a {
        let by_tip = self.by_tip.iter().take_while(move |(due, _)| *due <= tip);
        let by_mark = self.by_mark.iter().filter_map(|(tag, keys)| marks.get(tag).map(|mark| (*mark, keys)));
        let by_mark = by_mark.flat_map(|(mark, keys)| keys.iter().take_while(move |(height, _)| *height <= mark));
        by_tip.chain(by_mark).map(|(_, key)| key)
    }

    /// Whether something waits for this tag.
    pub fn waits_for(&self, tag: FinalityTag) -> bool {
        self.by_mark.get(&tag).is_some_and(|keys| !keys.is_empty())
    }

    fn put(&mut self, pending: &Pending, watch: &WatchSet) {
        let key = &pending.transfer.key;
        self.remove(key);
        let Some((confirmations, tag)) = needed(pending, watch) else { return };
        let height = pending.transfer.block.height;
        let slot = match tag {
            None => Slot::Tip(height.plus(confirmations.saturating_sub(1))),
            Some(tag) => Slot::Mark(tag, height),
        };
        match slot {
            Slot::Tip(due) => drop(self.by_tip.insert((due, key.clone()))),
            Slot::Mark(tag, height) => drop(self.by_mark.entry(tag).or_default().insert((height, key.clone()))),
        }
        self.slots.insert(key.clone(), slot);
    }

    fn remove(&mut self, key: &DepositKey) {
        match self.slots.remove(key) {
            Some(Slot::Tip(due)) => drop(self.by_tip.remove(&(due, key.clone()))),
            Some(Slot::Mark(tag, height)) => {
                if let Some(keys) = self.by_mark.get_mut(&tag) {
                    keys.remove(&(height, key.clone()));
                    if keys.is_empty() {
                        self.by_mark.remove(&tag);
                    }
                }
            }
            None => {}
        }
    }
}
