//! Brings the recorded name, assets and addresses in step with the configuration.

use super::rescan::Asking;
use confirmd_core::{Address, AskedHistory, ChainProfile, ChainState, Change, Height, WatchEntry, WatchOrigin, WatchState};
use std::collections::HashSet;
use std::sync::Arc;

/// An address of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigWatch {
    /// The address.
    pub address: Address,
    /// The operator's label.
    pub reference: Option<Arc<str>>,
    /// Read again from this height on, if it is below what is covered.
    pub from_height: Option<Height>,
}

/// The changes that make the state agree with the configuration. New addresses are covered from `from`.
/// A changed policy applies to pending deposits at once and never re-decides reported ones.
pub(super) fn changes(
    state: &ChainState,
    profile: &ChainProfile,
    watch: &[ConfigWatch],
    from: Height,
    mut asking: Asking<'_>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    if state.name.as_ref() != Some(&profile.name) {
        changes.push(Change::Named(profile.name.clone()));
    }
    for listed in &profile.assets {
        if state.watch.asset(&listed.asset.id) != Some(listed) {
            changes.push(Change::AssetPut(listed.clone()));
        }
    }
    for gone in state.watch.assets().filter(|held| !profile.assets.iter().any(|listed| listed.asset.id == held.asset.id)) {
        let held = holds(state, |transfer| transfer.payment.asset == gone.asset.id);
        if !held {
            changes.push(Change::AssetForgotten(gone.asset.id.clone()));
        } else if !gone.delisted {
            let mut delisted = gone.clone();
            delisted.delisted = true;
            changes.push(Change::AssetPut(delisted));
        }
    }
    for configured in watch {
        let found = state.watch.get(configured.address.bytes());
        let history = asking.history(found.as_ref(), configured.from_height, from);
        let origin = WatchOrigin::Config;
        changes.extend(put(found.as_ref(), &configured.address, configured.reference.clone(), origin, from, history));
    }
    changes.extend(asking.finish().map(Change::RescanPut));
    let configured: HashSet<&[u8]> = watch.iter().map(|configured| configured.address.bytes()).collect();
    let left = state.watch.addresses().filter(|entry| {
        entry.origin == WatchOrigin::Config && entry.state == WatchState::Watching && !configured.contains(entry.address.bytes())
    });
    changes.extend(left.map(|entry| removal(state, &entry)));
    changes
}

/// Adds an address, or brings its label and origin up to date; `None` if nothing changes. One that is watched keeps its
/// coverage; a removed one starts anew. Who asked last owns it: an address that a command asked for is the configuration's
/// from the next start on that finds it listed there.
pub(super) fn put(
    found: Option<&WatchEntry>,
    address: &Address,
    reference: Option<Arc<str>>,
    origin: WatchOrigin,
    from: Height,
    history: Option<AskedHistory>,
) -> Option<Change> {
    let kept = found.filter(|entry| entry.state == WatchState::Watching);
    let entry = WatchEntry {
        address: address.clone(),
        reference,
        from: kept.map_or(from, |entry| entry.from),
        origin,
        state: WatchState::Watching,
        history,
    };
    (found != Some(&entry)).then_some(Change::WatchPut(entry))
}

/// Removes an address: at once if nothing is held for it, else it takes no new keys until what is held has ended.
pub(super) fn removal(state: &ChainState, entry: &WatchEntry) -> Change {
    if holds(state, |transfer| transfer.payment.address == entry.address) {
        Change::WatchPut(WatchEntry { state: WatchState::Removed, ..entry.clone() })
    } else {
        Change::WatchForgotten(entry.address.bytes().into())
    }
}

fn holds(state: &ChainState, concerns: impl Fn(&confirmd_core::Transfer) -> bool) -> bool {
    state.pending.iter().any(|held| concerns(&held.transfer))
        || state.reported.iter().any(|held| concerns(&held.transfer))
        || state.orphaned.iter().any(|held| concerns(&held.transfer))
}
