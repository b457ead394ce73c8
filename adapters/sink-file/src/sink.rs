//! A sink that appends lines to a file.

use crate::FileConfig;
use crate::line_file::{LineFile, OpenError};
use async_trait::async_trait;
use confirmd_core::{ConfigError, DeliverError, Delivery, HumanDuration, Sink, SinkBooks, SinkError, SinkErrorKind, SinkProfile};
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// Events in one call, which share one sync. More would widen what a crash repeats.
const BATCH_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("invariant: 256 is not zero");

/// Appends each event's body as one line and syncs it.
#[derive(Debug)]
pub struct FileSink {
    path: PathBuf,
    timeout: Duration,
    /// Locked only on a blocking thread and never waited for: a disk that hangs must not pile up threads.
    open: Arc<Mutex<Option<LineFile>>>,
    /// Whether the disk is waited for on a thread of its own.
    on_a_thread: bool,
}

/// Why the blocking part failed.
enum Failure {
    /// The call before this one has not come back from the disk.
    StillBusy,
    Open(OpenError),
    Write(io::Error),
}

impl FileSink {
    /// Opens nothing yet.
    ///
    /// # Errors
    /// When the path names no file or the time-out is zero.
    pub fn new(config: &FileConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { path: config.path.clone(), timeout: config.timeout.0, open: Arc::default(), on_a_thread: true })
    }

    /// Waits for the disk in place, which blocks the caller's thread: for simulations, whose every step must be in one order.
    #[must_use]
    pub fn in_place(self) -> Self {
        Self { on_a_thread: false, ..self }
    }

    /// Opens the file if it is not open or no longer the one at the path, then appends. Ends at the deadline, though the
    /// disk may finish later: such lines are duplicates of the next attempt's.
    async fn append(&self, lines: Vec<u8>, at_start: bool) -> Result<(), SinkError> {
        let (open, path) = (Arc::clone(&self.open), self.path.clone());
        let work = move || {
            let mut open = lock(&open).ok_or(Failure::StillBusy)?;
            let mut current = match open.take() {
                Some(file) if file.is_current() => file,
                // Closed first: its lock would stand in the way if the path still names it.
                stale => {
                    drop(stale);
                    LineFile::open(&path).map_err(Failure::Open)?
                }
            };
            if !lines.is_empty() {
                current.append(&lines).map_err(Failure::Write)?;
            }
            *open = Some(current);
            Ok(())
        };
        if !self.on_a_thread {
            return work().map_err(|failure| self.explain(failure, at_start));
        }
        match tokio::time::timeout(self.timeout, tokio::task::spawn_blocking(work)).await {
            Ok(Ok(done)) => done.map_err(|failure| self.explain(failure, at_start)),
            Ok(Err(_)) => Err(self.error(SinkErrorKind::Transient { retry_after: None }, "the writer was stopped")),
            Err(_) => {
                let timeout = HumanDuration(self.timeout);
                Err(self
                    .error(SinkErrorKind::Transient { retry_after: None }, format!("the disk did not answer within {timeout}")))
            }
        }
    }

    fn explain(&self, failure: Failure, at_start: bool) -> SinkError {
        let transient = SinkErrorKind::Transient { retry_after: None };
        // At the start these are mistakes of the configuration; later a mount or a permission may come back by itself.
        let mistake = if at_start { SinkErrorKind::Fatal } else { transient };
        match failure {
            Failure::StillBusy => self.error(transient, "the write before this one has not come back from the disk"),
            Failure::Open(error @ OpenError::Tail(_)) => self.error(SinkErrorKind::Fatal, error.to_string()),
            Failure::Open(error @ (OpenError::NotRegular | OpenError::Locked)) => self.error(mistake, error.to_string()),
            Failure::Open(OpenError::Io(error)) => match error.kind() {
                io::ErrorKind::NotFound => self.error(mistake, format!("{error}; create its directory first")),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotADirectory => {
                    self.error(mistake, format!("{error}; confirmd's user must be able to write there"))
                }
                _ => self.error(transient, error.to_string()),
            },
            Failure::Write(error) => self.error(transient, format!("{error}; the lines were taken back")),
        }
    }

    fn error(&self, kind: SinkErrorKind, what: impl std::fmt::Display) -> SinkError {
        SinkError::new(kind, format!("appending to {}: {what}", self.path.display()))
    }
}

/// `None` while another call holds it. After a panic the file is opened anew.
fn lock(open: &Mutex<Option<LineFile>>) -> Option<MutexGuard<'_, Option<LineFile>>> {
    match open.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
    }
}

#[async_trait]
impl Sink for FileSink {
    fn profile(&self) -> SinkProfile {
        SinkProfile { batch_max: BATCH_MAX, concurrency: NonZeroUsize::MIN }
    }

    fn books(&self) -> Option<&dyn SinkBooks> {
        None
    }

    async fn check(&self) -> Result<(), SinkError> {
        self.append(Vec::new(), true).await
    }

    async fn deliver(&self, batch: &[Delivery]) -> Result<(), DeliverError> {
        let poison = batch.iter().position(|delivery| delivery.body.contains(&b'\n'));
        let sound = batch.get(..poison.unwrap_or(batch.len())).unwrap_or(batch);
        let mut lines = Vec::new();
        for delivery in sound {
            lines.extend_from_slice(&delivery.body);
            lines.push(b'\n');
        }
        if !sound.is_empty() {
            self.append(lines, false).await.map_err(|error| DeliverError { accepted: 0, error })?;
        }
        match poison.and_then(|at| batch.get(at)) {
            None => Ok(()),
            Some(delivery) => Err(DeliverError {
                accepted: sound.len(),
                error: self.error(
                    SinkErrorKind::Rejected { retry_after: None },
                    format!("event {} holds a line break and can't be one line", delivery.event),
                ),
            }),
        }
    }
}
