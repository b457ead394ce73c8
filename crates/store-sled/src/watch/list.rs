//! One chain's list: its log, its segments, and what the database is to know of them.

use super::damage::damaged;
use super::log::{Fresh, Log};
use super::merge::{Merge, wanted};
use super::merged::{Merged, WatchCopy};
use super::segment::{Segment, SegmentWriter};
use super::{Place, entry, varint};
use crate::keys::ChainNumber;
use crate::rows::WatchListRow;
use confirmd_core::{Change, StoreError, WatchEntry, with_causes};
use std::path::PathBuf;
use std::sync::Arc;

/// So many segments, and a commit waits for the merge under way: each look-up asks every one of them.
const SEGMENTS_MAX: usize = 48;

/// An address' bytes and its record.
type FreshRecord = (Box<[u8]>, Box<[u8]>);

/// What one commit changes in a list.
#[derive(Debug)]
pub(super) struct Batch {
    records: Vec<u8>,
    fresh: Vec<FreshRecord>,
}

impl Batch {
    /// `None` if it is nothing.
    pub(super) fn of(changes: &[Change]) -> Option<Self> {
        let mut batch = Self { records: Vec::new(), fresh: Vec::new() };
        for change in changes {
            match change {
                Change::WatchPut(put) => batch.push(put.address.bytes(), entry::encode(put)),
                Change::WatchForgotten(bytes) => batch.push(bytes, Vec::new()),
                _ => {}
            }
        }
        (!batch.fresh.is_empty()).then_some(batch)
    }

    fn push(&mut self, key: &[u8], value: Vec<u8>) {
        varint::put(key, &value, &mut self.records);
        self.fresh.push((key.into(), value.into()));
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct WatchList {
    chain: ChainNumber,
    row: WatchListRow,
    log: Option<Log>,
    fresh: Fresh,
    /// Oldest first.
    segments: Vec<Arc<Segment>>,
    merge: Option<Merge>,
    /// Not named any more by what is committed next.
    obsolete: Vec<PathBuf>,
}

impl WatchList {
    /// Of a chain that watches nothing.
    pub(super) fn new(chain: ChainNumber) -> Self {
        let (row, fresh) = (WatchListRow::default(), Fresh::new());
        Self { chain, row, log: None, fresh, segments: Vec::new(), merge: None, obsolete: Vec::new() }
    }

    /// As the database names it.
    pub(super) fn open(place: &Place, chain: ChainNumber, row: WatchListRow) -> Result<Self, StoreError> {
        let mut list = Self::new(chain);
        for segment in &row.segments {
            list.segments.push(Arc::new(Segment::open(&place.segment(chain, segment.file), *segment)?));
        }
        if let Some(log) = row.log {
            let (log, fresh) = Log::open(&place.log(chain, log.file), log)?;
            (list.log, list.fresh) = (Some(log), fresh);
        }
        list.row = row;
        list.begin_merge(place);
        Ok(list)
    }

    /// What the database is to know.
    pub(super) fn row(&self) -> &WatchListRow {
        &self.row
    }

    /// Every file that belongs to it.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> = self.segments.iter().map(|segment| segment.path().to_owned()).collect();
        files.extend(self.log.as_ref().map(|log| log.path().to_owned()));
        files.extend(self.merge.as_ref().map(|merge| merge.path.clone()));
        files
    }

    /// Makes a commit's changes durable.
    pub(super) fn take(&mut self, place: &Place, batch: Batch) -> Result<(), StoreError> {
        self.install(place)?;
        if !self.fresh.is_empty() && self.fresh.len().saturating_add(batch.fresh.len()) > place.log_max {
            self.end_log(place)?;
        }
        let log = match &mut self.log {
            Some(log) => log,
            none => {
                let number = next(&mut self.row.next_file);
                none.insert(Log::create(&place.directory, &place.log(self.chain, number), number)?)
            }
        };
        log.append(&batch.records)?;
        self.row.log = Some(log.row());
        self.fresh.extend(batch.fresh);
        Ok(())
    }

    /// Takes a finished merge over; whether there was one.
    pub(super) fn install(&mut self, place: &Place) -> Result<bool, StoreError> {
        let late = self.segments.len() >= SEGMENTS_MAX;
        let Some(merge) = self.merge.take_if(|merge| late || merge.has_ended()) else { return Ok(false) };
        let (sources, path) = (merge.sources.clone(), merge.path.clone());
        let merged = match merge.end() {
            Ok(Some(merged)) => merged,
            Ok(None) => return Ok(false),
            Err(error @ StoreError::Refused { .. }) => return Err(error),
            Err(error) => {
                // Nothing is lost by it: the next full log tries again.
                tracing::warn!(error = %with_causes(&error), "watched addresses could not be merged");
                self.obsolete.push(path);
                return Ok(false);
            }
        };
        // Only newer segments came meanwhile: those it was made from still stand together.
        let is_first = |segment: &Arc<Segment>| sources.first().is_some_and(|first| Arc::ptr_eq(first, segment));
        let from = self.segments.iter().position(is_first).expect("invariant: a list merges one run at a time");
        let replaced = self.segments.splice(from..from.saturating_add(sources.len()), [Arc::new(merged)]);
        self.obsolete.extend(replaced.map(|segment| segment.path().to_owned()));
        self.name_segments();
        self.begin_merge(place);
        Ok(true)
    }

    /// Removes the files that are not named any more.
    pub(super) fn sweep(&mut self) {
        for path in self.obsolete.drain(..) {
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(error = %error, file = %path.display(), "a file that is not used any more could not be removed");
            }
        }
    }

