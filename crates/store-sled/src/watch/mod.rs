//! Watched addresses: a list of its own beside the database, since millions of records are too many for it.
//!
//! A list is a *log*, to which each commit appends what it changes, and *segments*, sorted and never changed, into which a full log is
//! written and which are merged in the background. The chain's record in the database names the files, how much of the log counts,
//! and checksums of it all. It is written by the commit's own batch, after the log is on the disk: so one commit stays atomic over
//! both, and whatever lies behind the log's named length was never committed and is cut off.

mod damage;
mod entry;
mod list;
mod log;
mod merge;
mod merged;
mod segment;
mod varint;

use crate::keys::{self, ChainNumber};
use crate::reader::{Reader, Rows};
use crate::record::Kind;
use crate::rows::WatchListRow;
use crate::steps::Threads;
use confirmd_core::{Change, StoreError, WatchEntry, WatchSet};
use list::WatchList;
pub(crate) use merged::WatchCopy;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How the name of every file of a list begins.
pub(crate) const PREFIX: &str = "watched.";

/// What the lists of a store have in common.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    directory: PathBuf,
    /// Addresses in a log before it becomes a segment.
    log_max: usize,
    threads: Threads,
}

/// Every chain's watched addresses. Used by the writer alone.
#[derive(Debug)]
pub(crate) struct WatchLists {
    place: Place,
    lists: BTreeMap<ChainNumber, WatchList>,
}

impl Place {
    pub(crate) fn new(directory: &Path, log_max: usize, threads: Threads) -> Self {
        Self { directory: directory.to_owned(), log_max: log_max.max(1), threads }
    }

    fn file(&self, chain: ChainNumber, number: u64, kind: &str) -> PathBuf {
        self.directory.join(format!("{PREFIX}{chain}.{number}.{kind}"))
    }

    fn log(&self, chain: ChainNumber, number: u64) -> PathBuf {
        self.file(chain, number, "log")
    }

    fn segment(&self, chain: ChainNumber, number: u64) -> PathBuf {
        self.file(chain, number, "segment")
    }
}

impl WatchLists {
    /// Opens the files that the database names, cuts off what was not committed, and removes what it does not name.
    pub(crate) fn open(place: Place, reader: &Reader) -> Result<Self, StoreError> {
        let mut lists = BTreeMap::new();
        for row in reader.scan::<WatchListRow>(&keys::all(Kind::Watch)) {
            let (key, row) = row?;
            let number = keys::number_of(&key).unwrap_or_default();
            lists.insert(number, WatchList::open(&place, number, row)?);
        }
        let named: Vec<PathBuf> = lists.values().flat_map(|list| list.files()).collect();
        remove_strays(&place, &named)?;
        Ok(Self { place, lists })
    }

    /// Makes the changes of a commit durable, if it has any; they count once the rows are committed. After an error nothing more may be
    /// committed.
    pub(crate) fn take(&mut self, chain: ChainNumber, changes: &[Change], rows: &mut Rows) -> Result<bool, StoreError> {
        let Some(batch) = list::Batch::of(changes) else { return Ok(false) };
        let list = self.lists.entry(chain).or_insert_with(|| WatchList::new(chain));
        list.take(&self.place, batch)?;
        rows.put(keys::watch_list(chain), list.row()).map(|()| true)
    }

    /// Puts what was merged in the background meanwhile in the place of what it was made from, with this commit.
    pub(crate) fn install(&mut self, rows: &mut Rows) -> Result<(), StoreError> {
        for (chain, list) in &mut self.lists {
            if list.install(&self.place)? {
                rows.put(keys::watch_list(*chain), list.row())?;
            }
        }
        Ok(())
    }

    /// Removes the files that the database does not name any more; to be called when that is durable.
    pub(crate) fn sweep(&mut self) {
        self.lists.values_mut().for_each(WatchList::sweep);
    }

    /// One address.
    pub(crate) fn get(&self, chain: ChainNumber, bytes: &[u8]) -> Result<Option<WatchEntry>, StoreError> {
        self.lists.get(&chain).map_or(Ok(None), |list| list.get(bytes))
    }

    /// Addresses in the order of their bytes, after those of `after`.
    pub(crate) fn page(&self, chain: ChainNumber, after: Option<&[u8]>, limit: usize) -> Result<Vec<WatchEntry>, StoreError> {
        let mut page = Vec::new();
        if let Some(list) = self.lists.get(&chain).filter(|_| limit > 0) {
            list.each(after, |entry| {
                page.push(entry);
                page.len() < limit
            })?;
        }
        Ok(page)
    }

    /// A list as it is now, to be read beside what is committed from here on; `None` if nothing is watched.
    pub(crate) fn copy(&self, chain: ChainNumber) -> Result<Option<WatchCopy>, StoreError> {
        self.lists.get(&chain).map(WatchList::copy).transpose()
    }

    /// Every address, into memory.
    pub(crate) fn load(&self, chain: ChainNumber, watch: &mut WatchSet) -> Result<(), StoreError> {
        let Some(list) = self.lists.get(&chain) else { return Ok(()) };
        list.each(None, |entry| {
            watch.put_address(entry);
            true
        })
    }
}

fn remove_strays(place: &Place, named: &[PathBuf]) -> Result<(), StoreError> {
    let failed = |error| crate::damage::refused_io("clearing unfinished lists of addresses in", &place.directory, error);
    for entry in std::fs::read_dir(&place.directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        if ours && !named.contains(&path) {
            std::fs::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
