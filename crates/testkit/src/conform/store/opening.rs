//! Trials of opening: one owner, and nothing that is half understood (T7, T8).

use super::StoreHarness;
use super::support::{Bench, answers, attempt, positions};
use crate::conform::{Broken, Verdict, hold, sample};
use confirmd_core::{StateVersion, StoreError};

/// A refusal tells what is wrong and what to do, which takes more words than this many bytes.
const REFUSAL_BYTES_MIN: usize = 30;

pub(super) async fn a_second_owner_changes_nothing(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let chain = sample::chain(0);
    let set = bench.world.confirm_new(&chain, 1, 1);
    bench.commit(set).await?;
    match bench.rig.open(false).await {
        Err(StoreError::Refused { context, .. }) => {
            hold!(context.len() >= REFUSAL_BYTES_MIN, "the refusal of a second owner does not say what to do: {context}");
        }
        Err(other) => return Err(Broken::new(format!("a second owner was answered with {other:?}"))),
        Ok(second) => {
            // Many may share it: both decide from one version, and one of them loses.
            let (ours, theirs) = (bench.world.confirm_new(&chain, 1, 2), bench.world.confirm_new(&chain, 1, 3));
            bench.commit(ours).await?;
            let lost = second.commit(theirs).await;
            hold!(matches!(lost, Err(StoreError::Conflict { .. })), "two owners decided from one version: {lost:?}");
        }
    }
    // The first owner goes on as if nothing had been.
    let set = bench.world.confirm_new(&chain, 1, 4);
    bench.commit(set).await?;
    super::commits::equals_the_fold(&bench).await?;
    bench.reopen().await?;
    super::commits::equals_the_fold(&bench).await
}

pub(super) async fn one_version_is_decided_once(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let chain = sample::chain(0);
    let (one, two) = (bench.world.confirm_new(&chain, 1, 1), bench.world.confirm_new(&chain, 1, 2));
    let (first, second) = tokio::join!(bench.store().commit(one.clone()), bench.store().commit(two.clone()));
    let (set, receipt) = match (first, second) {
        (Ok(receipt), Err(StoreError::Conflict { .. })) => (one, receipt),
        (Err(StoreError::Conflict { .. }), Ok(receipt)) => (two, receipt),
        other => return Err(Broken::new(format!("two change sets from one version were answered with {other:?}"))),
    };
    hold!(receipt.version == StateVersion(1), "the first commit made {:?}", receipt.version);
    bench.took(&set, &receipt)?;
    super::commits::equals_the_fold(&bench).await
}

pub(super) async fn no_store_is_refused(harness: &dyn StoreHarness) -> Verdict {
    let mut rig = harness.start().await?;
    for _ in 0..2 {
        match rig.open(false).await {
            Err(StoreError::Refused { context, .. }) => {
                hold!(context.len() >= REFUSAL_BYTES_MIN, "the refusal does not say what to do: {context}");
            }
            other => return Err(Broken::new(format!("a place that never held a store was opened: {:?}", other.map(drop)))),
        }
    }
    let store = rig.open(true).await.map_err(Broken::tried("making a store where one was asked for"))?;
    let epoch = store.epoch();
    drop(store);
    // Asked for again, it is the one there is.
    let store = rig.open(true).await.map_err(Broken::tried("opening the store that was made"))?;
    hold!(store.epoch() == epoch, "a store that was there was made anew: {epoch:?} became {:?}", store.epoch());
    Ok(())
}

pub(super) async fn damage_is_refused_or_harmless(harness: &dyn StoreHarness) -> Verdict {
    let damages = harness.start().await?.damages();
    hold!(!damages.is_empty(), "the harness can damage its store, but names no way to do it");
    for (number, damage) in damages.into_iter().enumerate() {
        let mut bench = Bench::start(harness).await?;
        let name = bench.register("ledger", None).await?;
        for height in 1..8 {
            let set = bench.world.confirm_new(&sample::chain(height % 2), 3, height);
            bench.commit(set).await?;
        }
        let due = positions(&bench.due(&name, 2).await?);
        for position in due.iter().take(1) {
            bench.store().bury(&name, *position, attempt(9)).await.map_err(Broken::tried("burying"))?;
        }
        let whole = bench.answers().await?;
        bench.close();
        bench.rig.damage(number).await?;
        let found = match bench.rig.open(false).await {
            Ok(store) => answers(&*store).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(found) => {
                hold!(!damage.must_be_refused, "{}: it was opened all the same", damage.what);
                hold!(found == whole, "{}: it was opened with other {}", damage.what, whole.difference(&found));
            }
            Err(StoreError::Refused { context, .. }) => {
                hold!(context.len() >= REFUSAL_BYTES_MIN, "{}: the refusal does not say what to do: {context}", damage.what);
            }
            Err(other) => return Err(Broken::new(format!("{}: answered with {other:?}", damage.what))),
        }
    }
    Ok(())
}
