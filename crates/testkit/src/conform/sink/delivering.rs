//! Trials of what a delivery is: order, prefix, bytes and duplicates (K1 to K5).

use super::support::{Bench, again, arrivals, batch, events, events_from, ids, kind_name};
use super::{Duplicates, PeerDoes, SinkHarness};
use crate::conform::{Broken, Verdict, hold};
use confirmd_core::Delivery;
use std::sync::Arc;
use tokio::task::JoinSet;

pub(super) async fn checks_deliver_nothing(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    // Whether it could deliver is asked of a sink that can; a check that fails here is another mistake.
    let failed = Broken::tried("a check of a sink whose other side takes everything");
    bench.sink().check().await.map_err(&failed)?;
    let arrived = bench.rig.arrived().await?;
    hold!(arrived.is_empty(), "a check sent {} events", arrived.len());
    let events = events(2);
    bench.deliver_all(&events).await?;
    let before = bench.rig.arrived().await?.len();
    bench.sink().check().await.map_err(&failed)?;
    let after = bench.rig.arrived().await?.len();
    hold!(before == after, "a check between deliveries sent {} events", after.abs_diff(before));
    Ok(())
}

pub(super) async fn order_is_kept(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let profile = bench.sink().profile();
    let count = u64::try_from(profile.batch_max.get()).unwrap_or(64).clamp(4, 64);
    let events = events(count * 3);
    bench.deliver_all(&events).await?;
    let effects = bench.effects().await?;
    let wanted = arrivals(&events);
    hold!(ids(&effects) == ids(&wanted), "delivered {:?}, the effects are {:?}", ids(&wanted), ids(&effects));
    hold!(bench.sink().profile() == profile, "its profile was {profile:?} and is {:?} now", bench.sink().profile());
    Ok(())
}

/// As many calls at a time as the sink allows, up to four; no two hold events of one key.
pub(super) async fn calls_keep_their_order(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let profile = bench.sink().profile();
    let size = u64::try_from(profile.batch_max.get().min(5)).unwrap_or(5);
    let batches: Vec<_> = (0..4).map(|call| events_from(call * 30, size)).take(profile.concurrency.get()).collect();
    for _ in 0..3 {
        let mut calls = JoinSet::new();
        for batch in batches.clone() {
            let sink = Arc::clone(bench.sink());
            calls.spawn(async move { sink.deliver(&batch).await });
        }
        while let Some(ended) = calls.join_next().await {
            let result = ended.map_err(Broken::tried("a call beside others"))?;
            result.map_err(Broken::tried("a delivery that the other side takes, beside others"))?;
        }
    }
    let arrived = bench.rig.arrived().await?;
    for batch in batches.iter().map(|batch| arrivals(batch)) {
        let of_batch: Vec<_> =
            arrived.iter().filter(|arrival| batch.iter().any(|event| event.id == arrival.id)).cloned().collect();
        hold!(of_batch.chunks(batch.len()).all(|call| call == batch), "beside other calls came {:?}", ids(&of_batch));
        hold!(!of_batch.is_empty(), "nothing of a call beside others came: {:?}", ids(&batch));
    }
    Ok(())
}

pub(super) async fn exact_prefix(harness: &dyn SinkHarness) -> Verdict {
    let whole = batch(&Bench::start(harness).await?);
    for room in 0..whole.len() {
        let mut bench = Bench::start(harness).await?;
        bench.rig.peer(PeerDoes::TakeThenBreak(room)).await?;
        let Err(error) = bench.deliver(&whole).await?.result else {
            return Err(Broken::new(format!("{room} of {} were taken, and all count as accepted", whole.len())));
        };
        let effects = bench.effects().await?;
        let wanted = arrivals(&whole);
        // Less than there was room for is sound: a sink may write a batch whole or not at all.
        let prefix = effects.len() <= room && wanted.starts_with(&effects);
        hold!(prefix, "there was room for the first {room}, what took effect is {:?}", ids(&effects));
        hold!(error.accepted == effects.len(), "{} took effect, {} count as accepted", effects.len(), error.accepted);
        bench.rig.peer(PeerDoes::Take).await?;
        bench.deliver_all(whole.get(error.accepted..).unwrap_or_default()).await?;
        let effects = bench.effects().await?;
        hold!(effects == wanted, "after the rest was delivered, the effects are {:?}", ids(&effects));
    }
    Ok(())
}

pub(super) async fn nothing_accepted(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    bench.rig.peer(PeerDoes::Down).await?;
    let whole = batch(&bench);
    let Err(error) = bench.deliver(&whole).await?.result else {
        return Err(Broken::new("the other side can't be reached, and everything counts as accepted"));
    };
    hold!(error.accepted == 0, "the other side can't be reached, and {} events count as accepted", error.accepted);
    bench.rig.peer(PeerDoes::Take).await?;
    bench.deliver_all(&whole).await?;
    let effects = bench.effects().await?;
    hold!(effects == arrivals(&whole), "once it could be reached, the effects are {:?}", ids(&effects));
    Ok(())
}

