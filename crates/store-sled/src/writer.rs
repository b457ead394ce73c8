//! The writer thread. It owns the files and the delivery queues, runs everything that changes them one after the other,
//! and answers only after the sync that covers the answer: one fsync is shared by everything that was waiting.

use crate::consumers::Consumers;
use crate::damage::{REMEDY, panic_text, refused, refused_by, unknown_by};
use crate::disk::Disk;
use crate::heads::Heads;
use crate::reader::Rows;
use crate::steps::{Step, Steps, Threads};
use confirmd_core::{Clock, ConsumerName, Position, StoreError, with_causes};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Calls that wait for the writer; more callers than this wait for a place.
const WAITING_MAX: usize = 1024;
/// Calls that share one sync.
const GROUP_MAX: usize = 128;

/// Why the store can't be used any more, once something failed half-way.
pub(crate) type Poison = Arc<OnceLock<String>>;

/// Deliveries whose receiver went away before they were received.
pub(crate) type Lost = Arc<Mutex<Vec<(ConsumerName, Position)>>>;

/// What the writer thread owns.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) disk: Disk,
    pub(crate) heads: Heads,
    pub(crate) consumers: Consumers,
    pub(crate) clock: Arc<dyn Clock>,
    steps: Steps,
    lost: Lost,
    dirty: bool,
    closing: bool,
    failure: Option<Box<dyn std::error::Error + Send + Sync>>,
    #[cfg(test)]
    pub(crate) fail_next_sync: bool,
}

type Answer = Box<dyn FnOnce(bool) + Send>;
type Job = Box<dyn FnOnce(&mut Core) -> Answer + Send>;

/// Hands work to the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    poison: Poison,
}

impl Core {
    pub(crate) fn new(disk: Disk, heads: Heads, consumers: Consumers, clock: Arc<dyn Clock>, steps: Steps) -> Self {
        Self {
            disk,
            heads,
            consumers,
            clock,
            steps,
            lost: Lost::default(),
            dirty: false,
            closing: false,
            failure: None,
            #[cfg(test)]
            fail_next_sync: false,
        }
    }

    /// Applies one commit; it is durable when the caller is answered.
    pub(crate) fn write(&mut self, rows: Rows) -> Result<(), StoreError> {
        self.dirty = true;
        let applied = self.disk.apply(rows).map_err(|error| {
            let text = with_causes(&error);
            self.failure = Some(Box::new(error));
            unknown_by("a commit could not be written", text)
        });
        self.steps.reached(Step::Applied);
        applied
    }

    /// Tells of a step.
    pub(crate) fn reached(&self, step: Step) {
        self.steps.reached(step);
    }

    /// Something was half written: the store can't be used any more.
    pub(crate) fn fail(&mut self, error: StoreError) -> StoreError {
        let text = with_causes(&error);
        self.failure = Some(text.clone().into());
        unknown_by("a commit could not be written", text)
    }

    /// Ends the thread once everybody of this group is answered.
    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    /// Where deliveries go that nobody received.
    pub(crate) fn lost(&self) -> Lost {
        Arc::clone(&self.lost)
    }

    /// Puts back what was handed out to nobody.
    pub(crate) fn take_back_lost(&mut self) {
        let lost = std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
        lost.into_iter().for_each(|(consumer, position)| self.consumers.release(&consumer, position));
    }

    fn sync(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if !std::mem::take(&mut self.dirty) {
            return Ok(());
        }
        #[cfg(test)]
        // Like a disk that failed after the database took the batch.
        if std::mem::take(&mut self.fail_next_sync) {
            return Err("the disk said no".into());
        }
        self.disk.sync(&self.steps)
    }
}

impl Writer {
    /// Starts the thread (or the task). It ends when the `Writer` is gone.
    pub(crate) fn start(core: Core, threads: Threads) -> Result<(Self, WriterEnd), StoreError> {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        let poison = Poison::default();
        if threads == Threads::Callers {
            let task = tokio::spawn(run_as_a_task(core, waiting, Arc::clone(&poison)));
            return Ok((Self { jobs: Some(jobs), poison }, WriterEnd::Task(task)));
        }
        let thread = std::thread::Builder::new().name("confirmd-store".to_owned());
        let thread_poison = Arc::clone(&poison);
        let thread = thread
            .spawn(move || run(core, waiting, &thread_poison))
            .map_err(|error| refused_by("starting the store's writer thread failed", error))?;
        Ok((Self { jobs: Some(jobs), poison }, WriterEnd::Thread(thread)))
    }

