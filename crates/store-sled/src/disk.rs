//! The database's files: making and opening a store, and the one place that makes a commit durable.

use crate::counter::{self, Counter, Mark};
use crate::damage::{REMEDY, guarded, refused, refused_by, refused_db, refused_io, refused_write};
use crate::images::BeforeImages;
use crate::keys;
use crate::lock::StateLock;
use crate::reader::{Reader, Rows};
use crate::rows::{FORMAT, Meta, Progress};
use crate::steps::{Step, Steps};
use crate::store::OpenOptions;
use crate::watch::{self, Place, WatchLists};
use confirmd_core::{Clock, Epoch, StoreError};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

/// The open files of a store. Fields drop in order: what works in the background, the database, its lock.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) watched: WatchLists,
    pub(crate) reader: Reader,
    pub(crate) meta: Meta,
    pub(crate) progress: Progress,
    /// Where a snapshot that is under way has set aside what commits change.
    pub(crate) images: Weak<BeforeImages>,
    file: File,
    counter: Counter,
    _lock: StateLock,
}

impl Disk {
    /// Opens the store in a directory, or makes it there if `init` allows.
    pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Self, StoreError> {
        let exists = is_initialised(path);
        if !exists && !options.init {
            return Err(refused(format!(
                "{} holds no confirmd state; if this is a new instance start it with --init, otherwise mount or correct `state.path` \
                 (a state that begins anew would begin at the tip and miss what was paid before)",
                path.display()
            )));
        }
        make_directory(path)?;
        let lock = StateLock::take(path)?;
        let exists = is_initialised(path);
        if exists {
            require_parts(path)?;
            check_conf(path)?;
            // What a killed process wrote and did not sync is read from memory now, and would be built upon.
            drop(sync_files(path)?);
            // One that was being written when the process died keeps sled from opening, since it takes the newest name for a whole
            // snapshot; without it, it reads its log.
            remove_named(path, "snap.", ".generating")?;
        } else {
            begin_making(path)?;
        }
        let db = open_database(path, options.cache_bytes)?;
        let reader = Reader::new(db, path);
        let file = sync_files(path)?;
        let (counter, meta, progress) = guarded(path, || match exists {
            true => open_existing(&reader, &file, options),
            false => make_new(&reader, &file, new_meta(&*options.clock)),
        })?;
        let place = Place::new(path, options.watch_log_max, options.threads);
        let watched = guarded(path, || WatchLists::open(place, &reader))?;
        sync_directory(path)?;
        if !exists {
            // The store is whole. Nobody is answered before that is durable: with the mark it would be begun anew.
            made(path)?;
        }
        Ok(Self { watched, reader, meta, progress, images: Weak::new(), file, counter, _lock: lock })
    }

    /// Begins a new store that is none before [`Disk::complete`]. `None` if there is one.
    pub(crate) fn begin(path: &Path, options: &OpenOptions, meta: Meta) -> Result<Option<Self>, StoreError> {
        make_directory(path)?;
        let lock = StateLock::take(path)?;
        if is_initialised(path) {
            return Ok(None);
        }
        begin_making(path)?;
        let reader = Reader::new(open_database(path, options.cache_bytes)?, path);
        let file = sync_files(path)?;
        let (counter, meta, progress) = guarded(path, || make_new(&reader, &file, meta))?;
        let place = Place::new(path, options.watch_log_max, options.threads);
        let watched = WatchLists::open(place, &reader)?;
        Ok(Some(Self { watched, reader, meta, progress, images: Weak::new(), file, counter, _lock: lock }))
    }

    /// Makes a store of what was begun, once everything of it is durable.
    pub(crate) fn complete(mut self) -> Result<(), StoreError> {
        let path = self.reader.path().to_owned();
        self.reader.db().flush().map_err(|error| refused_write(&path, error))?;
        self.file.sync_all().map_err(|error| refused_io("syncing the database in", &path, error))?;
        let counted = self.counter.rewind(self.progress.commits);
        counted.map_err(|error| refused_io("writing", self.counter.path(), error))?;
        self.watched.sweep();
        sync_directory(&path)?;
        made(&path)
    }

    /// Lets go of what was begun, and of the room it takes. What is left over is no store.
    pub(crate) fn abandon(self) {
        let path = self.reader.path().to_owned();
        let Self { watched, reader, file, counter, _lock, .. } = self;
        drop((watched, reader, file, counter));
        if let Err(error) = begin_making(&path) {
            tracing::warn!(error = %confirmd_core::with_causes(&error), "what was written of an unfinished state could not be removed");
        }
    }

