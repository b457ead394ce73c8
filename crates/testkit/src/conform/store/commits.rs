//! Trials of what a commit does to a chain's state: whole or not at all, for ever, and exactly (T1 to T3, T5).

use super::support::{ALL, Bench, for_histories};
use super::world::{Dice, World};
use super::{StoreHarness, StoreTest};
use crate::conform::{Broken, Verdict, hold, sample};
use confirmd_core::{
    Archived, ChainState, Change, ChangeSet, CommitReceipt, DepositKey, Height, KeyDigest, Position, Sequence, StateVersion,
    StoreError, WatchEntry,
};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub(super) async fn a_conflict_changes_nothing(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    bench.register("ledger", None).await?;
    let chain = sample::chain(0);
    let first = bench.world.confirm_new(&chain, 2, 5);
    bench.commit(first).await?;
    let before = bench.answers().await?;
    for base in [StateVersion(0), StateVersion(7)] {
        let mut stale = bench.world.confirm_new(&chain, 1, 6);
        stale.base = base;
        match bench.store().commit(stale).await {
            Err(StoreError::Conflict { expected, found, .. }) => {
                hold!((expected, found) == (base, StateVersion(1)), "the conflict names {expected:?} and {found:?}");
            }
            other => return Err(Broken::new(format!("a change set made from {base:?} of a state at version 1: {other:?}"))),
        }
    }
    let after = bench.answers().await?;
    hold!(before == after, "a refused change set changed {}", before.difference(&after));
    Ok(())
}

pub(super) async fn readers_see_whole_commits(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let chain = sample::chain(0);
    let mut sets = Vec::new();
    let mut world = World::default();
    let mut states = vec![ChainState::default()];
    for height in 1..20 {
        let set = world.confirm_new(&chain, 2, height);
        world.take(&set, &CommitReceipt { version: StateVersion(height), first_event: None });
        states.extend(world.states.get(&chain).cloned());
        sets.push(set);
    }
    let (store, rest) = (bench.store(), &sets);
    let write = async {
        for set in rest {
            store.commit(set.clone()).await.map_err(Broken::tried("a commit"))?;
        }
        Ok(())
    };
    let read = async {
        for _ in 0..60 {
            let found = store.load(&chain).await.map_err(Broken::tried("a load"))?.unwrap_or_default();
            let version = usize::try_from(found.version.0).unwrap_or(usize::MAX);
            hold!(states.get(version) == Some(&found), "a reader met a state between two commits, at version {version}");
            for set in rest.iter().take(version) {
                for (event, _) in &set.events {
                    let record = store.event(&event.id).await.map_err(Broken::tried("asking for an event"))?;
                    hold!(record.is_some(), "the state has version {version}, and an event of it is not there");
                }
            }
        }
        Ok(())
    };
    let (written, read): (Verdict, Verdict) = tokio::join!(write, read);
    written.and(read)?;
    bench.close();
    Ok(())
}

/// A commit whose future is dropped early, or that is followed by a crash, happened whole or not at all.
pub(super) async fn dropped_commits_are_whole(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let chain = sample::chain(0);
    for round in 0..8 {
        let set = bench.world.confirm_new(&chain, 3, round + 1);
        {
            let mut commit = std::pin::pin!(bench.store().commit(set.clone()));
            // Polled once, so that it has begun.
            let begun = std::future::poll_fn(|context| std::task::Poll::Ready(commit.as_mut().poll(context).is_ready()));
            begun.await;
        }
        if round % 2 == 1 && harness.unable(StoreTest::Crash).is_none() {
            bench.crash().await?;
        }
        let version = bench.world.version(&chain);
        let found = bench.store().load(&chain).await.map_err(Broken::tried("a load"))?.unwrap_or_default();
        let events = events_there(&bench, &set).await?;
        if found.version == version {
            hold!(Some(&found) == bench.world.states.get(&chain).or(Some(&Default::default())), "half a commit is in the state");
            hold!(events == 0, "a commit did not happen, and {events} of its events are there");
        } else {
            let first_event = first_position(&bench, &set).await?;
            bench.world.take(&set, &CommitReceipt { version: found.version, first_event });
            hold!(bench.world.states.get(&chain) == Some(&found), "half a commit is in the state");
            hold!(events == set.events.len(), "a commit happened, and {events} of its {} events are there", set.events.len());
        }
    }
    Ok(())
}

