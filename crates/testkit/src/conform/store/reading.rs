//! Trials of what people and pulling readers are told (T14, T15), and of replays (T16).

use super::StoreHarness;
use super::support::{ALL, Bench, for_histories, positions};
use super::world::Dice;
use crate::conform::{Broken, Verdict, hold, sample};
use crate::{MemoryDisk, MemoryStore};
use confirmd_core::{
    Amount, BlockRef, ChainId, Change, ChangeSet, CursorName, DepositFilter, DepositState, Height, History, LifeEvent, LifeStep,
    Pace, Position, PullCursor, ReorgRecord, Sequence, Small, StateStore, StateVersion, StoreError, Timestamp, Transfer,
};
use std::num::NonZeroU32;

/// Events in a reader's page.
const PAGE: usize = 3;

pub(super) fn events_are_read_in_order(harness: &dyn StoreHarness) -> Verdict {
    for_histories(harness, |steps| async move {
        let mut bench = Bench::start(harness).await?;
        bench.world.notices = true;
        for step in steps {
            let set = bench.world.change_set(&mut Dice::new(step));
            bench.commit(set).await?;
        }
        let (mut after, mut read) = (Position(0), Vec::new());
        loop {
            let page = bench.store().events(after, PAGE).await.map_err(Broken::tried("reading events"))?;
            let Some(last) = page.last() else { break };
            hold!(page.len() <= PAGE && last.position > after, "behind {after} came {page:?}");
            after = last.position;
            read.extend(page.into_iter().map(|record| (record.position, record.event, record.body)));
        }
        hold!(read == bench.world.events, "read were {read:?}, committed {:?}", bench.world.events);
        Ok(())
    })
}

fn cursor(name: &str, after: u64, used_at: u64) -> PullCursor {
    let name = CursorName::new(name).expect("invariant: the suite's names are names");
    PullCursor { name, after: Position(after), used_at: Timestamp(used_at), expired: false }
}

pub(super) async fn a_used_cursor_holds_events(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    for height in 1..6 {
        let set = bench.world.confirm_new(&sample::chain(0), 1, height);
        bench.commit(set).await?;
    }
    let set = bench.world.archive_all(&sample::chain(0));
    bench.commit(set).await?;
    let places = bench.world.positions();
    let third = places.get(2).map_or(0, |position| position.0);
    let (old, fresh) = (cursor("old", 0, 5), cursor("fresh", third, 1_000));
    for one in [&old, &fresh] {
        bench.store().put_cursor(one).await.map_err(Broken::tried("writing a cursor down"))?;
    }
    bench.reopen().await?;
    let known = bench.store().cursors().await.map_err(Broken::tried("asking for cursors"))?;
    hold!(known == [fresh.clone(), old.clone()], "the cursors are {known:?} after a start");
    // Younger than one cursor, and than no event.
    bench.store().prune(Timestamp(900)).await.map_err(Broken::tried("pruning"))?;
    let known = bench.store().cursors().await.map_err(Broken::tried("asking for cursors"))?;
    hold!(known == [fresh.clone(), PullCursor { expired: true, ..old }], "after pruning the cursors are {known:?}");
    let pruned = bench.store().prune(Timestamp(u64::MAX)).await;
    pruned.map_err(Broken::tried("pruning"))?;
    let left = bench.store().events(Position(0), ALL).await.map_err(Broken::tried("reading events"))?;
    hold!(left.is_empty(), "no cursor is in use, and {} events are still there", left.len());
    let removed = bench.store().remove_cursor(&fresh.name).await.map_err(Broken::tried("removing a cursor"))?;
    let again = bench.store().remove_cursor(&fresh.name).await.map_err(Broken::tried("removing a cursor"))?;
    hold!(removed && !again, "removing a cursor said {removed}, then {again}");
    Ok(())
}

pub(super) async fn what_a_cursor_waits_for_stays(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    for height in 1..6 {
        let set = bench.world.confirm_new(&sample::chain(0), 1, height);
        bench.commit(set).await?;
    }
    let set = bench.world.archive_all(&sample::chain(0));
    bench.commit(set).await?;
    let places = bench.world.positions();
    let third = places.get(2).copied().unwrap_or_default();
    let in_use = cursor("reader", third.0, 1_000_000_000);
    bench.store().put_cursor(&in_use).await.map_err(Broken::tried("writing a cursor down"))?;
    bench.store().prune(Timestamp(1_000_000_000)).await.map_err(Broken::tried("pruning"))?;
    let left = bench.store().events(Position(0), ALL).await.map_err(Broken::tried("reading events"))?;
    let left: Vec<_> = left.iter().map(|record| record.position).collect();
    let waited: Vec<_> = places.iter().copied().filter(|position| *position > third).collect();
    hold!(left == waited, "a cursor behind {third} is in use; pruning left {left:?} of {places:?}");
    Ok(())
}