    /// Applies one commit. Not durable before [`Disk::sync`].
    pub(crate) fn apply(&mut self, mut rows: Rows) -> Result<(), StoreError> {
        self.watched.install(&mut rows)?;
        if let Some(images) = self.images.upgrade() {
            images.keep(&rows, &self.reader)?;
        }
        self.progress.census = self.progress.census.after(&rows, &self.reader)?;
        self.progress.commits = self.progress.commits.saturating_add(1);
        rows.put(keys::progress(), &self.progress)?;
        self.reader.db().apply_batch(rows.into_batch()).map_err(|error| refused_write(self.reader.path(), error))
    }

    /// Makes everything applied so far durable.
    pub(crate) fn sync(&mut self, steps: &Steps) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let path = self.reader.path();
        self.reader.db().flush().map_err(|error| refused_write(path, error))?;
        steps.reached(Step::Flushed);
        // sled's flush leaves the file's size and the drive's cache alone.
        self.file.sync_data().map_err(|error| refused_io("syncing the database in", path, error))?;
        steps.reached(Step::Synced);
        let counted = self.counter.record(self.progress.commits);
        counted.map_err(|error| refused_io("writing", self.counter.path(), error))?;
        steps.reached(Step::Counted);
        self.watched.sweep();
        Ok(())
    }

    /// Ends: what was counted is durable too.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        self.reader.db().flush().map_err(|error| refused_by("closing the database failed; the next start checks it", error))?;
        self.file.sync_all().map_err(|error| refused_io("syncing the database in", self.reader.path(), error))?;
        let path = self.counter.path().to_owned();
        self.counter.sync().map_err(|error| refused_io("syncing", &path, error))
    }
}

/// Stands in the directory from before a new store's database is made until the store is whole.
const MAKING: &str = "making";

/// Whether a directory holds a store, whole or not. One whose making was interrupted never answered anybody: it is none.
pub(crate) fn is_initialised(path: &Path) -> bool {
    !path.join(MAKING).exists() && [counter::NAME, "db"].into_iter().any(|part| path.join(part).exists())
}

/// The store is whole: the mark goes.
fn made(path: &Path) -> Result<(), StoreError> {
    let making = path.join(MAKING);
    std::fs::remove_file(&making).map_err(|error| refused_io("removing", &making, error))?;
    sync_directory(path)
}

/// Clears what an interrupted making left behind, and marks that a new one has begun.
fn begin_making(path: &Path) -> Result<(), StoreError> {
    let remove = |name: &str| {
        let part = path.join(name);
        let removed = if part.is_dir() { std::fs::remove_dir_all(&part) } else { std::fs::remove_file(&part) };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(refused_io("removing the unfinished", &part, error))
            }
            _ => Ok(()),
        }
    };
    if path.join(MAKING).exists() {
        ["db", "conf", "blobs", counter::NAME].into_iter().try_for_each(remove)?;
        remove_named(path, "snap.", "")?;
        remove_named(path, watch::PREFIX, "")?;
    }
    let making = path.join(MAKING);
    File::create(&making).map(drop).map_err(|error| refused_io("creating", &making, error))?;
    sync_directory(path)
}

/// Removes the files whose names begin and end in this.
fn remove_named(path: &Path, begin: &str, end: &str) -> Result<(), StoreError> {
    let failed = |error| refused_io("clearing unfinished files in", path, error);
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(begin) && name.ends_with(end) {
            std::fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

fn make_directory(path: &Path) -> Result<(), StoreError> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(refused_io("creating the state directory", path, error)),
        Ok(()) => match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => sync_directory(parent),
            None => Ok(()),
        },
    }
}

fn require_parts(path: &Path) -> Result<(), StoreError> {
    for part in ["db", "conf", counter::NAME] {
        if !path.join(part).is_file() {
            let path = path.display();
            return Err(refused(format!("the state in {path} has lost its file `{part}`: it is damaged; {REMEDY}")));
        }
    }
    Ok(())
}

/// sled reads a damaged `conf` with a warning, and writes a new one over a very short one.
fn check_conf(path: &Path) -> Result<(), StoreError> {
    let conf = path.join("conf");
    let bytes = std::fs::read(&conf).map_err(|error| refused_io("reading", &conf, error))?;
    match bytes.split_last_chunk::<4>() {
        Some((text, sum)) if !text.is_empty() && crc32fast::hash(text).to_le_bytes() == *sum => Ok(()),
        _ => {
            Err(refused(format!("the state in {} is damaged: its file `conf` is not what was written; {REMEDY}", path.display())))
        }
    }
}