/// How many of a change set's events history holds.
pub(super) async fn events_there(bench: &Bench, set: &ChangeSet) -> Result<usize, Broken> {
    let mut there = 0;
    for (event, _) in &set.events {
        let record = bench.store().event(&event.id).await.map_err(Broken::tried("asking for an event"))?;
        there += usize::from(record.is_some());
    }
    Ok(there)
}

/// Where a change set's first event is.
pub(super) async fn first_position(bench: &Bench, set: &ChangeSet) -> Result<Option<Position>, Broken> {
    let Some((event, _)) = set.events.first() else { return Ok(None) };
    let record = bench.store().event(&event.id).await.map_err(Broken::tried("asking for an event"))?;
    Ok(record.map(|record| record.position))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    Crash,
    PowerCut,
}

pub(super) fn commits_survive(harness: &dyn StoreHarness, outage: Outage) -> Verdict {
    for_histories(harness, |steps| async move {
        let mut bench = Bench::start(harness).await?;
        bench.register("ledger", None).await?;
        for (number, step) in (0_u64..).zip(steps) {
            let set = bench.world.change_set(&mut Dice::new(step));
            bench.commit(set).await?;
            // Rarely, since each outage copies the store.
            if number % 7 == 0 {
                match outage {
                    Outage::Crash => bench.crash().await?,
                    Outage::PowerCut => bench.power_cut().await?,
                }
                equals_the_fold(&bench).await?;
                let given = bench.store().list(&Default::default(), None, ALL).await.map_err(Broken::tried("listing"))?.len();
                let decided = bench.world.events.len();
                hold!(given == decided, "{decided} events were answered, {given} deliveries are there after the outage");
            }
        }
        Ok(())
    })
}

pub(super) fn load_equals_the_fold(harness: &dyn StoreHarness) -> Verdict {
    for_histories(harness, |steps| async move {
        let mut bench = Bench::start(harness).await?;
        for (number, step) in (0_u64..).zip(steps) {
            let set = bench.world.change_set(&mut Dice::new(step));
            bench.commit(set).await?;
            if number % 9 == 4 {
                equals_the_fold(&bench).await?;
                bench.reopen().await?;
            }
        }
        equals_the_fold(&bench).await
    })
}

/// States, watched addresses and archived keys are what the committed change sets add up to.
pub(super) async fn equals_the_fold(bench: &Bench) -> Verdict {
    let store = bench.store();
    let chains = store.chains().await.map_err(Broken::tried("asking for the chains"))?;
    let known: Vec<_> = bench.world.states.keys().cloned().collect();
    hold!(chains == known, "the chains {known:?} have commits, the store names {chains:?}");
    for (chain, state) in &bench.world.states {
        let loaded = store.load(chain).await.map_err(Broken::tried("a load"))?;
        let Some(loaded) = loaded else { return Err(Broken::new(format!("{chain} has commits and no state"))) };
        hold!(loaded == *state, "{chain} is not what its change sets add up to: {}", state_difference(state, &loaded));
        let mut watched: Vec<_> = state.watch.addresses().collect();
        watched.sort_by(|a, b| a.address.cmp(&b.address));
        let mut pages = Vec::new();
        loop {
            let after = pages.last().map(|entry: &WatchEntry| entry.address.bytes().to_vec());
            let page = store.watched(chain, after.as_deref(), 2).await.map_err(Broken::tried("listing addresses"))?;
            if page.is_empty() || pages.len() > watched.len() {
                break;
            }
            pages.extend(page);
        }
        hold!(pages == watched, "the watched addresses of {chain} are {watched:?}; listed were {pages:?}");
    }
    let none = store.load(&sample::chain(9)).await.map_err(Broken::tried("a load"))?;
    hold!(none.is_none(), "a chain without a commit has a state");
    Ok(())
}

