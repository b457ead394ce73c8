//! Trials of a commit whose write fails (T11, T12).

use super::StoreHarness;
use super::commits::{equals_the_fold, events_there, first_position};
use super::support::{ALL, Bench, LATE, attempt, spec};
use crate::conform::{Broken, Verdict, hold, sample};
use confirmd_core::{
    ChangeSet, CommitReceipt, ConsumerName, DeliveryFilter, DepositFilter, EventId, Height, Position, StoreError,
};

pub(super) async fn nothing_of_a_failed_commit_is_handed_out(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let name = bench.register("ledger", None).await?;
    let chain = sample::chain(0);
    let set = bench.world.confirm_new(&chain, 1, 1);
    bench.commit(set).await?;
    let set = bench.world.confirm_new(&chain, 2, 2);
    bench.rig.fail_next_commit().await?;
    let store = bench.store();
    let (failed, due) = tokio::join!(store.commit(set.clone()), store.due(&name, LATE, ALL));
    hold!(failed.is_err(), "the disk failed, and the commit was answered with {failed:?}");
    let of_it = |id: &EventId| set.events.iter().any(|(event, _)| event.id == *id);
    for due in [due, bench.store().due(&name, LATE, ALL).await] {
        let given = due.unwrap_or_default();
        let early = given.iter().map(|delivery| &delivery.event).find(|id| of_it(id));
        hold!(early.is_none(), "an event of a commit that failed was handed out: {early:?}");
    }
    Ok(())
}

pub(super) async fn what_was_handed_out_stays(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let name = bench.register("ledger", None).await?;
    for height in 1..6 {
        let set = bench.world.confirm_new(&sample::chain(0), 2, height);
        let store = bench.store();
        let (receipt, due) = tokio::join!(store.commit(set.clone()), store.due(&name, LATE, ALL));
        let given = due.map_err(Broken::tried("asking for deliveries"))?;
        bench.took(&set, &receipt.map_err(Broken::tried("a commit"))?)?;
        bench.power_cut().await?;
        for delivery in given {
            let record = bench.store().event(&delivery.event).await.map_err(Broken::tried("asking for an event"))?;
            let same = record.is_some_and(|record| record.position == delivery.position && record.body == delivery.body);
            hold!(same, "the event {} was handed out; after a power cut it is not as it was", delivery.event);
        }
        bench.register("ledger", None).await?;
    }
    Ok(())
}

pub(super) async fn an_unknown_outcome_stays_unknown(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let name = bench.register("ledger", None).await?;
    let chain = sample::chain(0);
    let set = bench.world.confirm_new(&chain, 1, 1);
    bench.commit(set).await?;
    let set = bench.world.confirm_new(&chain, 2, 2);
    bench.rig.fail_next_commit().await?;
    let failed = bench.store().commit(set.clone()).await;
    hold!(matches!(failed, Err(StoreError::Unknown { .. })), "the disk failed in a commit, the answer was {failed:?}");
    for (call, answer) in every_call(&bench, &name, &set).await {
        hold!(matches!(answer, Err(StoreError::Unknown { .. })), "after an unknown outcome, {call} answered {answer:?}");
    }
    bench.reopen().await?;
    let found = bench.store().load(&chain).await.map_err(Broken::tried("a load"))?.unwrap_or_default();
    let events = events_there(&bench, &set).await?;
    if found.version != bench.world.version(&chain) {
        let first_event = first_position(&bench, &set).await?;
        bench.world.take(&set, &CommitReceipt { version: found.version, first_event });
        hold!(events == set.events.len(), "the commit turned out to be there, and {events} of its events are");
    } else {
        hold!(events == 0, "the commit turned out not to be there, and {events} of its events are");
        bench.commit(set).await?;
    }
    equals_the_fold(&bench).await
}

/// Every call of the three contracts, on a store whose outcome is unknown.
async fn every_call(bench: &Bench, name: &ConsumerName, set: &ChangeSet) -> Vec<(&'static str, Result<(), StoreError>)> {
    let (store, chain, position) = (bench.store(), &set.chain, Position(1));
    let id = set.events.first().map(|(event, _)| event.id.clone());
    let event = match &id {
        Some(id) => store.event(id).await.map(drop),
        None => Ok(()),
    };
    vec![
        ("chains", store.chains().await.map(drop)),
        ("load", store.load(chain).await.map(drop)),
        ("settled_among", store.settled_among(chain, &[]).await.map(drop)),
        ("settled_above", store.settled_above(chain, Height(0)).await.map(drop)),
        ("watched", store.watched(chain, None, 1).await.map(drop)),
        ("commit", store.commit(set.clone()).await.map(drop)),
        ("register", store.register(&spec("ledger", None)).await),
        ("consumers", store.consumers().await.map(drop)),
        ("due", store.due(name, LATE, 1).await.map(drop)),
        ("next_due", store.next_due(name).await.map(drop)),
        ("acknowledge", store.acknowledge(name, &[position]).await),
        ("bury", store.bury(name, position, attempt(1)).await),
        ("release", store.release(name, &[position]).await),
        ("requeue", store.requeue(name, &[]).await.map(drop)),
        ("list", store.list(&DeliveryFilter::default(), None, 1).await.map(drop)),
        ("attempts", store.attempts(name, position).await.map(drop)),
        ("pause", store.pause(name, None).await),
        ("deposits", store.deposits(&DepositFilter::default(), None, 1).await.map(drop)),
        ("event", event),
        ("prune", store.prune(LATE).await.map(drop)),
    ]
}