pub(super) async fn dropped_call(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    bench.rig.peer(PeerDoes::Hang).await?;
    let whole = batch(&bench);
    // The pump gives up in the middle of the call.
    drop(tokio::time::timeout(harness.deadline() / 4, bench.sink().deliver(&whole)).await);
    bench.rig.peer(PeerDoes::Take).await?;
    bench.deliver_all(&whole).await?;
    let effects = bench.effects().await?;
    let last: Vec<_> = effects.iter().rev().take(whole.len()).rev().cloned().collect();
    hold!(last == arrivals(&whole), "after a call was dropped and made again, the effects are {:?}", ids(&effects));
    Ok(())
}

/// As many events as a batch takes, up to three; the second, or the only one, can't be carried.
fn with_poison(bench: &Bench, body: Vec<u8>) -> (Vec<Delivery>, usize) {
    let mut whole = events(u64::try_from(bench.sink().profile().batch_max.get().min(3)).unwrap_or(3));
    let place = usize::from(whole.len() > 1);
    if let Some(event) = whole.get_mut(place) {
        event.body = body.into();
    }
    (whole, place)
}

pub(super) async fn poisoned_batch(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let (whole, place) = with_poison(&bench, harness.poison().unwrap_or_default());
    let Err(error) = bench.deliver(&whole).await?.result else {
        return Err(Broken::new("an event that can't be carried counts as accepted"));
    };
    let effects = bench.effects().await?;
    hold!(error.accepted == place, "event {place} can't be carried, {} count as accepted", error.accepted);
    let wanted = arrivals(whole.get(..place).unwrap_or_default());
    hold!(effects == wanted, "event {place} can't be carried, the effects are {:?}", ids(&effects));
    Ok(())
}

pub(super) async fn poison_is_rejected(harness: &dyn SinkHarness) -> Verdict {
    let bench = Bench::start(harness).await?;
    let (whole, _) = with_poison(&bench, harness.poison().unwrap_or_default());
    let kind = bench.deliver(&whole).await?.result.err().map_or("accepted", |error| kind_name(&error.error));
    hold!(kind == "Rejected", "an event that can't be carried is {kind}");
    Ok(())
}

pub(super) async fn same_bytes(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let events = events(3);
    for event in &events {
        for attempt in [1, 2, 17] {
            // A restart lies between the attempts.
            bench.restart().await?;
            bench.deliver_all(&[again(event, attempt)]).await?;
        }
    }
    all_as_they_were(&mut bench, &events).await
}

pub(super) async fn same_bytes_refused(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let events = events(2);
    for event in &events {
        for attempt in 1..3 {
            bench.refused(PeerDoes::Refuse, &again(event, attempt)).await?;
        }
        bench.rig.peer(PeerDoes::Take).await?;
        bench.deliver_all(&[again(event, 3)]).await?;
    }
    all_as_they_were(&mut bench, &events).await
}

/// Whatever arrived is one of these, to the byte; each arrived at least once.
async fn all_as_they_were(bench: &mut Bench, events: &[Delivery]) -> Verdict {
    let arrived = bench.rig.arrived().await?;
    let wanted = arrivals(events);
    for arrival in &arrived {
        let body = String::from_utf8_lossy(&arrival.body);
        hold!(wanted.contains(arrival), "an attempt brought the id {} with the body {body}", arrival.id);
    }
    for event in &wanted {
        hold!(arrived.contains(event), "no attempt brought the id {}", event.id);
    }
    Ok(())
}

pub(super) async fn duplicates(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let events = events(3);
    bench.deliver_all(&events).await?;
    bench.restart().await?;
    bench.deliver_all(&events).await?;
    match harness.duplicates() {
        Duplicates::SinkSeesToIt => {
            let effects = bench.effects().await?;
            hold!(effects == arrivals(&events), "three events were delivered twice, the effects are {:?}", ids(&effects));
        }
        Duplicates::ReceiverMust { documentation } => {
            hold!(documentation.contains("K5"), "the sink's documentation does not tell the receiver to see to duplicates (K5)");
        }
    }
    Ok(())
}

pub(super) async fn comes_again(harness: &dyn SinkHarness, does: PeerDoes) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let events = events(1);
    bench.refused(does, events.first().ok_or_else(|| Broken::new("no event"))?).await?;
    bench.rig.peer(PeerDoes::Take).await?;
    bench.deliver_all(&events).await?;
    let effects = bench.effects().await?;
    let wanted = arrivals(&events);
    hold!(effects.iter().all(|effect| wanted.contains(effect)), "it came again as {:?}", ids(&effects));
    hold!(!effects.is_empty(), "it was delivered again, and had no effect at all");
    let once = harness.duplicates() == Duplicates::SinkSeesToIt;
    hold!(!once || effects == wanted, "it took effect {} times", effects.len());
    Ok(())
}