    /// One address.
    pub(super) fn get(&self, bytes: &[u8]) -> Result<Option<WatchEntry>, StoreError> {
        if let Some(value) = self.fresh.get(bytes) {
            return self.entry(bytes, value);
        }
        for segment in self.segments.iter().rev() {
            if let Some(value) = segment.find(bytes)? {
                return self.entry(bytes, &value);
            }
        }
        Ok(None)
    }

    /// Addresses behind `after` in the order of their bytes, until `tell` says no.
    pub(super) fn each(&self, after: Option<&[u8]>, mut tell: impl FnMut(WatchEntry) -> bool) -> Result<(), StoreError> {
        let mut merged = Merged::new(&self.segments, Some(&self.fresh), after)?;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while merged.next(&mut key, &mut value)? {
            if let Some(entry) = self.entry(&key, &value)?
                && !tell(entry)
            {
                break;
            }
        }
        Ok(())
    }

    /// As it is now, with files of its own.
    pub(super) fn copy(&self) -> Result<WatchCopy, StoreError> {
        WatchCopy::new(&self.segments, &self.fresh)
    }

    fn entry(&self, key: &[u8], value: &[u8]) -> Result<Option<WatchEntry>, StoreError> {
        if value.is_empty() {
            return Ok(None);
        }
        let place = || self.segments.first().map_or_else(PathBuf::new, |segment| segment.path().to_owned());
        entry::decode(key, value).map(Some).ok_or_else(|| damaged(&place(), "an address can't be read"))
    }

    /// Makes a segment of the log.
    fn end_log(&mut self, place: &Place) -> Result<(), StoreError> {
        let number = next(&mut self.row.next_file);
        let mut writer = SegmentWriter::create(&place.segment(self.chain, number), number)?;
        for (key, value) in &self.fresh {
            writer.push(key, value)?;
        }
        // The log that is made next syncs the directory.
        self.segments.push(Arc::new(writer.finish()?));
        self.fresh.clear();
        self.obsolete.extend(self.log.take().map(|log| log.path().to_owned()));
        self.row.log = None;
        self.name_segments();
        self.begin_merge(place);
        Ok(())
    }

    fn name_segments(&mut self) {
        self.row.segments = self.segments.iter().map(|segment| segment.row()).collect();
    }

    fn begin_merge(&mut self, place: &Place) {
        let records: Vec<u64> = self.segments.iter().map(|segment| segment.row().records).collect();
        let Some(run) = wanted(&records, place.log_max).filter(|_| self.merge.is_none()) else { return };
        let number = next(&mut self.row.next_file);
        let (sources, oldest) = (self.segments.get(run.clone()).unwrap_or_default().to_vec(), run.start == 0);
        let path = place.segment(self.chain, number);
        self.merge = Some(Merge::begin(sources, oldest, &place.directory, path, number, place.threads));
    }
}

fn next(number: &mut u64) -> u64 {
    let given = *number;
    *number = given.saturating_add(1);
    given
}
