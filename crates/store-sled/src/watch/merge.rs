//! Segments that grow too many become one, in the background.

use super::damage::unwritten;
use super::merged::Merged;
use super::segment::{Segment, SegmentWriter};
use crate::steps::Threads;
use confirmd_core::StoreError;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// So many neighbours of about one size become one, which is then about so many times as large.
const FAN_IN: usize = 4;
/// So many neighbours become one even if few of them are of the largest size among them.
const RUN_MAX: usize = 8;
/// Records between two looks at whether the result is still wanted.
const PATIENCE: u64 = 4096;

/// Neighbours that should become one: the newest of them are of the smallest sizes.
pub(super) fn wanted(records: &[u64], log_max: usize) -> Option<Range<usize>> {
    let smallest = u64::try_from(log_max).unwrap_or(u64::MAX).max(1);
    let size = |records: u64| (records / smallest).checked_ilog(4).map_or(0, |size| size.saturating_add(1));
    let mut sizes: Vec<u32> = records.iter().map(|records| size(*records)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter().find_map(|most| {
        let run: Vec<u32> = records.iter().rev().map(|records| size(*records)).take_while(|size| *size <= most).collect();
        let enough = run.len() >= RUN_MAX || run.iter().filter(|size| **size == most).count() >= FAN_IN;
        enough.then(|| records.len().saturating_sub(run.len())..records.len())
    })
}

/// A merge under way.
#[derive(Debug)]
pub(super) struct Merge {
    /// What it is made from.
    pub(super) sources: Vec<Arc<Segment>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Option<Segment>, StoreError>>>,
    done: Option<Result<Option<Segment>, StoreError>>,
    /// Where the result is.
    pub(super) path: PathBuf,
}

impl Merge {
    /// Begins to write `sources`, oldest first, into one file. What is gone is left out if nothing older is left behind.
    pub(super) fn begin(
        sources: Vec<Arc<Segment>>,
        oldest: bool,
        directory: &Path,
        path: PathBuf,
        number: u64,
        threads: Threads,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (directory, stopped, segments, target) = (directory.to_owned(), Arc::clone(&stop), sources.clone(), path.clone());
        let work = move || {
            let merged = merge(&segments, oldest, &target, number, &stopped)?;
            if merged.is_some() {
                File::open(&directory).and_then(|made| made.sync_all()).map_err(|error| unwritten(&directory, error))?;
            }
            Ok(merged)
        };
        if threads == Threads::Callers {
            return Self { sources, stop, thread: None, done: Some(work()), path };
        }
        match std::thread::Builder::new().name("confirmd-watched".to_owned()).spawn(work) {
            Ok(thread) => Self { sources, stop, thread: Some(thread), done: None, path },
            Err(error) => Self { sources, stop, thread: None, done: Some(Err(unwritten(&path, error))), path },
        }
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the result.
    pub(super) fn end(mut self) -> Result<Option<Segment>, StoreError> {
        let Some(thread) = self.thread.take() else { return self.done.take().unwrap_or(Ok(None)) };
        let gone = |_| StoreError::Unknown { context: "merging watched addresses ended badly".to_owned(), source: None };
        thread.join().map_err(gone)?
    }
}

impl Drop for Merge {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // An unfinished file is removed by the next start.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn merge(
    segments: &[Arc<Segment>],
    oldest: bool,
    path: &Path,
    number: u64,
    stop: &AtomicBool,
) -> Result<Option<Segment>, StoreError> {
    let mut writer = SegmentWriter::create(path, number)?;
    let mut merged = Merged::new(segments, None, None)?;
    let (mut key, mut value, mut seen) = (Vec::new(), Vec::new(), 0_u64);
    while merged.next(&mut key, &mut value)? {
        if !(oldest && value.is_empty()) {
            writer.push(&key, &value)?;
        }
        seen = seen.wrapping_add(1);
        if seen.is_multiple_of(PATIENCE) && stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    writer.finish().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_size_are_merged_and_large_ones_are_left_alone() {
        assert_eq!(wanted(&[10, 10, 10], 10), None);
        assert_eq!(wanted(&[10, 10, 10, 10], 10), Some(0..4));
        assert_eq!(wanted(&[1000, 10, 12, 10, 13], 10), Some(1..5));
        assert_eq!(wanted(&[1000, 50, 10, 10, 10], 10), None);
        assert_eq!(wanted(&[50, 50, 50, 10, 10], 10), None);
        assert_eq!(wanted(&[50, 50, 50, 50, 10], 10), Some(0..5));
        assert_eq!(wanted(&[10, 3, 10, 3, 10, 3, 3, 10], 10), Some(0..8));
        assert_eq!(wanted(&[1, 2, 1, 20, 1, 2, 1, 20], 10), Some(0..8));
        assert_eq!(wanted(&[], 10), None);
    }
}