/// Which parts of a state are not as they should be.
fn state_difference(wanted: &ChainState, found: &ChainState) -> String {
    let mut text = Vec::new();
    let mut compare = |part: &str, wanted: &dyn std::fmt::Debug, found: &dyn std::fmt::Debug, same: bool| {
        if !same {
            text.push(format!("its {part} should be {wanted:?} and is {found:?}"));
        }
    };
    compare("version", &wanted.version, &found.version, wanted.version == found.version);
    compare("name", &wanted.name, &found.name, wanted.name == found.name);
    compare("trail", &wanted.trail, &found.trail, wanted.trail == found.trail);
    compare("marks", &wanted.marks, &found.marks, wanted.marks == found.marks);
    compare("watch set", &wanted.watch, &found.watch, wanted.watch == found.watch);
    compare("pending", &wanted.pending, &found.pending, wanted.pending == found.pending);
    compare("reported", &wanted.reported, &found.reported, wanted.reported == found.reported);
    compare("orphaned", &wanted.orphaned, &found.orphaned, wanted.orphaned == found.orphaned);
    compare("halt", &wanted.halt, &found.halt, wanted.halt == found.halt);
    text.join("; ")
}

pub(super) fn settled_among_is_exact(harness: &dyn StoreHarness) -> Verdict {
    for_histories(harness, |steps| async move {
        let mut bench = Bench::start(harness).await?;
        for step in steps {
            let set = bench.world.change_set(&mut Dice::new(step));
            bench.commit(set).await?;
        }
        for number in 0..2 {
            let chain = sample::chain(number);
            let keys: Vec<_> = (0..60).map(sample::key).collect();
            let of_chain = bench.world.archived.iter().filter(|((of, _), _)| *of == chain);
            let wanted: BTreeMap<DepositKey, Archived> = of_chain.map(|((_, key), archived)| (key.clone(), *archived)).collect();
            let found = bench.store().settled_among(&chain, &keys).await.map_err(Broken::tried("asking for keys"))?;
            hold!(found == wanted, "archived of {chain} are {wanted:?}; found were {found:?}");
            let height = Height(20);
            let mut above: Vec<_> = wanted.iter().filter(|(_, a)| a.height > height && a.sequence.stands()).collect();
            above.sort_by_key(|(key, _)| KeyDigest::of(&chain, key));
            let found = bench.store().settled_above(&chain, height).await.map_err(Broken::tried("asking above a height"))?;
            let mut found: Vec<_> = found.into_iter().map(|settled| (settled.digest, settled.archived)).collect();
            found.sort_by_key(|(digest, _)| *digest);
            let above: Vec<_> = above.into_iter().map(|(key, archived)| (KeyDigest::of(&chain, key), *archived)).collect();
            hold!(found == above, "settled above {height} are {above:?}; found were {found:?}");
        }
        Ok(())
    })
}

/// Keys settled in the small and in the large store, and how much longer asking one key may take in the large one.
const FEW: u64 = 16;
const MANY: u64 = 256 * FEW;
const SLOWER_MAX: u32 = 32;

pub(super) async fn settled_among_costs_what_is_asked(harness: &dyn StoreHarness) -> Verdict {
    let (few, many) = (fastest_answer(harness, FEW).await?, fastest_answer(harness, MANY).await?);
    // Never less than what a clock can tell apart.
    let bound = few.max(Duration::from_micros(20)) * SLOWER_MAX;
    hold!(many <= bound, "asking for one key takes {few:?} among {FEW} settled ones and {many:?} among {MANY}");
    Ok(())
}

async fn fastest_answer(harness: &dyn StoreHarness, settled: u64) -> Result<Duration, Broken> {
    let mut bench = Bench::start(harness).await?;
    let chain = sample::chain(0);
    let mut set = ChangeSet::new(chain.clone(), StateVersion(0));
    let archived = |number| Archived { height: Height(number), sequence: Sequence(1) };
    set.changes = (0..settled).map(|number| Change::Archived(sample::key(number), archived(number))).collect();
    bench.commit(set).await?;
    let asked = [sample::key(settled / 2)];
    let mut fastest = Duration::MAX;
    for _ in 0..50 {
        let started = Instant::now();
        let found = bench.store().settled_among(&chain, &asked).await.map_err(Broken::tried("asking for a key"))?;
        fastest = fastest.min(started.elapsed());
        hold!(found.len() == 1, "a settled key was not found");
    }
    Ok(fastest)
}
