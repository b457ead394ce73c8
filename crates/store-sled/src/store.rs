//! The store itself: opening, closing, reading.

use crate::consumers::Consumers;
use crate::damage::guarded;
use crate::disk::{Disk, is_initialised};
use crate::heads::Heads;
use crate::reader::Reader;
use crate::steps::{Steps, Threads};
use crate::writer::{Core, Writer, WriterEnd};
use confirmd_core::{Clock, Epoch, StoreError, SystemClock};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Make a new store where there is none. Without it a directory that was never initialised is refused, so that a
    /// container started without its volume does not silently begin at the tip.
    pub init: bool,
    /// The directory is a copy of an older state. It takes a new epoch, so that what it decides again is not taken for a
    /// repetition of what consumers saw after the copy was made; a database behind its commit counter is then accepted.
    pub restored: bool,
    /// Memory for the database's cache, in bytes. The process may use some 2.3 times of it, plus some 50 bytes per settled key.
    pub cache_bytes: u64,
    /// Watched addresses in a chain's log before a sorted segment is made of them, each some 200 bytes of memory.
    pub watch_log_max: usize,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Whose threads do the work.
    pub threads: Threads,
    /// Told of each step of a commit; for simulations.
    pub steps: Steps,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            init: false,
            restored: false,
            cache_bytes: 128 << 20,
            watch_log_max: 1 << 16,
            clock: Arc::new(SystemClock),
            threads: Threads::Own,
            steps: Steps::default(),
        }
    }
}

/// Watcher state, outbox and history in one directory, with one owner. After `StoreError::Unknown` nothing works until it
/// is dropped and opened again. Dropping it closes it, which blocks for a moment; [`SledStore::close`] does not.
pub struct SledStore {
    pub(crate) writer: Writer,
    pub(crate) epoch: Epoch,
    instance: [u8; 16],
    path: PathBuf,
    reader: Mutex<Option<Reader>>,
    end: Mutex<Option<WriterEnd>>,
    threads: Threads,
}

impl std::fmt::Debug for SledStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledStore").field("path", &self.path).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl SledStore {
    /// Opens the store in a directory, after checking everything a start depends on. `Refused` if it is in use, damaged, of
    /// another format, unwritable, or was never initialised and `init` is not set; the text says what to do.
    pub async fn open(path: impl Into<PathBuf>, options: OpenOptions) -> Result<Self, StoreError> {
        let path = path.into();
        if options.threads == Threads::Callers {
            return Self::open_blocking(path, options);
        }
        let opened = tokio::task::spawn_blocking(move || Self::open_blocking(path, options)).await;
        opened
            .map_err(|error| StoreError::Unknown { context: "opening the state failed".to_owned(), source: Some(error.into()) })?
    }

    fn open_blocking(path: PathBuf, options: OpenOptions) -> Result<Self, StoreError> {
        let disk = Disk::open(&path, &options)?;
        let now = options.clock.now();
        let (heads, consumers) = guarded(&path, || Ok((Heads::load(&disk.reader)?, Consumers::load(&disk.reader, now)?)))?;
        let (epoch, instance, reader) = (disk.meta.epoch, disk.meta.instance, disk.reader.clone());
        let threads = options.threads;
        let (writer, end) = Writer::start(Core::new(disk, heads, consumers, options.clock, options.steps), threads)?;
        let (reader, end) = (Mutex::new(Some(reader)), Mutex::new(Some(end)));
        Ok(Self { writer, epoch, instance, path, reader, end, threads })
    }

    /// Whether a directory holds a store, whole or damaged. Opens nothing.
    pub fn is_initialised(path: impl AsRef<Path>) -> bool {
        is_initialised(path.as_ref())
    }

    /// Whether a process, this one included, has the store in a directory open right now. Opens nothing.
    pub fn is_in_use(path: impl AsRef<Path>) -> bool {
        crate::lock::is_held(path.as_ref())
    }

    /// 32 hex digits that name this store; a rebuilt one has others.
    pub fn instance(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.instance))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down how far everything has come, and lets the directory go. Every later call is `Invalid`. Idempotent.
    pub async fn close(&self) -> Result<(), StoreError> {
        let asked = self.writer.run(|core| {
            core.close();
            Ok(())
        });
        let asked = asked.await;
        self.take_reader();
        if let Some(end) = self.take_end()
            && !end.wait().await
        {
            return Err(StoreError::Unknown { context: "the store's writer ended badly".to_owned(), source: None });
        }
        match asked {
            Err(StoreError::Invalid(_)) => Ok(()),
            asked => asked,
        }
    }

    /// Runs what only reads, beside the writer.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if let Some(error) = self.writer.poisoned() {
            return Err(error);
        }
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reader = reader.ok_or_else(|| StoreError::Invalid("the store is closed".to_owned()))?;
        let work = move || guarded(reader.path(), || work(&reader));
        let read = match self.threads {
            Threads::Callers => work(),
            Threads::Own => tokio::task::spawn_blocking(work).await.map_err(|error| StoreError::Unknown {
                context: "reading the state was interrupted".to_owned(),
                source: Some(error.into()),
            })?,
        };
        // What was read may have been written by a commit that then failed.
        self.writer.poisoned().map_or(read, Err)
    }

    /// The reader, for tests that count its reads.
    #[cfg(test)]
    pub(crate) fn reader(&self) -> Reader {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).clone().expect("invariant: tests ask before they close")
    }

    /// The next sync fails.
    #[cfg(test)]
    pub(crate) async fn fail_next_sync(&self) {
        let armed = self.writer.run(|core| {
            core.fail_next_sync = true;
            Ok(())
        });
        drop(armed.await);
    }

    fn take_reader(&self) {
        drop(self.reader.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn take_end(&self) -> Option<WriterEnd> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        self.take_reader();
        self.writer.end();
        if let Some(end) = self.take_end() {
            end.wait_blocking();
        }
    }
}
