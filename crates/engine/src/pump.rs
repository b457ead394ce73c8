//! The delivery pump of one consumer: hands over what is due, records what came of it. Effects are on disk before they are
//! made, so it may be stopped anywhere; what was in flight is handed over again under the same id.

use crate::RetrySchedule;
use crate::shutdown::stopped;
use confirmd_core::{
    Attempt, AttemptOutcome, Clock, ConsumerName, DeliverError, Delivery, Outbox, Position, Sink, SinkError, SinkErrorKind,
    StoreError,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// What a pump is made of.
#[derive(Debug)]
pub struct PumpDeps {
    /// Whose records.
    pub consumer: ConsumerName,
    /// The consumer's other side.
    pub sink: Arc<dyn Sink>,
    /// The records.
    pub outbox: Arc<dyn Outbox>,
    /// For due times.
    pub clock: Arc<dyn Clock>,
    /// Told when there may be something new: a commit with events, a requeue, a resume.
    pub wake: Arc<Notify>,
    /// When a failed delivery is tried again.
    pub schedule: RetrySchedule,
    /// Seeds the jitter.
    pub seed: u64,
}

/// Delivers to one consumer. Shares nothing with other consumers but the store (G9).
#[derive(Debug)]
pub struct Pump {
    deps: PumpDeps,
    chance: fastrand::Rng,
}

/// A call that came back.
type Returned = (Vec<Delivery>, Result<(), DeliverError>);

/// A due time is looked at again at least this often: wall clocks jump.
const CLOCK_CHECK: Duration = Duration::from_secs(60);

impl Pump {
    /// Makes the pump; `run` starts it.
    pub fn new(deps: PumpDeps) -> Self {
        let chance = fastrand::Rng::with_seed(deps.seed);
        Self { deps, chance }
    }

    /// Delivers until told to stop, or until the store fails. On a stop, calls in flight are waited for and recorded.
    pub async fn run(mut self, mut shutdown: watch::Receiver<bool>) -> Result<(), StoreError> {
        let wake = self.deps.wake.clone();
        let mut in_flight: FuturesUnordered<BoxFuture<'static, Returned>> = FuturesUnordered::new();
        let mut stopping = *shutdown.borrow();
        loop {
            // Registered before the outbox is asked, so that no wake-up falls between.
            let mut woken = std::pin::pin!(wake.notified());
            woken.as_mut().enable();
            if !stopping {
                self.hand_over(&mut in_flight).await?;
            } else if in_flight.is_empty() {
                return Ok(());
            }
            // With every call out there is nothing to look for: the next one that comes back makes room.
            let timer = if stopping || self.free(&in_flight) == 0 { CLOCK_CHECK } else { self.next_look().await? };
            tokio::select! {
                biased;
                Some(returned) = in_flight.next() => {
                    let mut all = vec![returned];
                    while let Some(Some(more)) = in_flight.next().now_or_never() {
                        all.push(more);
                    }
                    self.record(all).await?;
                }
                () = stopped(&mut shutdown), if !stopping => stopping = true,
                () = woken, if !stopping => {}
                () = tokio::time::sleep(timer) => {}
            }
        }
    }

    /// Fills the free calls with what is due.
    async fn hand_over(&self, in_flight: &mut FuturesUnordered<BoxFuture<'static, Returned>>) -> Result<(), StoreError> {
        let batch_max = self.deps.sink.profile().batch_max.get();
        let free = self.free(in_flight);
        if free == 0 {
            return Ok(());
        }
        let limit = free.saturating_mul(batch_max);
        let due = self.deps.outbox.due(&self.deps.consumer, self.deps.clock.now(), limit).await?;
        for batch in due.chunks(batch_max) {
            let (batch, sink) = (batch.to_vec(), self.deps.sink.clone());
            in_flight.push(Box::pin(async move {
                let result = sink.deliver(&batch).await;
                (batch, result)
            }));
        }
        Ok(())
    }

    /// Calls that may still be made now.
    fn free(&self, in_flight: &FuturesUnordered<BoxFuture<'static, Returned>>) -> usize {
        self.deps.sink.profile().concurrency.get().saturating_sub(in_flight.len())
    }

    async fn next_look(&self) -> Result<Duration, StoreError> {
        let next = self.deps.outbox.next_due(&self.deps.consumer).await?;
        Ok(next.map_or(CLOCK_CHECK, |at| at.since(self.deps.clock.now())).min(CLOCK_CHECK))
    }

    /// Records what came back: everything accepted in one commit, then each failure.
    async fn record(&mut self, returned: Vec<Returned>) -> Result<(), StoreError> {
        let mut accepted = Vec::new();
        let mut untried = Vec::new();
        let mut failed = Vec::new();
        for (batch, result) in returned {
            let taken = result.as_ref().map_or_else(|error| error.accepted.min(batch.len()), |()| batch.len());
            accepted.extend(batch.iter().take(taken).map(|delivery| delivery.position));
            if let Err(DeliverError { error, .. }) = result {
                untried.extend(batch.iter().skip(taken.saturating_add(1)).map(|delivery| delivery.position));
                failed.extend(batch.into_iter().nth(taken).map(|delivery| (delivery, error)));
            }
        }
        let consumer = &self.deps.consumer;
        if !accepted.is_empty() {
            self.deps.outbox.acknowledge(consumer, &accepted).await?;
        }
        for (delivery, error) in failed {
            self.failed(delivery, error, &mut untried).await?;
        }
        if !untried.is_empty() {
            self.deps.outbox.release(&self.deps.consumer, &untried).await?;
        }
        Ok(())
    }

    async fn failed(&mut self, delivery: Delivery, error: SinkError, untried: &mut Vec<Position>) -> Result<(), StoreError> {
        let (consumer, outbox) = (&self.deps.consumer, &self.deps.outbox);
        let (outcome, retry_after) = match error.kind {
            SinkErrorKind::Fatal => {
                tracing::error!(sink = %consumer, event = %delivery.event, error = %error,
                    "consumer paused; nothing is lost, `confirmd consumer resume` goes on");
                untried.push(delivery.position);
                return outbox.pause(consumer, Some(error.to_string())).await;
            }
            SinkErrorKind::Transient { retry_after } => (AttemptOutcome::Transient, retry_after),
            SinkErrorKind::Rejected { retry_after } => (AttemptOutcome::Rejected, retry_after),
        };
        let now = self.deps.clock.now();
        let attempt = Attempt {
            number: delivery.attempt,
            at: now,
            outcome,
            status: error.status,
            error: error.to_string(),
            excerpt: error.excerpt.clone(),
        };
        match self.deps.schedule.after(delivery.attempt, self.chance.u64(..)) {
            Some(delay) => {
                let delay = delay.max(retry_after.unwrap_or_default());
                tracing::warn!(sink = %consumer, event = %delivery.event, attempt = delivery.attempt,
                    again_in_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX), error = %error, "delivery failed");
                outbox.retry_later(consumer, delivery.position, attempt, now.plus(delay)).await
            }
            None => {
                tracing::error!(sink = %consumer, event = %delivery.event, attempt = delivery.attempt, error = %error,
                    "delivery is a dead letter; `confirmd deliveries requeue` tries again");
                outbox.bury(consumer, delivery.position, attempt).await
            }
        }
    }
}

#[cfg(test)]
mod tests;