/// Lives and reorgs of everything, times left out: a store has a clock of its own.
async fn told(store: &(impl StateStore + History + ?Sized), bench: &Bench) -> Result<Told, StoreError> {
    let mut told = Told::default();
    for (chain, state) in &bench.world.states {
        let events = bench.world.events.iter().map(|(_, event, _)| &event.transfer.key);
        let held = state.pending.iter().map(|held| &held.transfer.key).chain(events);
        for key in held {
            let mut life = store.life(chain, key).await?;
            life.iter_mut().for_each(|step| step.at = Timestamp(0));
            told.lives.push(life);
        }
        let mut reorgs = store.reorgs(chain, ALL).await?;
        reorgs.iter_mut().for_each(|reorg| reorg.at = Timestamp(0));
        told.reorgs.push(reorgs);
    }
    Ok(told)
}

/// Two blocks, of which the higher one leaves.
fn a_reorg(bench: &Bench) -> [ChangeSet; 2] {
    let chain = sample::chain(0);
    let state = bench.world.states.get(&chain).cloned().unwrap_or_default();
    let height = state.trail.tip().map_or(1, |tip| tip.height.0.saturating_add(1));
    let mut pushed = ChangeSet::new(chain.clone(), state.version);
    pushed.changes = (0..2).map(|n| Change::TrailPushed(sample::block(height.saturating_add(n), 7))).collect();
    let mut cut = ChangeSet::new(chain, StateVersion(state.version.0.saturating_add(1)));
    cut.changes = vec![Change::TrailCut(Height(height))];
    [pushed, cut]
}

#[derive(Debug, Default, PartialEq)]
struct Told {
    lives: Vec<Vec<LifeStep>>,
    reorgs: Vec<Vec<ReorgRecord>>,
}

pub(super) fn lives_are_told_as_in_memory(harness: &dyn StoreHarness) -> Verdict {
    for_histories(harness, |steps| async move {
        let disk = MemoryDisk::default();
        let memory = MemoryStore::open(&disk, true).map_err(Broken::tried("making a store in memory"))?;
        let mut bench = Bench::start(harness).await?;
        bench.world.notices = true;
        for step in steps {
            let set = bench.world.change_set(&mut Dice::new(step));
            memory.commit(set.clone()).await.map_err(Broken::tried("a commit in memory"))?;
            bench.commit(set).await?;
        }
        for set in a_reorg(&bench) {
            memory.commit(set.clone()).await.map_err(Broken::tried("a commit in memory"))?;
            bench.commit(set).await?;
        }
        bench.crash().await?;
        let wanted = told(&memory, &bench).await.map_err(Broken::tried("asking the store in memory"))?;
        let found = told(bench.store(), &bench).await.map_err(Broken::tried("asking for lives and reorgs"))?;
        hold!(found == wanted, "told should be {wanted:?} and is {found:?}");
        Ok(())
    })
}

/// What people are told of payment `number`: its state, its block's hash, its amount.
async fn record_of(bench: &Bench, chain: &ChainId, number: u64) -> Result<Option<(DepositState, String, Amount)>, Broken> {
    let key = sample::key(number);
    let filter = DepositFilter {
        chain: Some(chain.clone()),
        tx_id: Some(key.tx_id.to_string()),
        output_index: Some(key.output_index),
        ..DepositFilter::default()
    };
    let found = bench.store().deposits(&filter, None, ALL).await.map_err(Broken::tried("asking for deposits"))?;
    Ok(found.into_iter().next().map(|record| (record.state, record.block.hash.to_string(), record.amount)))
}

fn small(transfer: Transfer) -> Change {
    Change::SmallSeen(Small { transfer, minimum: Amount::MAX, last_sequence: Sequence::NONE })
}

