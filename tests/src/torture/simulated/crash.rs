//! Crashes: where one may happen, and what is left of the files at that very moment.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// The store's folder within a life's.
pub(super) const STATE: &str = "state";
/// What a power cut would leave of it.
const SYNCED: &str = "synced";

/// One life of the instance after the other, each in a folder of its own that begins as a copy of the one before.
#[derive(Debug)]
pub(super) struct Lives {
    root: PathBuf,
    life: AtomicU64,
    /// The present life is over: nothing that it still does may have an effect outside.
    over: AtomicBool,
    ended: Notify,
    /// Points to pass until the crash; 0: none is coming.
    fuse: AtomicU64,
    /// The crash that is coming is a power cut: of the state nothing is left but what was synced.
    power: AtomicBool,
    /// Why a copy could not be made: the run can't be trusted then.
    trouble: Mutex<Option<String>>,
}

impl Lives {
    /// The first life, in `root`.
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        let lives = Self {
            root: root.to_owned(),
            life: AtomicU64::new(0),
            over: AtomicBool::new(false),
            ended: Notify::new(),
            fuse: AtomicU64::new(0),
            power: AtomicBool::new(false),
            trouble: Mutex::default(),
        };
        fs::create_dir_all(lives.folder())?;
        Ok(lives)
    }

    /// Where the present life writes.
    pub(super) fn folder(&self) -> PathBuf {
        self.root.join(format!("life-{}", self.life.load(SeqCst)))
    }

    /// The present life's number.
    pub(super) fn present(&self) -> u64 {
        self.life.load(SeqCst)
    }

    /// Whether what a life does still counts.
    pub(super) fn counts(&self, life: u64) -> bool {
        self.present() == life && !self.over.load(SeqCst)
    }

    /// After so many points it crashes; by a power cut, or killed. 0: it does not.
    pub(super) fn light(&self, points: u64, power: bool) {
        self.fuse.store(points, SeqCst);
        self.power.store(power, SeqCst);
        if power {
            self.synced();
        }
    }

    /// Whether the crash that is coming is a power cut.
    pub(super) fn by_power_cut(&self) -> bool {
        self.power.load(SeqCst)
    }

    /// The state is on the disk as it is now: this much a power cut leaves.
    pub(super) fn synced(&self) {
        if !self.power.load(SeqCst) || self.over.load(SeqCst) {
            return;
        }
        let (state, kept) = (self.folder().join(STATE), self.root.join(SYNCED));
        let made = remove(&kept).and_then(|()| if state.is_dir() { copy(&state, &kept) } else { Ok(()) });
        self.note(&kept, made);
    }

    /// A point where it may crash. Returns whether it did.
    pub(super) fn point(&self) -> bool {
        let burning = self.fuse.load(SeqCst);
        if burning == 0 || self.over.load(SeqCst) {
            return false;
        }
        self.fuse.store(burning - 1, SeqCst);
        if burning == 1 {
            self.crash();
        }
        burning == 1
    }

    /// Copies the files as they are, and ends the life.
    pub(super) fn crash(&self) {
        let next = self.root.join(format!("life-{}", self.present() + 1));
        let mut made = copy(&self.folder(), &next);
        if self.power.swap(false, SeqCst) {
            let (state, kept) = (next.join(STATE), self.root.join(SYNCED));
            made = made.and_then(|()| remove(&state));
            made = made.and_then(|()| if kept.is_dir() { fs::rename(&kept, &state) } else { Ok(()) });
        }
        self.note(&next, made);
        self.fuse.store(0, SeqCst);
        self.over.store(true, SeqCst);
        self.ended.notify_one();
    }

    /// Returns when the life is over.
    pub(super) async fn ended(&self) {
        while !self.over.load(SeqCst) {
            self.ended.notified().await;
        }
    }

    /// The next life begins, on the copy. The folder before the last one goes.
    pub(super) fn next(&self) {
        let before = self.life.fetch_add(1, SeqCst);
        self.over.store(false, SeqCst);
        // What is left of the last life may still be closing its files; the one before it has gone.
        if let Some(older) = before.checked_sub(1) {
            let _ = fs::remove_dir_all(self.root.join(format!("life-{older}")));
        }
    }

    fn note(&self, target: &Path, made: io::Result<()>) {
        if let Err(error) = made {
            let text = format!("the files could not be copied to {}: {error}", target.display());
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
    }

    /// Why the run can't be trusted.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
