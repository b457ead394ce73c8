//! Tells a sink of the operator's what needs a person: halted chains, nodes behind, deep reorgs, failing consumers, dead letters.
//!
//! These events have no key, no alternation and no outbox: what is durable is the fact itself (a halt and a reorg in the state, a dead
//! delivery in the outbox). What holds now is compared with what was told; the difference is written to a file and sent until it is
//! accepted.

mod book;
mod fact;
mod look;

use super::metrics::Metrics;
use super::tasks::{Part, Tasks};
use crate::config::OperationsConfig;
use crate::operator::LocalOperator;
use anyhow::Context as _;
use book::Book;
use confirmd_core::{Sink, SinkErrorKind, with_causes};
use look::Lookout;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

/// How often it is looked what holds.
const LOOK: Duration = Duration::from_secs(2);
/// Waits after failed attempts: doubled from the first to the last.
const AGAIN_FIRST: Duration = Duration::from_secs(2);
const AGAIN_LAST: Duration = Duration::from_secs(300);
/// A sink has a deadline of its own; this is for one that breaks its contract.
const SEND_LIMIT: Duration = Duration::from_secs(660);
const CHECK_LIMIT: Duration = Duration::from_secs(15);

/// Asks the sink whether it could deliver, as consumers' sinks are asked.
pub(super) async fn check_sink(operations: Option<&OperationsConfig>) -> anyhow::Result<()> {
    let Some(operations) = operations else { return Ok(()) };
    match timeout(CHECK_LIMIT, operations.sink.check()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) if error.kind == SinkErrorKind::Fatal => {
            return Err(error)
                .context("operations.sink: the sink refuses to start; mend it, or take it out of the configuration");
        }
        Ok(Err(error)) => {
            tracing::warn!(error = with_causes(&error), "the sink of operational events can't deliver now; they wait on disk");
        }
        Err(_) => tracing::warn!("the sink of operational events did not answer its check in time; they wait on disk"),
    }
    Ok(())
}

/// Starts the teller.
pub(super) fn spawn(operations: &OperationsConfig, operator: &Arc<LocalOperator>, metrics: &Arc<Metrics>, tasks: &Tasks) -> Part {
    let teller = Teller {
        sink: operations.sink.clone(),
        state: operator.state_path.clone(),
        lookout: Lookout {
            operator: operator.clone(),
            metrics: metrics.clone(),
            reorg_blocks: operations.reorg_blocks.get(),
            failing_after: operations.failing_after,
        },
    };
    tasks.spawn_part("operational events", |stop| async move {
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            () = teller.run() => {}
        }
    })
}

struct Teller {
    sink: Arc<dyn Sink>,
    state: PathBuf,
    lookout: Lookout,
}

impl Teller {
    /// May be dropped anywhere: what was not recorded as accepted is sent again.
    async fn run(self) {
        let mut book = Book::open(&self.state, self.lookout.operator.clock.now());
        // A new file says from when on things are told.
        let mut unwritten = true;
        let (mut again, mut wait) = (Instant::now(), AGAIN_FIRST);
        loop {
            unwritten |= self.look(&mut book).await;
            if unwritten {
                unwritten = !self.write(&book).await;
            }
            while !unwritten && Instant::now() >= again && book.next().is_some() {
                match self.send(&mut book).await {
                    true => wait = AGAIN_FIRST,
                    false => {
                        again = Instant::now() + wait;
                        wait = wait.saturating_mul(2).min(AGAIN_LAST);
                    }
                }
                unwritten = !self.write(&book).await;
            }
            self.lookout.metrics.operations_waiting.store(book.waiting(), Relaxed);
            sleep_until(Instant::now() + LOOK).await;
        }
    }

    /// Takes up what is new. Returns whether the book changed.
    async fn look(&self, book: &mut Book) -> bool {
        let epoch = self.lookout.operator.stores.state.epoch();
        let looked = async {
            let (facts, whole) = self.lookout.facts(book.since).await?;
            let changed = book.take_up(&facts, whole, epoch);
            Ok(self.lookout.dead_letters(book).await? || changed)
        };
        looked.await.unwrap_or_else(|error: confirmd_core::StoreError| {
            tracing::warn!(error = with_causes(&error), "what operational events there are can't be read");
            self.lookout.operator.stop.on(&error);
            true
        })
    }

    /// Nothing is sent before it is written down.
    async fn write(&self, book: &Book) -> bool {
        let (book, state) = (book.clone(), self.state.clone());
        let written = tokio::task::spawn_blocking(move || book.write(&state)).await;
        match written.map_err(std::io::Error::other).and_then(|written| written) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(error = %error, state = %self.state.display(), "operational events can't be written down, so none is sent");
                false
            }
        }
    }

    /// One attempt. Returns whether it was accepted.
    async fn send(&self, book: &mut Book) -> bool {
        let Some(next) = book.next().cloned() else { return true };
        let delivery = fact::delivery(&next.id, &next.body, next.attempts.saturating_add(1));
        let error = match timeout(SEND_LIMIT, self.sink.deliver(&[delivery])).await {
            Ok(Ok(())) => {
                tracing::info!(event = %next.id, "operational event delivered");
                book.delivered();
                return true;
            }
            Ok(Err(error)) => with_causes(&error.error),
            Err(_) => format!("no answer within {SEND_LIMIT:?}"),
        };
        tracing::warn!(event = %next.id, attempts = next.attempts.saturating_add(1), error, "an operational event was not delivered; it is tried again");
        book.failed();
        false
    }
}
