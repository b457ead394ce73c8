//! Work in a transaction: begun, tried again where that can help, and never half done.

use crate::error::Failed;
use crate::session::{Ended, Pool, Session};
use confirmd_core::{HumanDuration, StoreError};
use confirmd_postgres::Trouble;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_postgres::Error;

/// Pauses between tries begin here, double, and end at the second.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_secs(2);
/// Tries that lose against other transactions follow at once, so many times.
const COLLISIONS_MAX: u32 = 20;

/// A session that says nothing within a transaction for so long is stopped or out of reach, and the server ends it: its locks hold others
/// up no longer. What only reads holds nobody up, and may have millions of rows to go through between two statements.
const WRITE: &str = "begin isolation level read committed; set local idle_in_transaction_session_timeout = '5s'";
const READ: &str = "begin isolation level repeatable read read only; set local idle_in_transaction_session_timeout = '10min'";

/// What all work of a store shares.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) pool: Pool,
    /// How long the server may be out of reach before the outcome counts as unknown.
    patience: Duration,
    poisoned: AtomicBool,
    ended: watch::Sender<bool>,
}

/// How a transaction is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Sees one moment, changes nothing.
    Read,
    /// Under row locks.
    Write,
}

/// The work itself: what it is given, within an open transaction.
pub(crate) type Work<A, T> = for<'s> fn(&'s Session, &'s A) -> BoxFuture<'s, Result<T, Failed>>;

impl Worker {
    pub(crate) fn new(pool: Pool, patience: Duration) -> Self {
        Self { pool, patience, poisoned: AtomicBool::new(false), ended: watch::Sender::new(false) }
    }

    /// Ends everything that is under way, as the end of the process would. Nothing works from then on.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
        self.pool.clear();
    }

    pub(crate) fn is_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Returns when the store has ended.
    pub(crate) async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // The sender lives as long as `self`.
        drop(ended.wait_for(|ended| *ended).await);
    }

    fn usable(&self) -> Result<(), StoreError> {
        if self.poisoned.load(Ordering::SeqCst) {
            return Err(unknown("an earlier call ended in doubt", None));
        }
        if self.is_ended() {
            return Err(StoreError::Invalid("the store is closed".to_owned()));
        }
        Ok(())
    }

    /// Does work to its end, whoever goes away meanwhile. `deliver` takes the result, still before anything that waits behind
    /// `hold`.
    pub(crate) async fn run<A, T, H>(
        self: &Arc<Self>,
        what: &'static str,
        mode: Mode,
        hold: H,
        args: A,
        work: Work<A, T>,
    ) -> Result<T, StoreError>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        H: Send + 'static,
    {
        self.usable()?;
        let worker = Arc::clone(self);
        let (give, given) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let done = tokio::select! {
                biased;
                () = worker.ended() => Err(unknown("the store was closed meanwhile", None)),
                done = worker.tried(what, mode, &args, work) => done,
            };
            // A value that nobody waits for is dropped here, before the next one's turn.
            drop(give.send(done));
            drop(hold);
        });
        given.await.unwrap_or_else(|_| Err(unknown("the work was broken off", None)))
    }

    async fn tried<A: Sync, T>(&self, what: &'static str, mode: Mode, args: &A, work: Work<A, T>) -> Result<T, StoreError> {
        let mut since = None;
        let (mut pause, mut collisions) = (PAUSE_FIRST, 0);
        loop {
            let error = match self.once(mode, args, work).await {
                Ok(value) => return Ok(value),
                Err(Ended::Failed(Failed::Told(error))) => return Err(error),
                Err(Ended::Silent(limit)) => format!("it has said nothing for {}", HumanDuration(limit)),
                Err(Ended::Failed(Failed::Server(error))) => match Trouble::of(&error) {
                    Trouble::Collision if collisions < COLLISIONS_MAX => {
                        collisions += 1;
                        continue;
                    }
                    Trouble::Collision | Trouble::Passing | Trouble::Slow => self.pool.server().describe(&error),
                    Trouble::Setup | Trouble::Statement => return Err(self.refuse(what, error)),
                },
            };
            // Its sessions may be those of a server that was the one to write to: the next try begins on a new one.
            self.pool.clear();
            let began = *since.get_or_insert_with(|| {
                let server = self.pool.server();
                tracing::warn!(server = server.label(), doing = what, error, "the database does not do it; it is tried again");
                Instant::now()
            });
            if began.elapsed() >= self.patience {
                self.poisoned.store(true, Ordering::SeqCst);
                return Err(unknown(&format!("{what}: {}: {error}", self.pool.server().label()), None));
            }
            let jitter = u64::try_from(pause.as_millis() / 2).unwrap_or_default();
            tokio::time::sleep(pause / 2 + Duration::from_millis(fastrand::u64(0..=jitter))).await;
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }

    async fn once<A: Sync, T>(&self, mode: Mode, args: &A, work: Work<A, T>) -> Result<T, Ended> {
        let loan = self.pool.borrow().await?;
        let session = &loan.session;
        let limit = self.pool.silence_max();
        let done = tokio::select! {
            biased;
            done = transaction(session, mode, args, work) => done,
            // Dropped with its connection: the server rolls back, or has committed, which the next try finds.
            () = session.silent(limit) => return Err(Ended::Silent(limit)),
        };
        match done {
            Ok(value) => {
                loan.give_back();
                Ok(value)
            }
            Err((failed, rolled_back)) => {
                let passing = matches!(&failed, Failed::Server(error) if Trouble::of(error) == Trouble::Passing);
                if rolled_back && !passing {
                    loan.give_back();
                }
                Err(Ended::Failed(failed))
            }
        }
    }

    fn refuse(&self, what: &str, error: Error) -> StoreError {
        let server = self.pool.server();
        let context = format!("{what} in the schema {} of {}: {}", self.pool.schema(), server.label(), server.describe(&error));
        StoreError::Refused { context, source: None }
    }
}

/// The work between its beginning and its end; if it fails, whether it was rolled back.
async fn transaction<A: Sync, T>(session: &Session, mode: Mode, args: &A, work: Work<A, T>) -> Result<T, (Failed, bool)> {
    let begin = match mode {
        Mode::Read => READ,
        Mode::Write => WRITE,
    };
    session.say(begin).await.map_err(|error| (error.into(), false))?;
    match work(session, args).await {
        Ok(value) => session.say("COMMIT").await.map(|()| value).map_err(|error| (error.into(), false)),
        Err(failed) => Err((failed, session.say("ROLLBACK").await.is_ok())),
    }
}

fn unknown(context: &str, source: Option<Error>) -> StoreError {
    StoreError::Unknown { context: context.to_owned(), source: source.map(Into::into) }
}
