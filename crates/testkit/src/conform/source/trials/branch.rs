//! S9: an empty list is a statement.

use super::super::scene::{Fails, Scene, fails, rows, run_for, same};
use super::super::{Act, SourceHarness};
use crate::Remine;
use crate::conform::{Verdict, hold};
use confirmd_core::{BlockRef, Height, SourceErrorKind, WatchSet};

/// Further answers than any source asks for in a trial.
const MANY: u32 = 1_000;

/// Whether there is something to look for or not, the branch is gone.
async fn is_orphaned(scene: &Scene<'_>, from: Height, to: &BlockRef, when: &str) -> Verdict {
    for (watch, looking) in [
        (scene.watch(&[0, 1])?, "for payments"),
        (scene.watch(&[5])?, "for an address without any"),
        (WatchSet::default(), "for nothing"),
    ] {
        let answer = scene.source.transfers(from, to, &watch).await;
        drop(fails(answer, Fails::Orphaned, &format!("{when}, looking {looking}"))?);
    }
    Ok(())
}

pub(crate) async fn s9_unknown(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    for place in ["near the tip", "far below the tip"] {
        let tip = scene.tip().await?;
        let unknown = scene.unknown().await?;
        let (first, last) = (scene.first, scene.paid_heights().last().copied().unwrap_or(scene.first));
        let deep = BlockRef { height: last, hash: unknown.hash.clone() };
        is_orphaned(&scene, first, &unknown, &format!("a block that nobody has, {place}")).await?;
        is_orphaned(&scene, first, &deep, &format!("a block that nobody has, lower, {place}")).await?;
        let elsewhere = BlockRef { height: tip.height.minus(1), hash: tip.hash.clone() };
        is_orphaned(&scene, first, &elsewhere, &format!("a block named with another height, {place}")).await?;
        let above = BlockRef { height: tip.height.plus(3), hash: unknown.hash };
        is_orphaned(&scene, tip.height, &above, &format!("a block above the tip, {place}")).await?;
        scene.bury().await?;
    }
    Ok(())
}

pub(crate) async fn s9_abandoned(harness: &dyn SourceHarness) -> Verdict {
    for remine in [Remine::Drop, Remine::Keep] {
        let mut scene = Scene::begin(harness).await?;
        scene.pay(0, 1).await?;
        scene.mine(3).await?;
        let first = scene.first;
        let (paid, last) = (scene.block(first).await?, scene.tip().await?);
        scene.act(Act::Fork { depth: 3, remine }).await?;
        is_orphaned(&scene, first, &last, &format!("the end of an abandoned branch ({remine:?})")).await?;
        is_orphaned(&scene, first, &paid, &format!("a block of an abandoned branch ({remine:?})")).await?;
    }
    Ok(())
}

pub(crate) async fn s9_lagging(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    for place in ["near the tip", "far below the tip"] {
        let last = scene.paid_heights().last().copied().unwrap_or(scene.first);
        let to = scene.block(last).await?;
        // The tip is known; then a node answers that has not heard of the last payment.
        scene.source.tip().await.map_err(super::super::scene::tried("tip"))?;
        let behind = scene.tip().await?.height.since(last) + 1;
        scene.act(Act::Lag(u32::try_from(behind).unwrap_or(u32::MAX))).await?;
        is_orphaned(&scene, scene.first, &to, &format!("a node that lags behind the block asked for, {place}")).await?;
        scene.harness.repair().await?;
        scene.holds_all(&[0, 1], &format!("when the node has caught up, {place}")).await?;
        scene.bury().await?;
    }
    Ok(())
}

pub(crate) async fn s9_empty(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    for place in ["near the tip", "far below the tip"] {
        for answers in [1, MANY] {
            scene.act(Act::Empty { answers }).await?;
            // Block by block and together: each must be whole or an error.
            let heights = scene.paid_heights();
            let (Some(first), Some(last)) = (heights.first().copied(), heights.last().copied()) else { continue };
            let alone = heights.iter().map(|height| (*height, *height));
            for (from, to) in std::iter::once((first, last)).chain(alone) {
                whole_or_error(&scene, from, to, &format!("{answers} empty answers, {place}")).await?;
            }
            scene.harness.repair().await?;
        }
        scene.holds_all(&[0, 1], &format!("when the node answers again, {place}")).await?;
        scene.bury().await?;
    }
    Ok(())
}

pub(crate) async fn s9_lost(harness: &dyn SourceHarness) -> Verdict {
    lost(&Scene::with_payments(harness).await?, "near the tip").await
}

pub(crate) async fn s9_lost_deep(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    scene.bury().await?;
    lost(&scene, "far below the tip").await
}

/// Each block with a payment is lost in turn, and the range, the block alone and, once it is back, everything is asked for.
async fn lost(scene: &Scene<'_>, place: &str) -> Verdict {
    let heights = scene.paid_heights();
    let (Some(first), Some(last)) = (heights.first().copied(), heights.last().copied()) else { return Ok(()) };
    for lost in heights {
        scene.act(Act::Lose(lost)).await?;
        whole_or_error(scene, first, last, &format!("the node lost block {lost}, {place}")).await?;
        whole_or_error(scene, lost, lost, &format!("the node lost block {lost}, read alone, {place}")).await?;
        scene.harness.repair().await?;
    }
    scene.holds_all(&[0, 1], &format!("when the node has its blocks again, {place}")).await
}

/// The answer is everything that was paid, or an error that does not halt the chain.
async fn whole_or_error(scene: &Scene<'_>, from: Height, to: Height, when: &str) -> Verdict {
    let end = scene.block(to).await?;
    match scene.source.transfers(from, &end, &scene.watch(&[0, 1])?).await {
        Ok(found) => same(&rows(&found), &scene.expected(&[0, 1], from, to)?, when),
        Err(_) => Ok(()),
    }
}

pub(crate) async fn s9_fork_while_reading(harness: &dyn SourceHarness) -> Verdict {
    for turns in 0..12 {
        let mut scene = Scene::begin(harness).await?;
        for units in 1..4 {
            scene.pay(0, units).await?;
            scene.mine(1).await?;
        }
        let (to, watch) = (scene.tip().await?, scene.watch(&[0])?);
        let when = format!("the chain forks after {turns} turns of reading");
        let mut call = scene.source.transfers(scene.first, &to, &watch);
        let answer = match run_for(turns, call.as_mut()).await {
            Some(answer) => answer,
            None => {
                scene.act(Act::Fork { depth: 3, remine: Remine::Drop }).await?;
                call.await
            }
        };
        match answer {
            Ok(found) => same(&rows(&found), &scene.all(&[0])?, &when)?,
            Err(error) => hold!(error.kind != SourceErrorKind::Fatal, "{when}: {error}"),
        }
    }
    Ok(())
}
