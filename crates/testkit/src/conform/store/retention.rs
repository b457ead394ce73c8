//! Trials of what retention leaves (T10, T13).

use super::StoreHarness;
use super::support::{ALL, Bench, LATE, attempt, for_histories, positions};
use super::world::Dice;
use crate::conform::{Broken, Verdict, hold, sample};
use confirmd_core::{DeliveryFilter, DeliveryState, DepositKey, Position, Sequence, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn undelivered_events_stay(harness: &dyn StoreHarness) -> Verdict {
    for_histories(harness, |steps| async move {
        let mut bench = Bench::start(harness).await?;
        let names = [bench.register("fast", None).await?, bench.register("slow", None).await?];
        for step in steps {
            let mut dice = Dice::new(step);
            let set = bench.world.change_set(&mut dice);
            bench.commit(set).await?;
            let name = names.get(usize::from(dice.below(4) == 0)).unwrap_or(&names[0]);
            let due = positions(&bench.due(name, 2).await?);
            match (dice.below(5), due.first()) {
                (0, Some(first)) => bench.store().bury(name, *first, attempt(9)).await,
                (1, Some(first)) => bench.store().skip(name, *first, Timestamp(1)).await,
                _ => bench.store().acknowledge(name, &due).await,
            }
            .map_err(Broken::tried("reporting a delivery"))?;
        }
        for number in 0..2 {
            let set = bench.world.archive_all(&sample::chain(number));
            bench.commit(set).await?;
        }
        nothing_needed_goes(&mut bench, Timestamp(25_000)).await?;
        nothing_needed_goes(&mut bench, LATE).await
    })
}

async fn nothing_needed_goes(bench: &mut Bench, before: Timestamp) -> Verdict {
    let listed = bench.store().list(&DeliveryFilter::default(), None, ALL).await;
    let listed = listed.map_err(Broken::tried("listing deliveries"))?;
    let skipped = DeliveryState::Skipped;
    let waiting: BTreeSet<_> = listed.iter().filter(|record| record.state != skipped).map(|record| record.position).collect();
    let held = there(bench).await?;
    let counted = bench.store().prune(before).await.map_err(Broken::tried("pruning"))?;
    let left = there(bench).await?;
    for (position, event, body) in &bench.world.events {
        let needed = waiting.contains(position) || event.decided_at >= before;
        hold!(!needed || left.contains(position), "the event at {position} is gone: undelivered, or not old enough");
        if left.contains(position) {
            let record = bench.store().event(&event.id).await.map_err(Broken::tried("asking for an event"))?;
            hold!(record.is_some_and(|record| record.body == *body), "the body of {} has changed", event.id);
        }
    }
    let gone = held.len() - left.len();
    hold!(usize::try_from(counted) == Ok(gone), "{gone} events are gone, {counted} were counted");
    bench.reopen().await?;
    let later = bench.store().list(&DeliveryFilter::default(), None, ALL).await;
    let later = later.map_err(Broken::tried("listing deliveries"))?;
    let still: BTreeSet<_> = later.iter().filter(|record| record.state != skipped).map(|record| record.position).collect();
    hold!(waiting == still, "the undelivered events were at {waiting:?}; after pruning they are at {still:?}");
    Ok(())
}

/// The positions of the events that history holds.
async fn there(bench: &Bench) -> Result<BTreeSet<Position>, Broken> {
    let mut there = BTreeSet::new();
    for (_, event, _) in &bench.world.events {
        let record = bench.store().event(&event.id).await.map_err(Broken::tried("asking for an event"))?;
        there.extend(record.map(|record| record.position));
    }
    Ok(there)
}

pub(super) fn sequences_survive(harness: &dyn StoreHarness) -> Verdict {
    for_histories(harness, |steps| async move {
        let mut bench = Bench::start(harness).await?;
        let name = bench.register("ledger", None).await?;
        for (number, step) in (0_u64..).zip(steps) {
            let set = bench.world.change_set(&mut Dice::new(step));
            bench.commit(set).await?;
            bench.drain(&name).await?;
            if number % 8 == 7 {
                bench.store().prune(LATE).await.map_err(Broken::tried("pruning"))?;
                bench.reopen().await?;
            }
        }
        bench.store().prune(LATE).await.map_err(Broken::tried("pruning"))?;
        bench.reopen().await?;
        sequences_are_known(&bench).await
    })
}

/// Of every key ever reported, the last event's sequence is found: in the state while something is held for it, else archived.
async fn sequences_are_known(bench: &Bench) -> Verdict {
    let mut last: BTreeMap<_, BTreeMap<DepositKey, Sequence>> = BTreeMap::new();
    for (_, event, _) in &bench.world.events {
        last.entry(event.chain.clone()).or_default().insert(event.transfer.key.clone(), event.sequence);
    }
    for (chain, keys) in last {
        let state = bench.store().load(&chain).await.map_err(Broken::tried("a load"))?.unwrap_or_default();
        let asked: Vec<_> = keys.keys().cloned().collect();
        let archived = bench.store().settled_among(&chain, &asked).await.map_err(Broken::tried("asking for keys"))?;
        for (key, sequence) in keys {
            let held = state.reported.get(&key).map(|reported| reported.sequence);
            let held = held.or(state.pending.get(&key).map(|pending| pending.last_sequence));
            let held = held.or(state.orphaned.get(&key).map(|orphaned| orphaned.last_sequence));
            let known = held.or(archived.get(&key).map(|archived| archived.sequence));
            hold!(known == Some(sequence), "{key} was last reported at sequence {sequence}; after pruning {known:?} is known");
        }
    }
    Ok(())
}
