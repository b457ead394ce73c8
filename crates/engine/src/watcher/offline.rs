//! The same commands on a state that no watcher runs on: for an operator at the command line.

use super::WatchError;
use super::command::{Added, NewWatch, addition, removals};
use super::rescan::{Asking, NewRescan, RescanOrder, order, start};
use super::resume::{Resume, ResumeReport, plan};
use super::share::is_conflict;
use crate::Rules;
use confirmd_core::{Address, ChainId, ChainSource, ChainState, ChangeSet, Clock, Rescan, RescanId, StateStore, Timestamp};
use std::collections::BTreeSet;

/// A shared store may move on under a command, which is then planned anew; so often.
const TRIES: u32 = 10;

/// Watches addresses; the next watcher reads the chain again for those that come with a height below what is covered.
pub async fn add(store: &dyn StateStore, chain: &ChainId, addresses: &[NewWatch], now: Timestamp) -> Result<Added, WatchError> {
    let busy = BTreeSet::new();
    planned_change(store, chain, |state, set| addition(state, set, addresses, Asking::by_command(state, &busy, now))).await
}

/// Asks for a rescan of what is watched already; the next watcher reads it.
pub async fn rescan(store: &dyn StateStore, chain: &ChainId, new: &NewRescan, now: Timestamp) -> Result<Rescan, WatchError> {
    planned_change(store, chain, |state, set| start(state, set, new, now)).await
}

/// Pauses, resumes or cancels a rescan.
pub async fn order_rescan(
    store: &dyn StateStore,
    chain: &ChainId,
    id: RescanId,
    told: RescanOrder,
    now: Timestamp,
) -> Result<Rescan, WatchError> {
    planned_change(store, chain, |state, set| order(state, set, id, told, now)).await
}

/// Stops taking new deposits to addresses; returns how many of them were watched.
pub async fn remove(store: &dyn StateStore, chain: &ChainId, addresses: &[Address]) -> Result<u64, WatchError> {
    let plan = |state: &ChainState, set: &mut ChangeSet| {
        let (changes, count) = removals(state, addresses);
        set.changes = changes;
        Ok(count)
    };
    planned_change(store, chain, plan).await
}

/// Resumes a halted chain. Reads the source if a reorg is accepted.
pub async fn resume(
    store: &dyn StateStore,
    source: &dyn ChainSource,
    clock: &dyn Clock,
    how: Resume,
) -> Result<ResumeReport, WatchError> {
    let mut tries = 1;
    loop {
        let (report, set) = planned(store, source, clock, how).await?;
        match commit(store, set).await {
            Err(error) if is_conflict(&error) && tries < TRIES => tries += 1,
            done => return done.map(|()| report),
        }
    }
}

/// Commits a planned change.
async fn planned_change<T>(
    store: &dyn StateStore,
    chain: &ChainId,
    plan: impl Fn(&ChainState, &mut ChangeSet) -> Result<T, WatchError>,
) -> Result<T, WatchError> {
    let mut tries = 1;
    loop {
        let state = load(store, chain).await?;
        let mut set = ChangeSet::new(chain.clone(), state.version);
        let value = plan(&state, &mut set)?;
        match commit(store, set).await {
            Err(error) if is_conflict(&error) && tries < TRIES => tries += 1,
            done => return done.map(|()| value),
        }
    }
}

/// What resuming a halted chain would do. Changes nothing.
pub async fn preview(
    store: &dyn StateStore,
    source: &dyn ChainSource,
    clock: &dyn Clock,
    how: Resume,
) -> Result<ResumeReport, WatchError> {
    planned(store, source, clock, how).await.map(|(report, _)| report)
}

async fn planned(
    store: &dyn StateStore,
    source: &dyn ChainSource,
    clock: &dyn Clock,
    how: Resume,
) -> Result<(ResumeReport, ChangeSet), WatchError> {
    let profile = source.profile();
    let state = load(store, &profile.chain).await?;
    let rules = Rules {
        chain: profile.chain.clone(),
        chain_name: profile.name.clone(),
        epoch: store.epoch(),
        reorg_depth: profile.reorg_depth,
    };
    plan(&state, &rules, source, store, how, clock.now()).await
}

async fn load(store: &dyn StateStore, chain: &ChainId) -> Result<ChainState, WatchError> {
    let state = store.load(chain).await?;
    state.ok_or_else(|| WatchError::Refused(format!("there is no state of {chain} yet; start `confirmd run` once")))
}

async fn commit(store: &dyn StateStore, set: ChangeSet) -> Result<(), WatchError> {
    if !set.is_empty() {
        store.commit(set).await?;
    }
    Ok(())
}