pub(super) async fn a_small_payment_is_told_and_leaves_with_its_block(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let chain = sample::chain(0);
    let (first, second, other) = (sample::block(1, 0), sample::block(2, 0), sample::block(2, 1));
    let pays = |number, block: &BlockRef| sample::transfer(&chain, number, block.clone());
    let set = |bench: &Bench, changes: Vec<Change>| {
        let mut set = ChangeSet::new(chain.clone(), bench.world.version(&chain));
        set.changes = changes;
        set
    };
    let pushed = [&first, &second].map(|block| Change::TrailPushed(block.clone()));
    let seen = [small(pays(1, &first)), small(pays(2, &second)), small(pays(3, &second))];
    bench.commit(set(&bench, pushed.into_iter().chain(seen).collect())).await?;
    bench.crash().await?;
    let state = bench.store().load(&chain).await.map_err(Broken::tried("a load"))?.unwrap_or_default();
    hold!(state.pending.is_empty() && state.reported.is_empty() && state.orphaned.is_empty(), "it is held: {state:?}");
    let told = record_of(&bench, &chain, 1).await?;
    let wanted = Some((DepositState::BelowMinimum, first.hash.to_string(), Amount::from(2)));
    hold!(told == wanted, "told should be {wanted:?} and is {told:?}");
    // The second block leaves; one of its payments comes again. What is read again where it was is no news.
    let again =
        vec![Change::TrailCut(Height(1)), Change::TrailPushed(other.clone()), small(pays(1, &first)), small(pays(2, &other))];
    bench.commit(set(&bench, again)).await?;
    bench.reopen().await?;
    let told = record_of(&bench, &chain, 2).await?.map(|(state, block, _)| (state, block));
    hold!(told == Some((DepositState::BelowMinimum, other.hash.to_string())), "mined again, it is told as {told:?}");
    let told = record_of(&bench, &chain, 3).await?.map(|(state, ..)| state);
    hold!(told == Some(DepositState::Orphaned), "its block has left, and it is told as {told:?}");
    for (number, wanted) in [(1, vec!["below"]), (2, vec!["below", "left", "below"]), (3, vec!["below", "left"])] {
        let life = bench.store().life(&chain, &sample::key(number)).await.map_err(Broken::tried("asking for a life"))?;
        let words: Vec<_> = life.iter().map(|step| word(&step.what)).collect();
        hold!(words == wanted, "the life of {} should be {wanted:?} and is {words:?}", sample::key(number));
    }
    bench.store().prune(Timestamp(u64::MAX)).await.map_err(Broken::tried("pruning"))?;
    for number in 1..=3 {
        let told = record_of(&bench, &chain, number).await?;
        hold!(told.is_none(), "history has ended and {told:?} is still told");
    }
    // Nothing is found of what was forgotten.
    bench.commit(set(&bench, vec![Change::TrailCut(Height(0))])).await?;
    hold!(record_of(&bench, &chain, 2).await?.is_none(), "what was forgotten is told again");
    Ok(())
}

fn word(what: &LifeEvent) -> &'static str {
    match what {
        LifeEvent::BelowMinimum { .. } => "below",
        LifeEvent::Left { .. } => "left",
        _ => "other",
    }
}

pub(super) async fn a_replay_keeps_the_order_of_a_key(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let name = bench.register("ledger", None).await?;
    let set = bench.world.confirm_new(&sample::chain(0), 1, 1);
    bench.commit(set).await?;
    let set = bench.world.revert_all(&sample::chain(0));
    bench.commit(set).await?;
    let given = bench.drain(&name).await?;
    let places = positions(&given);
    let [first, second] = places.as_slice() else {
        return Err(Broken::new(format!("two events were decided, given were {places:?}")));
    };
    // The later one alone, and while it is out the earlier one.
    let replay = |which: Vec<Position>, pace: Option<Pace>| {
        let (store, name) = (bench.store(), &name);
        async move { store.replay(name, &which, pace).await.map_err(Broken::tried("a replay")) }
    };
    hold!(replay(vec![*second], None).await? == 1, "one event should be queued again");
    let out = bench.due(&name, ALL).await?;
    hold!(out == given.get(1..).unwrap_or_default(), "replayed was {second}, given {out:?}");
    hold!(replay(vec![*first], None).await? == 1, "one event should be queued again");
    hold!(bench.due(&name, ALL).await?.is_empty(), "two events of one key are out");
    bench.store().acknowledge(&name, &[*second]).await.map_err(Broken::tried("an acknowledgement"))?;
    let out = bench.due(&name, ALL).await?;
    hold!(out == given.get(..1).unwrap_or_default(), "{first} should come now, with its id and bytes; given was {out:?}");
    bench.store().acknowledge(&name, &[*first]).await.map_err(Broken::tried("an acknowledgement"))?;
    // Both, in a start's time, one after the other whatever order they are named in.
    let pace = Pace { from: Timestamp(5_000), per_second: NonZeroU32::MIN };
    hold!(replay(vec![*second, *first], Some(pace)).await? == 2, "both events should be queued again");
    bench.reopen().await?;
    let early = bench.store().due(&name, Timestamp(4_999), ALL).await.map_err(Broken::tried("asking for deliveries"))?;
    hold!(early.is_empty(), "a replay that begins at 5000 handed {early:?} out before");
    let again = bench.drain(&name).await?;
    hold!(again == given, "replayed should be {given:?} and was {again:?}");
    Ok(())
}
