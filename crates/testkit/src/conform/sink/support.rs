//! What several trials of sinks need.

use super::{Arrival, PeerDoes, SinkHarness, SinkRig};
use crate::conform::{Broken, Verdict, hold, sample};
use confirmd_core::{DeliverError, Delivery, Sink, SinkError, SinkErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a call may take beyond its deadline before it counts as never ending.
const SLACK: Duration = Duration::from_secs(3);

/// One trial's sink and other side.
pub(super) struct Bench {
    pub(super) rig: Box<dyn SinkRig>,
    sink: Option<Arc<dyn Sink>>,
    deadline: Duration,
}

/// How a call went, and how long it took.
pub(super) struct Timed {
    pub(super) result: Result<(), DeliverError>,
    pub(super) took: Duration,
}

impl Bench {
    pub(super) async fn start(harness: &dyn SinkHarness) -> Result<Self, Broken> {
        let mut rig = harness.start().await?;
        let sink = rig.sink().await?;
        Ok(Self { rig, sink: Some(sink), deadline: harness.deadline() })
    }

    /// The sink under test.
    pub(super) fn sink(&self) -> &Arc<dyn Sink> {
        self.sink.as_ref().expect("invariant: only away within `restart`")
    }

    /// confirmd stops and starts again; the other side stays.
    pub(super) async fn restart(&mut self) -> Verdict {
        self.sink = None;
        self.sink = Some(self.rig.sink().await?);
        Ok(())
    }

    /// Delivers; a call that does not end well after its deadline breaks K9, whatever is being tried.
    pub(super) async fn deliver(&self, batch: &[Delivery]) -> Result<Timed, Broken> {
        let started = Instant::now();
        let call = self.sink().deliver(batch);
        let Ok(result) = tokio::time::timeout(self.deadline + SLACK, call).await else {
            return Err(Broken::new(format!(
                "`deliver` did not end within {SLACK:?} beyond its deadline of {:?}",
                self.deadline
            )));
        };
        Ok(Timed { result, took: started.elapsed() })
    }

    /// Delivers what the other side must take.
    pub(super) async fn deliver_all(&self, events: &[Delivery]) -> Result<(), Broken> {
        for batch in events.chunks(self.sink().profile().batch_max.get()) {
            self.deliver(batch).await?.result.map_err(Broken::tried("a delivery that the other side takes"))?;
        }
        Ok(())
    }

    /// Delivers one event that the other side does not take; the error, after checking that nothing counts as accepted.
    pub(super) async fn refused(&mut self, does: PeerDoes, event: &Delivery) -> Result<SinkError, Broken> {
        self.rig.peer(does).await?;
        match self.deliver(std::slice::from_ref(event)).await?.result {
            Ok(()) => Err(Broken::new(format!("the other side was told to {does:?}, and the event counts as accepted"))),
            Err(error) => {
                let accepted = error.accepted;
                hold!(accepted == 0, "of one event that failed, {accepted} count as accepted ({does:?})");
                Ok(error.error)
            }
        }
    }

    /// What took effect so far.
    pub(super) async fn effects(&mut self) -> Result<Vec<Arrival>, Broken> {
        self.rig.effects().await
    }
}

/// The events as the other side should see them.
pub(super) fn arrivals(events: &[Delivery]) -> Vec<Arrival> {
    events.iter().map(|event| Arrival { id: event.event.clone(), body: event.body.to_vec() }).collect()
}

/// Ids alone, for texts.
pub(super) fn ids(arrivals: &[Arrival]) -> Vec<&str> {
    arrivals.iter().map(|arrival| arrival.id.as_str()).collect()
}

/// `count` events, of which each third reverts the one before it.
pub(super) fn events(count: u64) -> Vec<Delivery> {
    events_from(0, count)
}

/// The same, of keys from a number on that is a multiple of three.
pub(super) fn events_from(first: u64, count: u64) -> Vec<Delivery> {
    let event = |number: u64| match number % 3 {
        2 => sample::delivery(number - 1, 2),
        _ => sample::delivery(number, 1),
    };
    (first..first + count).map(event).collect()
}

/// The same event on a later attempt.
pub(super) fn again(event: &Delivery, attempt: u32) -> Delivery {
    Delivery { attempt, ..event.clone() }
}

/// What a caller would wait before the next attempt.
pub(super) fn retry_after(error: &SinkError) -> Option<Duration> {
    match error.kind {
        SinkErrorKind::Transient { retry_after } | SinkErrorKind::Rejected { retry_after } => retry_after,
        SinkErrorKind::Fatal => None,
    }
}

/// A kind without its detail.
pub(super) fn kind_name(error: &SinkError) -> &'static str {
    match error.kind {
        SinkErrorKind::Transient { .. } => "Transient",
        SinkErrorKind::Rejected { .. } => "Rejected",
        SinkErrorKind::Fatal => "Fatal",
    }
}

/// An error as it may be shown anywhere: its texts, its debug output and its causes.
pub(super) fn shown(error: &SinkError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    text
}

/// A batch as large as the sink takes, up to five events.
pub(super) fn batch(bench: &Bench) -> Vec<Delivery> {
    events(u64::try_from(bench.sink().profile().batch_max.get().min(5)).unwrap_or(5))
}
