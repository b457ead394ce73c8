//! A change set in the making: the state as it will be, laid over the state as it is.

use super::Rules;
use confirmd_core::{
    Archived, ByHeight, ChainState, Change, ChangeSet, DepositKey, Height, Held, Notice, Orphaned, Pending, Reported, Sequence,
    Small, Timestamp, Transfer, WatchEntry,
};
use std::collections::{BTreeMap, HashSet};

/// Held deposits with their changes laid over. Only the net change is committed.
pub(crate) struct Overlay<'a, T> {
    base: &'a ByHeight<T>,
    changed: BTreeMap<DepositKey, Option<T>>,
}

impl<'a, T: Held + Clone> Overlay<'a, T> {
    fn new(base: &'a ByHeight<T>) -> Self {
        Self { base, changed: BTreeMap::new() }
    }

    pub(crate) fn get(&self, key: &DepositKey) -> Option<&T> {
        match self.changed.get(key) {
            Some(changed) => changed.as_ref(),
            None => self.base.get(key),
        }
    }

    pub(crate) fn put(&mut self, value: T) {
        self.changed.insert(value.key().clone(), Some(value));
    }

    pub(crate) fn drop(&mut self, key: &DepositKey) {
        if self.get(key).is_some() {
            self.changed.insert(key.clone(), None);
        }
    }

    /// As it will be, in blocks at or below a height; by key.
    pub(crate) fn at_or_below(&self, height: Height) -> Vec<T> {
        let kept = self.base.at_or_below(height).filter(|value| !self.changed.contains_key(value.key()));
        let changed = self.changed.values().flatten().filter(|value| value.block().height <= height);
        kept.chain(changed).cloned().collect()
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        let kept = self.base.iter().filter(|value| !self.changed.contains_key(value.key()));
        kept.chain(self.changed.values().flatten())
    }

    fn into_changes(self, put: fn(T) -> Change, dropped: fn(DepositKey) -> Change) -> Vec<Change> {
        let base = self.base;
        let net = self.changed.into_iter().filter_map(|(key, value)| match value {
            Some(value) => Some(put(value)),
            None => base.get(&key).is_some().then(|| dropped(key)),
        });
        net.collect()
    }
}

/// See the module.
pub(crate) struct Draft<'a> {
    pub(crate) state: &'a ChainState,
    pub(crate) rules: &'a Rules,
    pub(crate) pending: Overlay<'a, Pending>,
    pub(crate) reported: Overlay<'a, Reported>,
    pub(crate) orphaned: Overlay<'a, Orphaned>,
    small: Vec<Small>,
    archived: BTreeMap<DepositKey, Archived>,
    set: ChangeSet,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(state: &'a ChainState, rules: &'a Rules) -> Self {
        Self {
            state,
            rules,
            pending: Overlay::new(&state.pending),
            reported: Overlay::new(&state.reported),
            orphaned: Overlay::new(&state.orphaned),
            small: Vec::new(),
            archived: BTreeMap::new(),
            set: ChangeSet::new(rules.chain.clone(), state.version),
        }
    }

    pub(crate) fn change(&mut self, change: Change) {
        self.set.changes.push(change);
    }

    pub(crate) fn event(&mut self, transfer: &Transfer, sequence: Sequence, confirmations: u64, decided_at: Timestamp) {
        self.set.push_event(self.rules.event(self.state, transfer, sequence, confirmations, decided_at));
    }

    /// An informative event beside the decisions.
    pub(crate) fn notice(&mut self, transfer: &Transfer, says: (Sequence, Notice), confirmations: u64, decided_at: Timestamp) {
        self.set.push_event(self.rules.notice(self.state, transfer, says, confirmations, decided_at));
    }

    pub(crate) fn small(&mut self, small: Small) {
        self.small.push(small);
    }

    pub(crate) fn archive(&mut self, transfer: &Transfer, sequence: Sequence) {
        self.archived.insert(transfer.key.clone(), Archived { height: transfer.block.height, sequence });
    }

    /// Puts an already made event and what is then kept of its key.
    pub(crate) fn archive_event(&mut self, event: confirmd_core::Event) {
        self.archive(&event.transfer, event.sequence);
        self.set.push_event(event);
    }

    /// Puts an already made event.
    pub(crate) fn push(&mut self, event: confirmd_core::Event) {
        self.set.push_event(event);
    }

    /// The net change.
    pub(crate) fn finish(mut self) -> ChangeSet {
        let forgotten = self.forgotten();
        let Self { pending, reported, orphaned, small, archived, mut set, .. } = self;
        set.changes.extend(pending.into_changes(Change::PendingPut, Change::PendingDropped));
        set.changes.extend(reported.into_changes(Change::ReportedPut, Change::ReportedDropped));
        set.changes.extend(orphaned.into_changes(Change::OrphanedPut, Change::OrphanedDropped));
        set.changes.extend(small.into_iter().map(Change::SmallSeen));
        set.changes.extend(archived.into_iter().map(|(key, archived)| Change::Archived(key, archived)));
        set.changes.extend(forgotten);
        set
    }

    /// Removed addresses and delisted assets that nothing is held for any more. Looked at only when something was let go.
    fn forgotten(&mut self) -> Vec<Change> {
        let watch = &self.state.watch;
        let let_go = self.pending.changed.values().any(Option::is_none)
            || self.reported.changed.values().any(Option::is_none)
            || self.orphaned.changed.values().any(Option::is_none);
        if !let_go {
            return Vec::new();
        }
        let leaving: Vec<WatchEntry> = watch.leaving().collect();
        let delisted: Vec<_> = watch.assets().filter(|asset| asset.delisted).map(|asset| &asset.asset.id).collect();
        if leaving.is_empty() && delisted.is_empty() {
            return Vec::new();
        }
        let pending = self.pending.iter().map(Held::transfer);
        let reported = self.reported.iter().map(Held::transfer);
        let held = pending.chain(reported).chain(self.orphaned.iter().map(Held::transfer));
        let (mut addresses, mut assets) = (HashSet::new(), HashSet::new());
        for transfer in held {
            addresses.insert(transfer.payment.address.bytes());
            assets.insert(&transfer.payment.asset);
        }
        let gone = leaving.iter().map(|entry| entry.address.bytes()).filter(|bytes| !addresses.contains(bytes));
        let gone = gone.map(|bytes| Change::WatchForgotten(bytes.into()));
        let unlisted = delisted.into_iter().filter(|id| !assets.contains(id)).map(|id| Change::AssetForgotten(id.clone()));
        gone.chain(unlisted).collect()
    }
}
