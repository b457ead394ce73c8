//! What is asked to be read again, as changes to rescans. Pure: the caller commits.

use crate::watcher::WatchError;
use confirmd_core::{
    AskedHistory, ChainState, Change, ChangeSet, Height, HeightRange, Rescan, RescanId, RescanScope, RescanState, Timestamp,
    WatchEntry, WatchState,
};
use std::collections::BTreeSet;

/// No block that can pay anybody lies below.
const LOWEST: Height = Height(1);

/// Addresses of one change set that ask for their history: they share one rescan.
#[derive(Debug)]
pub(in crate::watcher) struct Asking<'a> {
    state: &'a ChainState,
    /// Rescans that take no more addresses: they are being read.
    busy: &'a BTreeSet<RescanId>,
    now: Timestamp,
    /// A rescan that was given up is begun anew for whoever asks again.
    again: bool,
    rescan: Option<Rescan>,
}

impl<'a> Asking<'a> {
    /// By an operator's command: asks again where a rescan was cancelled.
    pub(in crate::watcher) fn by_command(state: &'a ChainState, busy: &'a BTreeSet<RescanId>, now: Timestamp) -> Self {
        Self { state, busy, now, again: true, rescan: None }
    }

    /// By the configuration, which says the same at every start.
    pub(in crate::watcher) fn by_config(state: &'a ChainState, busy: &'a BTreeSet<RescanId>, now: Timestamp) -> Self {
        Self { state, busy, now, again: false, rescan: None }
    }

    /// What an address' entry says of its history from now on. `from` is the height that the live watch covers a new address from.
    pub(in crate::watcher) fn history(
        &mut self,
        found: Option<&WatchEntry>,
        asked: Option<Height>,
        from: Height,
    ) -> Option<AskedHistory> {
        let kept = found.filter(|entry| entry.state == WatchState::Watching);
        let before = kept.and_then(|entry| entry.history);
        let Some(asked) = asked.map(|asked| asked.max(LOWEST)) else { return before };
        let live_from = kept.map_or(from, |entry| entry.from);
        if asked >= live_from || before.is_some_and(|before| before.from <= asked && !(self.again && self.given_up(before))) {
            return before;
        }
        let range = HeightRange::new(asked, live_from.minus(1))?;
        let mut rescan = self.rescan.take().unwrap_or_else(|| self.open_or_new(range));
        rescan.widen(range);
        rescan.addresses = rescan.addresses.saturating_add(1);
        rescan.changed_at = self.now;
        let history = AskedHistory { from: asked, rescan: rescan.id };
        self.rescan = Some(rescan);
        Some(history)
    }

    /// The rescan that the addresses of this change set share, if any asked for one.
    pub(in crate::watcher) fn finish(self) -> Option<Rescan> {
        self.rescan
    }

    fn given_up(&self, history: AskedHistory) -> bool {
        self.state.rescans.get(&history.rescan).is_none_or(|rescan| rescan.state == RescanState::Cancelled)
    }

    /// Many additions are read in one pass: they join the newest rescan that was not begun.
    fn open_or_new(&self, range: HeightRange) -> Rescan {
        let open = self.state.rescans.values().rev().find(|rescan| {
            let takes_more = rescan.scope == RescanScope::Asked && rescan.state == RescanState::Running;
            takes_more && rescan.is_untouched() && !self.busy.contains(&rescan.id)
        });
        open.cloned().unwrap_or_else(|| Rescan::new(next_id(self.state), RescanScope::Asked, range, self.now))
    }
}

fn next_id(state: &ChainState) -> RescanId {
    RescanId(state.rescans.last_key_value().map_or(1, |(id, _)| id.0.saturating_add(1)))
}

/// A rescan an operator asks for, for addresses or an asset that are watched already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRescan {
    /// For whom; `Asked` is not among them: addresses ask for it as they are added.
    pub scope: RescanScope,
    /// The lowest height.
    pub from: Height,
    /// The highest; the trail's tip if not given.
    pub to: Option<Height>,
}

/// What an operator may tell a rescan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RescanOrder {
    /// Read nothing for it for a while.
    Pause,
    /// Go on, also after a failure.
    Resume,
    /// Give it up; what it found stays.
    Cancel,
}

/// Puts a new rescan into the change set.
pub(in crate::watcher) fn start(
    state: &ChainState,
    set: &mut ChangeSet,
    new: &NewRescan,
    now: Timestamp,
) -> Result<Rescan, WatchError> {
    let refused = |text: String| Err(WatchError::Refused(text));
    let Some(tip) = state.trail.tip() else {
        return refused(
            "the chain has no first block yet, so there is no history to read; wait until its node has answered once".to_owned(),
        );
    };
    match &new.scope {
        RescanScope::Asset(id) if state.watch.asset(id).is_none_or(|asset| asset.delisted) => {
            return refused(format!("{id} is not listed on this chain; list it in the configuration first"));
        }
        RescanScope::Asked => return refused("add the addresses with the height to read them from".to_owned()),
        _ => {}
    }
    let to = new.to.unwrap_or(tip.height).min(tip.height);
    let Some(range) = HeightRange::new(new.from.max(LOWEST), to) else {
        return refused(format!("from height {} to {to} there is nothing to read: the live watch is at {tip}", new.from));
    };
    let mut rescan = Rescan::new(next_id(state), new.scope.clone(), range, now);
    rescan.addresses = u64::try_from(state.watch.len()).unwrap_or(u64::MAX);
    set.changes.push(Change::RescanPut(rescan.clone()));
    Ok(rescan)
}

/// Puts what an order changes into the change set.
pub(in crate::watcher) fn order(
    state: &ChainState,
    set: &mut ChangeSet,
    id: RescanId,
    order: RescanOrder,
    now: Timestamp,
) -> Result<Rescan, WatchError> {
    let Some(found) = state.rescans.get(&id) else {
        return Err(WatchError::Refused(format!("there is no rescan {id} on this chain; the list shows those there are")));
    };
    let next = match (order, &found.state) {
        (RescanOrder::Pause, RescanState::Running | RescanState::Paused) => RescanState::Paused,
        (RescanOrder::Resume, state) if state.is_open() => RescanState::Running,
        (RescanOrder::Cancel, state) if state.is_open() || *state == RescanState::Cancelled => RescanState::Cancelled,
        (_, state) => {
            let text =
                format!("rescan {id} is {}; only one that is under way can be paused, resumed or cancelled", state.as_str());
            return Err(WatchError::Refused(text));
        }
    };
    let mut rescan = found.clone();
    if rescan.state != next {
        rescan.state = next;
        rescan.changed_at = now;
        set.changes.push(Change::RescanPut(rescan.clone()));
    }
    Ok(rescan)
}