/// How often, and how long apart, sled is given time to let go of its file.
const LET_GO: (u32, Duration) = (100, Duration::from_millis(20));

fn open_database(path: &Path, cache_bytes: u64) -> Result<sled::Db, StoreError> {
    let mut tries = 0;
    loop {
        let config = sled::Config::new().path(path).flush_every_ms(None).cache_capacity(cache_bytes);
        let opened = guarded(path, || Ok(config.open()))?;
        match opened {
            // Our own lock is taken, so nobody else has it open: threads of a database that this process closed a moment ago
            // are still ending.
            Err(sled::Error::Io(error)) if tries < LET_GO.0 && is_locked(&error) => {
                tries += 1;
                std::thread::sleep(LET_GO.1);
            }
            opened => return opened.map_err(|error| refused_db(path, error)),
        }
    }
}

/// sled wraps the system's error in a text of its own.
fn is_locked(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::WouldBlock || error.to_string().contains("could not acquire lock")
}

/// Syncs what sled never does, and keeps the database file open for syncing after each commit.
fn sync_files(path: &Path) -> Result<File, StoreError> {
    let open = |name: &str| {
        let file = path.join(name);
        File::open(&file).and_then(|file| file.sync_all().map(|()| file)).map_err(|error| refused_io("syncing", &file, error))
    };
    open("conf")?;
    open("db")
}

fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(|error| refused_io("syncing the directory", path, error))
}

fn open_existing(reader: &Reader, file: &File, options: &OpenOptions) -> Result<(Counter, Meta, Progress), StoreError> {
    let path = reader.path().display();
    let (mut counter, mark) = Counter::open(reader.path())?;
    let behind = |found: u64| {
        refused(format!(
            "the state in {path} has {found} commits but had {} before: its newest part was rolled back, by damage or by an old copy of \
             the database; {REMEDY}",
            mark.commits
        ))
    };
    let mut meta: Meta = reader.get(&keys::meta())?.ok_or_else(|| behind(0))?;
    if meta.format != FORMAT {
        return Err(refused(format!(
            "the state in {path} has format {}, this confirmd reads format {FORMAT}; run the version of confirmd that wrote it, or a newer one",
            meta.format
        )));
    }
    if meta.instance != mark.instance {
        return Err(refused(format!("the database and the commit counter in {path} belong to two different states; {REMEDY}")));
    }
    let mut progress: Progress = reader.get(&keys::progress())?.ok_or_else(|| behind(0))?;
    if progress.commits < mark.commits && !options.restored {
        return Err(behind(progress.commits));
    }
    if progress.epoch != meta.epoch {
        return Err(refused(format!("the state in {path} is damaged: it names two epochs; {REMEDY}")));
    }
    progress.census.verify(reader)?;
    if options.restored {
        meta.epoch = meta.epoch.restored(options.clock.now());
        progress.epoch = meta.epoch;
        let mut rows = Rows::default();
        rows.put(keys::meta(), &meta)?;
        rows.put(keys::progress(), &progress)?;
        write_durably(reader, file, rows)?;
    }
    let failed = |error| refused_io("writing", &reader.path().join(counter::NAME), error);
    counter.rewind(progress.commits).map_err(failed)?;
    Ok((counter, meta, progress))
}

/// What is written while the store is opened, before there is a writer.
fn write_durably(reader: &Reader, file: &File, rows: Rows) -> Result<(), StoreError> {
    reader.db().apply_batch(rows.into_batch()).map_err(|error| refused_db(reader.path(), error))?;
    reader.db().flush().map_err(|error| refused_by("writing the state's head failed", error))?;
    file.sync_all().map_err(|error| refused_io("syncing the database in", reader.path(), error))
}

/// Of a store that has not been before.
fn new_meta(clock: &dyn Clock) -> Meta {
    let now = clock.now();
    let half = || RandomState::new().hash_one(now).to_be_bytes();
    let mut instance = [0; 16];
    instance.iter_mut().zip(half().into_iter().chain(half())).for_each(|(to, from)| *to = from);
    Meta { format: FORMAT, epoch: Epoch(now.seconds()), instance, created_at: now }
}

fn make_new(reader: &Reader, file: &File, meta: Meta) -> Result<(Counter, Meta, Progress), StoreError> {
    let progress = Progress::new(meta.epoch);
    let mut rows = Rows::default();
    rows.put(keys::meta(), &meta)?;
    rows.put(keys::progress(), &progress)?;
    write_durably(reader, file, rows)?;
    let counter = Counter::create(reader.path(), Mark { instance: meta.instance, commits: progress.commits })?;
    Ok((counter, meta, progress))
}