    /// Runs `work` on the writer thread and answers once what it wrote is durable. If the future is dropped the work may
    /// still happen.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if let Some(error) = self.poisoned() {
            return Err(error);
        }
        let (tx, rx) = oneshot::channel();
        let poison = Arc::clone(&self.poison);
        let job: Job = Box::new(move |core| {
            let result = caught(core, work);
            Box::new(move |synced: bool| {
                let result = match result {
                    Err(error @ StoreError::Refused { .. }) => Err(error),
                    result if synced => result,
                    _ => Err(unknown(&poison)),
                };
                // Whoever asked may have gone; what was done stays done.
                drop(tx.send(result));
            })
        });
        let closed = || StoreError::Invalid("the store is closed".to_owned());
        let jobs = self.jobs.as_ref().ok_or_else(closed)?;
        jobs.send(job).await.map_err(|_| self.poisoned().unwrap_or_else(closed))?;
        rx.await.map_err(|_| self.poisoned().unwrap_or_else(closed))?
    }

    /// Lets the thread end once it has answered what waits.
    pub(crate) fn end(&mut self) {
        self.jobs = None;
    }

    /// The error of every call once something failed half-way.
    pub(crate) fn poisoned(&self) -> Option<StoreError> {
        self.poison.get().map(|_| unknown(&self.poison))
    }
}

fn unknown(poison: &Poison) -> StoreError {
    let context = poison.get().cloned().unwrap_or_else(|| "a write failed".to_owned());
    StoreError::Unknown { context, source: None }
}

/// sled panics on some kinds of damage; whoever asked is told, and nothing more is done.
fn caught<T>(core: &mut Core, work: impl FnOnce(&mut Core) -> Result<T, StoreError>) -> Result<T, StoreError> {
    std::panic::catch_unwind(AssertUnwindSafe(|| work(core))).unwrap_or_else(|panic| {
        let text = panic_text(panic);
        core.failure = Some(format!("the database gave up with {text:?}").into());
        Err(refused(format!(
            "the state in {} is damaged: the database gave up with {text:?}; {REMEDY}",
            core.disk.reader.path().display()
        )))
    })
}

/// How the writer is waited for.
#[derive(Debug)]
pub(crate) enum WriterEnd {
    Thread(std::thread::JoinHandle<()>),
    Task(tokio::task::JoinHandle<()>),
}

impl WriterEnd {
    /// Waits until the writer has let the files go. False if it ended badly.
    pub(crate) async fn wait(self) -> bool {
        match self {
            Self::Thread(thread) => tokio::task::spawn_blocking(move || thread.join().is_ok()).await.unwrap_or(false),
            Self::Task(task) => task.await.is_ok(),
        }
    }

    /// Waits on this thread. A task can't be waited for so: it is dropped, with what it had not synced.
    pub(crate) fn wait_blocking(self) {
        match self {
            // The thread catches its own panics.
            Self::Thread(thread) => drop(thread.join()),
            Self::Task(task) => task.abort(),
        }
    }
}

fn run(mut core: Core, mut waiting: mpsc::Receiver<Job>, poison: &Poison) {
    while goes_on(&core, poison)
        && let Some(job) = waiting.blocking_recv()
    {
        turn(&mut core, job, &mut waiting, poison);
    }
    finish(core, poison);
}

async fn run_as_a_task(mut core: Core, mut waiting: mpsc::Receiver<Job>, poison: Poison) {
    while goes_on(&core, &poison)
        && let Some(job) = waiting.recv().await
    {
        turn(&mut core, job, &mut waiting, &poison);
    }
    finish(core, &poison);
}

/// After a failure nothing is run any more; who still asks is told so by `poison`.
fn goes_on(core: &Core, poison: &Poison) -> bool {
    !core.closing && poison.get().is_none()
}

/// Runs a group, syncs once, answers everybody.
fn turn(core: &mut Core, job: Job, waiting: &mut mpsc::Receiver<Job>, poison: &Poison) {
    let (answers, not_run) = run_group(core, job, waiting, poison);
    let synced = std::panic::catch_unwind(AssertUnwindSafe(|| core.sync()));
    let failure = match synced {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(with_causes(error.as_ref())),
        Err(panic) => Some(panic_text(panic)),
    };
    if let Some(failure) = failure {
        tracing::error!(error = %failure, "the state could not be written; it must be opened again");
        let _ = poison.set(format!("writing to the state failed ({failure})"));
    }
    let healthy = poison.get().is_none();
    answers.into_iter().for_each(|answer| answer(healthy));
    // Who waits for one of these finds the reason in `poison`.
    drop(not_run);
}

/// Runs everything that waits now, up to a bound. After a failure nothing more is run.
fn run_group(core: &mut Core, first: Job, waiting: &mut mpsc::Receiver<Job>, poison: &Poison) -> (Vec<Answer>, Vec<Job>) {
    let (mut answers, mut not_run) = (Vec::new(), Vec::new());
    let mut next = Some(first);
    while let Some(job) = next {
        if poison.get().is_none() && core.failure.is_none() {
            answers.push(job(core));
        } else {
            not_run.push(job);
        }
        next = if answers.len() + not_run.len() < GROUP_MAX { waiting.try_recv().ok() } else { None };
    }
    (answers, not_run)
}

fn finish(mut core: Core, poison: &Poison) {
    if poison.get().is_some() {
        return;
    }
    let ended = std::panic::catch_unwind(AssertUnwindSafe(move || {
        core.save_consumers()?;
        core.sync().map_err(|error| unknown_by("the last sync failed", error))?;
        core.disk.finish()
    }));
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = %error, "the state was not closed cleanly"),
        Err(panic) => tracing::warn!(error = panic_text(panic), "the state was not closed cleanly"),
    }
}
