//! The store contract, rule by rule, against a store in a directory on the disk.

mod dump;
mod plain_sled;
mod state_damage;

use async_trait::async_trait;
use confirmd_core::{Clock, StoreError, Timestamp};
use confirmd_store_sled::{OpenOptions, SledStore};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::full_disk::{files_can_be_limited, limit_files, run_with_full_disks};
use confirmd_testkit::conform::power_cut::{PowerCut, power_can_be_cut, run_with_power_cuts};
use confirmd_testkit::conform::store::{
    Damage, OpenStore, Store, StoreHarness, StoreRig, StoreTest, commit_if_recorded, power_cut_trials, store_trials,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    if let Some(ended) = commit_if_recorded(&Sled).or_else(plain_sled::commit_if_recorded) {
        return ended;
    }
    run_with_power_cuts(|| {
        run_with_full_disks(|| {
            let mut trials = store_trials("store_sled", Arc::new(Sled));
            trials.extend(power_cut_trials("store_sled", Arc::new(Sled)));
            trials.extend(plain_sled::trials());
            trials.extend(state_damage::trials());
            trials.extend(dump::trials());
            trials
        })
    })
}

struct Sled;

#[async_trait]
impl OpenStore for Sled {
    async fn open(&self, directory: &Path, init: bool) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(SledStore::open(directory, options(init)).await?))
    }
}

/// The directories of one trial.
struct Rig {
    root: Root,
    /// The store's.
    path: PathBuf,
    copies: usize,
}

/// Recorded where that is possible, so that the power can be cut.
enum Root {
    Recorded(PowerCut),
    Plain(tempfile::TempDir),
}

/// A clock that stands still.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_790_000_000)
    }
}

#[async_trait]
impl StoreHarness for Sled {
    async fn start(&self) -> Result<Box<dyn StoreRig>, Broken> {
        let root = match power_can_be_cut() {
            Ok(()) => Root::Recorded(PowerCut::start()?),
            Err(_) => Root::Plain(tempfile::tempdir().map_err(Broken::tried("making a directory"))?),
        };
        let path = root.path().join("state");
        Ok(Box::new(Rig { root, path, copies: 0 }))
    }

    fn unable(&self, test: StoreTest) -> Option<String> {
        match test {
            StoreTest::Crash | StoreTest::Damage => None,
            StoreTest::PowerCut => power_can_be_cut().err(),
            StoreTest::FailCommit => files_can_be_limited().err(),
        }
    }

    fn cases(&self) -> u32 {
        10
    }
}

