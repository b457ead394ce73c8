//! S11 to S14: trouble that passes, trouble that stays, calls that are dropped, blocks that are not whole.

use super::super::scene::{Fails, Scene, chain_of, fails, rows, run_for, same, tried};
use super::super::{Act, SourceHarness, Spoil};
use crate::conform::{Broken, Verdict, hold};
use confirmd_core::{SourceError, SourceErrorKind};
use std::time::{Duration, Instant};

/// Further answers than any source asks for in a trial.
const MANY: u32 = 1_000;
/// A call may be late by this: a loaded machine.
const LATE: Duration = Duration::from_secs(5);
/// An attempt may read a damaged answer or a cookie file once more.
const ATTEMPTS_MORE: u64 = 2;

/// Each call fails so, within its attempts and its deadline. Gives the errors.
async fn each_call_fails(scene: &Scene<'_>, with: Fails, when: &str) -> Result<Vec<SourceError>, Broken> {
    let (first, tip, watch) = (scene.first, scene.tip().await?, scene.watch(&[0, 1])?);
    let mut errors = Vec::new();
    for call in ["tip", "header_at", "headers", "transfers"] {
        let (before, began) = (scene.harness.requests(), Instant::now());
        let source = &scene.source;
        let answer = match call {
            "tip" => source.tip().await.map(|_| ()),
            "header_at" => source.header_at(first).await.map(|_| ()),
            "headers" => source.headers(first, tip.height).await.map(|_| ()),
            _ => source.transfers(first, &tip, &watch).await.map(|_| ()),
        };
        errors.push(fails(answer, with, &format!("{when}: {call}"))?);
        let took = began.elapsed();
        hold!(took <= scene.facts.deadline + LATE, "{when}: {call} took {took:?}, the deadline is {:?}", scene.facts.deadline);
        let requests = scene.harness.requests().zip(before).map(|(now, before)| now - before);
        let attempts_max = u64::from(scene.facts.attempts) + ATTEMPTS_MORE;
        let within = requests.is_none_or(|requests| requests <= attempts_max);
        hold!(within, "{when}: {call} sent {requests:?} requests, configured are {} attempts", scene.facts.attempts);
    }
    Ok(errors)
}

/// Everything is read as if nothing had been, also by a source that knows of no trouble.
async fn is_well(scene: &Scene<'_>, when: &str) -> Verdict {
    scene.harness.repair().await?;
    scene.holds_all(&[0, 1], when).await
}

pub(crate) async fn s11_throttled(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    // Too long to be waited for within the deadline.
    let wish = Duration::from_secs(scene.facts.deadline.as_secs() + 30);
    scene.act(Act::Throttle { wish }).await?;
    for error in each_call_fails(&scene, Fails::Transient, "throttled").await? {
        let passed_on = match error.kind {
            SourceErrorKind::Transient { retry_after } => retry_after,
            _ => None,
        };
        // Of a wish a little may be over.
        let right = passed_on.is_some_and(|passed_on| passed_on <= wish && passed_on + LATE >= wish);
        hold!(right, "the server wished for {wish:?}, passed on is {passed_on:?}: {}", chain_of(&error));
    }
    // The source honours the wish; another one has not heard of it.
    scene.harness.repair().await?;
    let (tip, another) = (scene.tip().await?, scene.harness.restarted().await?);
    let found =
        another.transfers(scene.first, &tip, &scene.watch(&[0, 1])?).await.map_err(tried("transfers after throttling"))?;
    same(&rows(&found), &scene.all(&[0, 1])?, "after throttling")
}

pub(crate) async fn s11_silent(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    scene.act(Act::Hang { requests: MANY }).await?;
    each_call_fails(&scene, Fails::Transient, "no answer").await?;
    is_well(&scene, "when the node answers again").await
}

pub(crate) async fn s11_warming_up(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    scene.act(Act::WarmUp).await?;
    each_call_fails(&scene, Fails::Transient, "warming up").await?;
    is_well(&scene, "when the node has started").await
}

pub(crate) async fn s11_syncing(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    scene.act(Act::Sync).await?;
    match scene.source.tip().await {
        // Where old tips are normal the source goes by what the node has.
        Ok(tip) => {
            let header = scene.source.header_at(tip.height).await.map_err(tried("header_at"))?;
            hold!(header.is_some_and(|header| header.block == tip), "a syncing node's tip is {tip}, which it does not have");
        }
        Err(error) => {
            let waits = matches!(error.kind, SourceErrorKind::Transient { .. });
            hold!(waits, "a syncing node: {:?}: {}", error.kind, chain_of(&error));
        }
    }
    is_well(&scene, "when the node has synced").await
}

pub(crate) async fn s12_credentials(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    scene.act(Act::RefuseCredentials).await?;
    each_call_fails(&scene, Fails::Fatal, "credentials refused").await?;
    is_well(&scene, "when the credentials are taken again").await
}

