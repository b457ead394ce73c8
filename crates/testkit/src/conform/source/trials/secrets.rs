//! S17: secrets are seen nowhere.

use super::super::log::Log;
use super::super::scene::Scene;
use super::super::{Act, SourceHarness};
use crate::conform::{Verdict, hold};
use confirmd_core::FinalityTag;
use std::time::Duration;

pub(crate) async fn s17_well(harness: &dyn SourceHarness) -> Verdict {
    let log = Log::default();
    let guard = log.collect();
    let scene = Scene::with_payments(harness).await?;
    let said = everything_said(&scene).await?;
    drop(guard);
    is_silent(&scene, &format!("{said}\n{}", log.text()), "a node that is well")
}

pub(crate) async fn s17_repeated(harness: &dyn SourceHarness) -> Verdict {
    while_it(harness, Act::RepeatSecret, "a server that repeats it").await
}

pub(crate) async fn s17_refused(harness: &dyn SourceHarness) -> Verdict {
    while_it(harness, Act::RefuseCredentials, "refused credentials").await
}

pub(crate) async fn s17_throttled(harness: &dyn SourceHarness) -> Verdict {
    while_it(harness, Act::Throttle { wish: Duration::from_secs(60) }, "a server that throttles").await
}

pub(crate) async fn s17_garbled(harness: &dyn SourceHarness) -> Verdict {
    while_it(harness, Act::Garble { answers: 1_000 }, "answers that can't be decoded").await
}

pub(crate) async fn s17_closed(harness: &dyn SourceHarness) -> Verdict {
    while_it(harness, Act::Reconnect, "a lost connection").await
}

async fn while_it(harness: &dyn SourceHarness, act: Act, when: &str) -> Verdict {
    let log = Log::default();
    let guard = log.collect();
    let scene = Scene::with_payments(harness).await?;
    scene.act(act).await?;
    let said = everything_said(&scene).await?;
    drop(guard);
    is_silent(&scene, &format!("{said}\n{}", log.text()), when)
}

/// What every call says, errors with their causes, and the source itself.
async fn everything_said(scene: &Scene<'_>) -> Result<String, crate::conform::Broken> {
    let (source, tip, watch) = (&scene.source, scene.tip().await?, scene.watch(&[0, 1])?);
    let mut said = format!("{source:?}\n{source:#?}\n{:?}\n", source.profile());
    let errors = [
        source.identify().await.err(),
        source.tip().await.err(),
        source.header_at(scene.first).await.err(),
        source.headers(scene.first, tip.height).await.err(),
        source.finalized(FinalityTag::Finalized).await.err(),
        source.transfers(scene.first, &tip, &watch).await.err(),
        source.transfers(scene.first, &scene.unknown().await?, &watch).await.err(),
    ];
    for error in errors.iter().flatten() {
        said.push_str(&format!("{error} {error:?} {error:#?}\n"));
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            said.push_str(&format!("{error} {error:?}\n"));
            cause = error.source();
        }
    }
    match source.inspect().await {
        Ok(lines) => said.push_str(&format!("{lines:?}\n")),
        Err(error) => said.push_str(&format!("{error} {error:?}\n")),
    }
    Ok(said)
}

fn is_silent(scene: &Scene<'_>, said: &str, when: &str) -> Verdict {
    let secret = &scene.facts.secret;
    hold!(secret.len() >= 8, "the harness plants no secret of 8 characters or more");
    let place = said.find(secret.as_str()).map(|at| {
        let before: Vec<char> = said.get(..at).unwrap_or_default().chars().rev().take(120).collect();
        before.into_iter().rev().collect::<String>()
    });
    hold!(place.is_none(), "{when}: the endpoint's secret is seen behind {place:?}");
    Ok(())
}