/// What is done to the files of a closed store.
enum Way {
    Remove(&'static str),
    Truncate(&'static str, u64),
    /// One bit of the first byte that is not zero, from this part of the file on (in percent).
    Flip(&'static str, u64),
    /// The counter says another format than is known, with the right checksum.
    AgeTheCounter,
    /// The counter of another store.
    SwapTheCounter,
}

const WAYS: &[(Way, bool)] = &[
    (Way::Remove("db"), true),
    (Way::Remove("conf"), true),
    (Way::Remove("commits"), true),
    (Way::AgeTheCounter, true),
    (Way::SwapTheCounter, true),
    (Way::Truncate("commits", 0), true),
    (Way::Truncate("db", 0), true),
    (Way::Truncate("db", 4096), false),
    (Way::Flip("db", 0), false),
    (Way::Flip("db", 20), false),
    (Way::Flip("db", 50), false),
    (Way::Flip("db", 80), false),
    (Way::Flip("conf", 0), false),
    (Way::Flip("commits", 0), false),
];

impl Root {
    fn path(&self) -> &Path {
        match self {
            Self::Recorded(cut) => cut.path(),
            Self::Plain(directory) => directory.path(),
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(limit_files(None));
    }
}

fn options(init: bool) -> OpenOptions {
    OpenOptions {
        init,
        restored: false,
        cache_bytes: 8 << 20,
        watch_log_max: 3,
        clock: Arc::new(Still),
        ..OpenOptions::default()
    }
}

#[async_trait]
impl StoreRig for Rig {
    async fn open(&mut self, init: bool) -> Result<Arc<dyn Store>, StoreError> {
        // The disk takes something again.
        drop(limit_files(None));
        Ok(Arc::new(SledStore::open(&self.path, options(init)).await?))
    }

    async fn crash(&mut self) -> Result<(), Broken> {
        self.copies += 1;
        let copied = self.root.path().join(format!("state-{}", self.copies));
        copy(&self.path, &copied).map_err(Broken::tried("copying the directory"))?;
        self.path = copied;
        Ok(())
    }

    async fn power_cut(&mut self) -> Result<(), Broken> {
        let Root::Recorded(cut) = &mut self.root else { return Err(Broken::new("nothing is recorded here")) };
        // Its own entry in the directory above it must have been synced, too.
        let Some((above, name)) = self.path.parent().zip(self.path.file_name()) else {
            return Err(Broken::new("the store lies nowhere"));
        };
        let after = cut.cut(above)?;
        self.path = after.join(name);
        Ok(())
    }

    async fn fail_next_commit(&mut self) -> Result<(), Broken> {
        limit_files(Some(1))
    }

    fn damages(&self) -> Vec<Damage> {
        let what = |way: &Way| match way {
            Way::Remove(file) => format!("the file {file} is missing"),
            Way::Truncate(file, length) => format!("the file {file} is cut to {length} bytes"),
            Way::Flip(file, percent) => format!("a bit of the file {file} is flipped at {percent} %"),
            Way::AgeTheCounter => "the commit counter has a format of the future".to_owned(),
            Way::SwapTheCounter => "the commit counter is another store's".to_owned(),
        };
        WAYS.iter().map(|(way, must_be_refused)| Damage { what: what(way), must_be_refused: *must_be_refused }).collect()
    }

    async fn damage(&mut self, number: usize) -> Result<(), Broken> {
        let Some((way, _)) = WAYS.get(number) else { return Err(Broken::new("there is no such damage")) };
        if matches!(way, Way::SwapTheCounter) {
            let other = self.root.path().join("other");
            let store = SledStore::open(&other, options(true)).await.map_err(Broken::tried("making another store"))?;
            store.close().await.map_err(Broken::tried("closing another store"))?;
        }
        damage(way, &self.path, &self.root.path().join("other")).map_err(Broken::tried("damaging the store"))
    }
}

fn damage(way: &Way, path: &Path, other: &Path) -> std::io::Result<()> {
    match way {
        Way::Remove(file) => std::fs::remove_file(path.join(file)),
        Way::Truncate(file, length) => std::fs::File::options().write(true).open(path.join(file))?.set_len(*length),
        Way::Flip(file, percent) => {
            let mut bytes = std::fs::read(path.join(file))?;
            let from = bytes.len() * usize::try_from(*percent).unwrap_or(0) / 100;
            if let Some(byte) = bytes.iter_mut().skip(from).find(|byte| **byte != 0) {
                *byte ^= 1;
            }
            std::fs::write(path.join(file), bytes)
        }
        Way::AgeTheCounter => {
            let text = std::fs::read_to_string(path.join("commits"))?;
            let aged: String = text.lines().map(aged_slot).collect();
            std::fs::write(path.join("commits"), aged)
        }
        Way::SwapTheCounter => std::fs::copy(other.join("commits"), path.join("commits")).map(drop),
    }
}

/// A slot of the counter as the next format would write it: `confirmd-commits 2 ...` and its checksum.
fn aged_slot(slot: &str) -> String {
    let line = slot.trim_end().rsplit_once(' ').map_or("", |(line, _)| line).replacen(" 1 ", " 2 ", 1);
    sealed_slot(&line)
}

/// A slot of the counter with another count.
fn counter_slot(slot: &str, other: impl Fn(usize) -> usize) -> String {
    let line = slot.trim_end().rsplit_once(' ').map_or("", |(line, _)| line);
    let (words, count) = line.rsplit_once(' ').unwrap_or_default();
    sealed_slot(&format!("{words} {}", other(count.parse().unwrap_or(0))))
}

fn sealed_slot(line: &str) -> String {
    let sum = crc32fast::hash(line.as_bytes());
    format!("{:<511}\n", format!("{line} {sum:08x}"))
}

/// A copy of a store that may be writing, as it was at one instant: while files are copied one after the other, a later
/// one can hold what an earlier one does not know yet, which no crash leaves behind.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut before = contents(from)?;
    loop {
        let now = contents(from)?;
        if now == before {
            break;
        }
        before = now;
    }
    for (name, bytes) in before {
        let target = to.join(name);
        std::fs::create_dir_all(target.parent().unwrap_or(to))?;
        std::fs::write(target, bytes)?;
    }
    Ok(())
}

/// Every file below a directory, by its path within.
fn contents(directory: &Path) -> std::io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let (mut found, mut below) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(inner) = below.pop() {
        for entry in std::fs::read_dir(directory.join(&inner))? {
            let entry = entry?;
            let name = inner.join(entry.file_name());
            if entry.path().is_dir() {
                below.push(name);
                continue;
            }
            match std::fs::read(entry.path()) {
                Ok(bytes) => drop(found.insert(name, bytes)),
                // Its owner removed it meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}