pub(crate) async fn s12_pruned(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    scene.bury().await?;
    let heights = scene.paid_heights();
    let (Some(first), Some(last)) = (heights.first().copied(), heights.last().copied()) else {
        return Err(Broken::new("the harness mined no payment"));
    };
    scene.act(Act::Prune(last)).await?;
    let watch = scene.watch(&[0, 1])?;
    let to = scene.block(last).await?;
    let error = fails(scene.source.transfers(first, &to, &watch).await, Fails::Fatal, "pruned history")?;
    hold!(!error.context.is_empty(), "an error without a text");
    is_well(&scene, "when the history is there again").await
}

pub(crate) async fn s12_garbled(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    let (first, tip, watch) = (scene.first, scene.tip().await?, scene.watch(&[0, 1])?);
    let source = &scene.source;
    scene.act(Act::Garble { answers: 1 }).await?;
    let header = source.header_at(tip.height).await;
    hold!(!is_fatal(&header), "one header that can't be decoded: {header:?}");
    scene.harness.repair().await?;
    scene.act(Act::Garble { answers: 1 }).await?;
    let found = source.transfers(first, &tip, &watch).await;
    hold!(!is_fatal(&found), "one answer that can't be decoded: {found:?}");
    if let Ok(found) = found {
        same(&rows(&found), &scene.all(&[0, 1])?, "one answer that can't be decoded")?;
    }
    scene.harness.repair().await?;
    scene.act(Act::Garble { answers: MANY }).await?;
    drop(fails(source.header_at(tip.height).await, Fails::Fatal, "headers that can't be decoded twice")?);
    drop(fails(source.transfers(first, &tip, &watch).await, Fails::Fatal, "answers that can't be decoded twice")?);
    is_well(&scene, "when answers can be decoded again").await
}

fn is_fatal<T>(answer: &Result<T, SourceError>) -> bool {
    answer.as_ref().is_err_and(|error| error.kind == SourceErrorKind::Fatal)
}

pub(crate) async fn s13_dropped(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    for place in ["near the tip", "far below the tip"] {
        let (tip, watch) = (scene.tip().await?, scene.watch(&[0, 1])?);
        for turns in 0..16 {
            let source = &scene.source;
            drop(run_for(turns, source.transfers(scene.first, &tip, &watch)).await);
            drop(run_for(turns, source.headers(scene.first, tip.height)).await);
            drop(run_for(turns, source.tip()).await);
        }
        scene.holds_all(&[0, 1], &format!("after calls were dropped, {place}")).await?;
        scene.bury().await?;
    }
    Ok(())
}

pub(crate) async fn s13_dropped_in_silence(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    scene.act(Act::Hang { requests: 1 }).await?;
    let (tip, watch) = (scene.tip().await?, scene.watch(&[0, 1])?);
    let answered = run_for(64, scene.source.transfers(scene.first, &tip, &watch)).await;
    hold!(answered.is_none_or(|answer| answer.is_err()), "a call was answered though the node was silent");
    is_well(&scene, "after a call was dropped that hung").await
}

pub(crate) async fn s13_at_once(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    let (first, tip, watch) = (scene.first, scene.tip().await?, scene.watch(&[0, 1])?);
    let source = &scene.source;
    let (one, two, headers, now, header) = tokio::join!(
        source.transfers(first, &tip, &watch),
        source.transfers(first, &tip, &watch),
        source.headers(first, tip.height),
        source.tip(),
        source.header_at(tip.height),
    );
    for found in [one, two] {
        same(&rows(&found.map_err(tried("transfers at once"))?), &scene.all(&[0, 1])?, "calls at once")?;
    }
    let count = u64::try_from(headers.map_err(tried("headers at once"))?.len()).unwrap_or(u64::MAX);
    hold!(count == tip.height.since(first) + 1, "calls at once: {count} headers");
    hold!(now.map_err(tried("tip at once"))? == tip, "calls at once: another tip");
    let header = header.map_err(tried("header_at at once"))?;
    hold!(header.is_some_and(|header| header.block == tip), "calls at once: another header");
    Ok(())
}

pub(crate) async fn s14_cut(harness: &dyn SourceHarness) -> Verdict {
    spoilt(harness, Spoil::Cut).await
}

pub(crate) async fn s14_padded(harness: &dyn SourceHarness) -> Verdict {
    spoilt(harness, Spoil::Padded).await
}

pub(crate) async fn s14_another(harness: &dyn SourceHarness) -> Verdict {
    spoilt(harness, Spoil::Another).await
}

/// A block that is not the block is never an answer with fewer payments.
async fn spoilt(harness: &dyn SourceHarness, how: Spoil) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    for place in ["near the tip", "far below the tip"] {
        let watch = scene.watch(&[0, 1])?;
        for height in scene.paid_heights() {
            let to = scene.block(height).await?;
            scene.act(Act::Spoil { how, height }).await?;
            if let Ok(found) = scene.source.transfers(height, &to, &watch).await {
                let expected = scene.expected(&[0, 1], height, height)?;
                same(&rows(&found), &expected, &format!("block {height} was {how:?}, {place}"))?;
            }
            scene.harness.repair().await?;
        }
        is_well(&scene, "when the blocks are whole again").await?;
        scene.bury().await?;
    }
    Ok(())
}
