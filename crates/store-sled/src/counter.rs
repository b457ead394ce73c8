//! The commit counter beside the database. sled can drop the newest commits of a damaged file without a word; this small
//! file remembers how many there were. It is written after each synced group of commits and itself synced now and then:
//! the database ahead of it is normal, the database behind it is damage or an old copy.

use crate::damage::{REMEDY, refused, refused_io};
use confirmd_core::StoreError;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The file's name; its existence says that the directory was initialised.
pub(crate) const NAME: &str = "commits";
/// Written this often, the file is also synced.
const SYNC_EVERY: u32 = 64;
/// Two slots in two disk sectors, written in turn: a torn write spoils one at most.
const SLOT_SIZE: usize = 512;
const WORD: &str = "confirmd-commits";

/// Which store, and how many commits it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) instance: [u8; 16],
    pub(crate) commits: u64,
}

/// The open file.
#[derive(Debug)]
pub(crate) struct Counter {
    file: File,
    path: PathBuf,
    instance: [u8; 16],
    slot: u64,
    unsynced: u32,
}

impl Counter {
    /// Makes the file of a new store; synced, since it says that the store exists.
    pub(crate) fn create(directory: &Path, mark: Mark) -> Result<Self, StoreError> {
        let path = directory.join(NAME);
        let failed = |error| refused_io("creating", &path, error);
        let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
        let mut counter = Self { file, path: path.clone(), instance: mark.instance, slot: 0, unsynced: 0 };
        counter.rewind(mark.commits).map_err(failed)?;
        Ok(counter)
    }

    /// Opens the file of an existing store, with what it remembers.
    pub(crate) fn open(directory: &Path) -> Result<(Self, Mark), StoreError> {
        let path = directory.join(NAME);
        let file = File::options().read(true).write(true).open(&path).map_err(|error| refused_io("opening", &path, error))?;
        let text = std::fs::read(&path).map_err(|error| refused_io("reading", &path, error))?;
        let slots = text.chunks(SLOT_SIZE).map(parse).collect::<Vec<_>>();
        let newest =
            slots.iter().enumerate().filter_map(|(slot, mark)| Some((slot, (*mark)?))).max_by_key(|(_, mark)| mark.commits);
        let Some((slot, mark)) = newest else {
            return Err(refused(format!("the commit counter {} is damaged; {REMEDY}", path.display())));
        };
        let slot = if slot == 0 { 1 } else { 0 };
        Ok((Self { file, path, instance: mark.instance, slot, unsynced: 0 }, mark))
    }

    /// Remembers that so many commits are synced.
    pub(crate) fn record(&mut self, commits: u64) -> std::io::Result<()> {
        self.write(commits)?;
        self.unsynced += 1;
        if self.unsynced >= SYNC_EVERY { self.sync() } else { Ok(()) }
    }

    /// Forgets a greater number: the database is an older copy, and that is as it should be.
    pub(crate) fn rewind(&mut self, commits: u64) -> std::io::Result<()> {
        // Synced one by one: a power cut may tear one slot, never both.
        self.write(commits)?;
        self.sync()?;
        self.write(commits)?;
        self.sync()
    }

    /// Makes what was remembered durable.
    pub(crate) fn sync(&mut self) -> std::io::Result<()> {
        self.unsynced = 0;
        self.file.sync_all()
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, commits: u64) -> std::io::Result<()> {
        let slot = render(Mark { instance: self.instance, commits });
        self.file.seek(SeekFrom::Start(self.slot * 512))?;
        self.file.write_all(slot.as_bytes())?;
        self.slot = 1 - self.slot;
        Ok(())
    }
}

/// One slot: a line of text a person can read, filled up with spaces.
fn render(mark: Mark) -> String {
    let line = format!("{WORD} 1 {:032x} {}", u128::from_be_bytes(mark.instance), mark.commits);
    let line = format!("{line} {:08x}", crc32fast::hash(line.as_bytes()));
    format!("{line:<width$}\n", width = SLOT_SIZE - 1)
}

fn parse(slot: &[u8]) -> Option<Mark> {
    let (line, sum) = std::str::from_utf8(slot).ok()?.trim_end().rsplit_once(' ')?;
    if u32::from_str_radix(sum, 16).ok()? != crc32fast::hash(line.as_bytes()) {
        return None;
    }
    let mut words = line.split(' ');
    if words.next()? != WORD || words.next()? != "1" {
        return None;
    }
    let instance = u128::from_str_radix(words.next()?, 16).ok()?.to_be_bytes();
    Some(Mark { instance, commits: words.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn the_newest_whole_slot_counts_and_a_torn_one_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let mut counter = Counter::create(directory.path(), Mark { instance: [7; 16], commits: 1 }).unwrap();
        for commits in 2..=9 {
            counter.record(commits).unwrap();
        }
        let (mut counter, mark) = Counter::open(directory.path()).unwrap();
        assert_eq!(mark, Mark { instance: [7; 16], commits: 9 });
        counter.record(10).unwrap();
        let path = directory.path().join(NAME);
        let mut bytes = std::fs::read(&path).unwrap();
        let torn = bytes.chunks(SLOT_SIZE).position(|slot| parse(slot).unwrap().commits == 10).unwrap();
        bytes[torn * SLOT_SIZE + 60] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Counter::open(directory.path()).unwrap().1.commits, 9);
        std::fs::write(&path, "").unwrap();
        assert!(matches!(Counter::open(directory.path()), Err(StoreError::Refused { .. })));
    }
}
