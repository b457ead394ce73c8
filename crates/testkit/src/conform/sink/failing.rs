//! Trials of what a failure is: its kind, its words, its end, and what counts as success (K6 to K10).

use super::log::Log;
use super::support::{Bench, arrivals, batch, events, ids, kind_name, retry_after, shown};
use super::{PeerDoes, SinkHarness};
use crate::conform::{Broken, Verdict, hold, sample};
use std::time::Duration;

/// No receiver's mistake may hold an event up for longer (K7).
const RETRY_AFTER_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Of an answer without end: what fills the buffers of the systems on both ends (K9).
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Of an error's text, whatever the other side said (K9).
const ERROR_BYTES_MAX: usize = 16 << 10;

pub(super) async fn sorted(harness: &dyn SinkHarness, does: PeerDoes, wanted: &str) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let events = events(1);
    let event = events.first().ok_or_else(|| Broken::new("no event"))?;
    let error = bench.refused(does, event).await?;
    let kind = kind_name(&error);
    hold!(kind == wanted, "the other side was told to {does:?}, which is {wanted}; it came as {kind}: {error}");
    Ok(())
}

async fn throttled(harness: &dyn SinkHarness, asked: Duration) -> Result<Option<Duration>, Broken> {
    let mut bench = Bench::start(harness).await?;
    let events = events(1);
    let event = events.first().ok_or_else(|| Broken::new("no event"))?;
    let error = bench.refused(PeerDoes::Throttle(asked), event).await?;
    Ok(retry_after(&error))
}

pub(super) async fn retry_after_is_passed_on(harness: &dyn SinkHarness) -> Verdict {
    let asked = Duration::from_secs(7);
    let passed_on = throttled(harness, asked).await?;
    hold!(passed_on == Some(asked), "the other side asked for {asked:?}, passed on was {passed_on:?}");
    Ok(())
}

pub(super) async fn retry_after_is_bounded(harness: &dyn SinkHarness) -> Verdict {
    let asked = Duration::from_secs(10 * 365 * 24 * 3600);
    let passed_on = throttled(harness, asked).await?;
    let bounded = passed_on.is_none_or(|after| after <= RETRY_AFTER_MAX);
    hold!(bounded, "the other side asked for {asked:?}, passed on was {passed_on:?}; at most {RETRY_AFTER_MAX:?} is bearable");
    Ok(())
}

pub(super) async fn secrets(harness: &dyn SinkHarness) -> Verdict {
    let log = Log::default();
    let _taken_down = tracing::subscriber::set_default(log.clone());
    let mut bench = Bench::start(harness).await?;
    let mut said = vec![("debug output", format!("{:?} {:#?}", bench.sink(), bench.sink()))];
    let every = [
        PeerDoes::Take,
        PeerDoes::Refuse,
        PeerDoes::Throttle(Duration::from_secs(7)),
        PeerDoes::Gone,
        PeerDoes::Down,
        PeerDoes::Close,
        PeerDoes::Hang,
        PeerDoes::TakeAndFail,
        PeerDoes::BreakOff,
    ];
    for (number, does) in (0..).zip(every).filter(|(_, does)| harness.unable(*does).is_none()) {
        bench.rig.peer(does).await?;
        if let Err(error) = bench.sink().check().await {
            said.push(("a check's error", shown(&error)));
        }
        if let Err(error) = bench.deliver(&[sample::delivery(number, 1)]).await?.result {
            said.push(("an error", format!("{error} {error:?} {}", shown(&error.error))));
        }
    }
    said.push(("the log", log.text()));
    for (place, text) in said {
        // The secret itself is not repeated here either.
        let leaked = harness.secrets().iter().position(|secret| text.contains(secret));
        hold!(leaked.is_none(), "{place} shows secret number {}", leaked.unwrap_or_default());
    }
    Ok(())
}

pub(super) async fn silence_ends(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    bench.rig.peer(PeerDoes::Hang).await?;
    let timed = bench.deliver(&events(1)).await?;
    hold!(timed.result.is_err(), "the other side never answered, and the event counts as accepted after {:?}", timed.took);
    Ok(())
}

pub(super) async fn endless_ends(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    bench.rig.peer(PeerDoes::AnswerWithoutEnd).await?;
    let events = events(1);
    let timed = bench.deliver(&events).await?;
    let bytes = bench.rig.answered_bytes();
    hold!(bytes <= ANSWER_BYTES_MAX, "{bytes} bytes of an answer without end were read; {ANSWER_BYTES_MAX} are more than enough");
    match timed.result {
        Ok(()) => {
            let effects = bench.effects().await?;
            hold!(effects == arrivals(&events), "it counts as accepted, the effects are {:?}", ids(&effects));
        }
        Err(error) => {
            let length = shown(&error.error).len();
            hold!(length <= ERROR_BYTES_MAX, "the error about an answer without end is {length} bytes long");
        }
    }
    Ok(())
}

pub(super) async fn effect_before_accepted(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let whole = batch(&bench);
    for event in &whole {
        bench.deliver_all(std::slice::from_ref(event)).await?;
        // Looked at without waiting: what comes later came too late.
        let effects = bench.effects().await?;
        let there = effects.last().is_some_and(|effect| effect.id == event.event);
        hold!(there, "{} counts as accepted and has not taken effect: {:?}", event.event, ids(&effects));
    }
    // What was accepted stays when confirmd goes.
    bench.restart().await?;
    let effects = bench.effects().await?;
    hold!(effects == arrivals(&whole), "after a restart the effects are {:?}", ids(&effects));
    Ok(())
}

pub(super) async fn broken_success(harness: &dyn SinkHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let events = events(1);
    let event = events.first().ok_or_else(|| Broken::new("no event"))?;
    bench.refused(PeerDoes::BreakOff, event).await?;
    Ok(())
}
