//! One pump per consumer, and what is asked of consumers before anything starts.

use super::Observers;
use super::metrics::MeteredSink;
use super::tasks::{Part, Tasks};
use super::traces::TracedSink;
use crate::config::{Config, SinkConfig};
use crate::operator::{LocalOperator, Stores};
use crate::stop::Stop;
use anyhow::{Context as _, bail};
use confirmd_core::{Clock, ConsumerName, Sink, SinkErrorKind, StoreError, with_causes};
use confirmd_engine::{Pump, PumpDeps, RetrySchedule};
use std::sync::Arc;
use std::time::Duration;

/// A sink that does not answer its check in time may still deliver later.
const CHECK_LIMIT: Duration = Duration::from_secs(15);
/// Before a pump that failed is started again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Refuses the start while a consumer that is not configured has undelivered events: nobody would ever be told of them.
pub(super) async fn none_left_behind(config: &Config, stores: &Stores) -> anyhow::Result<()> {
    let known = stores.outbox.consumers().await.context("read the consumers")?;
    for left in known.iter().filter(|known| !config.sinks.iter().any(|sink| *sink.name() == known.name)) {
        let undelivered = left.waiting.saturating_add(left.dead);
        if undelivered > 0 {
            bail!(
                "sinks.{name} is not in {file}, but the consumer {name} has {undelivered} undelivered event{s}; put it back, move them with `confirmd consumer rename {name} NEW`, or give them up with `confirmd consumer purge {name}`",
                name = left.name,
                s = if undelivered == 1 { "" } else { "s" },
                file = config.file.path.display()
            );
        }
        tracing::warn!(sink = %left.name, "this consumer is not configured any more; `confirmd consumer purge` forgets it");
    }
    Ok(())
}

/// Asks sinks whether they could deliver. One that needs an operator refuses the start; one that is only down does not.
pub(super) async fn check_sinks(sinks: impl Iterator<Item = &SinkConfig>) -> anyhow::Result<()> {
    let checks = sinks.map(|sink| async move { (sink, tokio::time::timeout(CHECK_LIMIT, sink.sink.check()).await) });
    for (sink, result) in futures::future::join_all(checks).await {
        match result {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.kind == SinkErrorKind::Fatal => {
                return Err(anyhow::Error::new(error).context(format!(
                    "sinks.{}: the sink refuses to start; mend it, or take it out of the configuration (nothing is lost meanwhile)",
                    sink.name()
                )));
            }
            Ok(Err(error)) => {
                let error = with_causes(&error);
                tracing::warn!(sink = %sink.name(), error, "the sink can't deliver now; events wait on disk");
            }
            Err(_) => tracing::warn!(sink = %sink.name(), "the sink did not answer its check in time; events wait on disk"),
        }
    }
    Ok(())
}

/// Starts the pump of a configured consumer. `unasked`: its books are compared with the state before anything is delivered to it.
pub(super) fn spawn(
    sink: &SinkConfig,
    unasked: bool,
    history: Duration,
    operator: &Arc<LocalOperator>,
    observers: &Observers,
    tasks: &Tasks,
) -> Part {
    let gate = unasked.then(|| Gate {
        name: sink.name().clone(),
        sink: sink.sink.clone(),
        stores: operator.stores.clone(),
        history,
        clock: operator.clock.clone(),
    });
    let operator = operator.clone();
    let traced = TracedSink::around(sink.name(), sink.sink.clone(), observers.traces.clone());
    let metered = MeteredSink::around(sink.name(), traced, observers.metrics.clone());
    let (schedule, name) = (schedule(sink), sink.name().clone());
    let pump = move || {
        Pump::new(PumpDeps {
            consumer: name.clone(),
            sink: metered.clone(),
            outbox: operator.stores.outbox.clone(),
            clock: operator.clock.clone(),
            wake: operator.wake.clone(),
            schedule: schedule.clone(),
            seed: fastrand::u64(..),
        })
    };
    let name = sink.name().to_string();
    tasks.spawn_part(format!("sink {name}"), |stop| async move {
        if let Some(gate) = gate
            && !gate.passed(&stop).await
        {
            return;
        }
        supervise(name, pump, stop).await;
    })
}

/// Holds a pump back until its consumer's books were compared with the state.
struct Gate {
    name: ConsumerName,
    sink: Arc<dyn Sink>,
    stores: Stores,
    history: Duration,
    clock: Arc<dyn Clock>,
}

impl Gate {
    /// Asks until the books answer. `false`: the instance stops, and takes over at its next start what the books know.
    async fn passed(&self, stop: &Stop) -> bool {
        let Some(books) = self.sink.books() else { return true };
        while !stop.is_stopped() {
            let why = match super::books::ahead(books, &self.stores, self.history, self.clock.as_ref()).await {
                Ok(Ok(None)) => return true,
                Ok(Ok(Some(newest))) => {
                    stop.fail(format!(
                        "sink {}: it was told of event {} that this state does not know: the state is an older copy; start again, and it takes over what the consumer knows",
                        self.name, newest.event
                    ));
                    return false;
                }
                Ok(Err(error)) => with_causes(&error),
                Err(error) => format!("{error:#}"),
            };
            tracing::debug!(sink = %self.name, error = why, "its books can't be compared with the state yet");
            tokio::select! {
                biased;
                () = stop.stopped() => return false,
                () = tokio::time::sleep(AGAIN_AFTER) => {}
            }
        }
        false
    }
}

fn schedule(sink: &SinkConfig) -> RetrySchedule {
    let default = RetrySchedule::default();
    match &sink.retry {
        Some(delays) => RetrySchedule { delays: delays.clone(), ..default },
        None => default,
    }
}

async fn supervise(name: String, pump: impl Fn() -> Pump, stop: Stop) {
    while !stop.is_stopped() {
        // A task of its own: a panic in a sink ends one pump, not its supervision. Dropped with us, it is aborted.
        let mut task = tokio::task::JoinSet::new();
        task.spawn(pump().run(stop.receiver()));
        let why = match task.join_next().await {
            None | Some(Ok(Ok(()))) => return,
            Some(Ok(Err(error @ (StoreError::Unknown { .. } | StoreError::Refused { .. })))) => {
                return stop.fail(format!("sink {name}: {}", with_causes(&error)));
            }
            Some(Ok(Err(error))) => with_causes(&error),
            Some(Err(panic)) => panic.to_string(),
        };
        tracing::error!(sink = name, error = why, "the pump failed and is started again; nothing is lost");
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            () = tokio::time::sleep(AGAIN_AFTER) => {}
        }
    }
}
