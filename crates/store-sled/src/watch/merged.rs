//! Segments and a log read as one, in the order of the keys: the newest word on each key counts.

use super::damage::damaged;
use super::entry;
use super::log::Fresh;
use super::segment::{Segment, SegmentCursor};
use confirmd_core::{StoreError, WatchEntry};
use std::collections::btree_map::{IntoIter, Range};
use std::iter::Peekable;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

type FreshRange<'a> = Peekable<Range<'a, Box<[u8]>, Box<[u8]>>>;
type CopiedLog = Peekable<IntoIter<Box<[u8]>, Box<[u8]>>>;

enum Source<'a> {
    Segment(SegmentCursor),
    Fresh(FreshRange<'a>),
    Copied(CopiedLog),
}

/// Oldest source first.
pub(super) struct Merged<'a>(Vec<Source<'a>>);

/// A list as it was at one moment: its segments in open files of their own, which stay readable when they are removed, and a copy of
/// its log.
pub(crate) struct WatchCopy {
    merged: Merged<'static>,
    /// For the text of an error.
    path: PathBuf,
}

impl WatchCopy {
    pub(super) fn new(segments: &[Arc<Segment>], fresh: &Fresh) -> Result<Self, StoreError> {
        let mut merged = Merged::new(segments, None, None)?;
        merged.0.push(Source::Copied(fresh.clone().into_iter().peekable()));
        let path = segments.first().map_or_else(PathBuf::new, |segment| segment.path().to_owned());
        Ok(Self { merged, path })
    }

    /// The next addresses in the order of their bytes, at most so many; none at the end.
    pub(crate) fn page(&mut self, limit: usize) -> Result<Vec<WatchEntry>, StoreError> {
        let mut page = Vec::new();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while page.len() < limit && self.merged.next(&mut key, &mut value)? {
            if !value.is_empty() {
                let entry = entry::decode(&key, &value);
                page.push(entry.ok_or_else(|| damaged(&self.path, "an address can't be read"))?);
            }
        }
        Ok(page)
    }
}

impl<'a> Merged<'a> {
    /// Everything behind `after`.
    pub(super) fn new(segments: &[Arc<Segment>], fresh: Option<&'a Fresh>, after: Option<&[u8]>) -> Result<Self, StoreError> {
        let mut sources = Vec::new();
        for segment in segments {
            sources.push(Source::Segment(SegmentCursor::new(Arc::clone(segment), after)?));
        }
        let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
        sources.extend(fresh.map(|fresh| Source::Fresh(fresh.range::<[u8], _>((bound, Bound::Unbounded)).peekable())));
        Ok(Self(sources))
    }

    /// The next key and its newest value, an empty one if it is gone. False at the end.
    pub(super) fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool, StoreError> {
        let mut lowest: Option<usize> = None;
        for (number, source) in self.0.iter_mut().enumerate() {
            let Some((found, said)) = source.peek() else { continue };
            if lowest.is_none() || found <= key.as_slice() {
                lowest = Some(number);
                key.clear();
                key.extend_from_slice(found);
                value.clear();
                value.extend_from_slice(said);
            }
        }
        if lowest.is_none() {
            return Ok(false);
        }
        for source in &mut self.0 {
            if source.peek().is_some_and(|(found, _)| found == key.as_slice()) {
                source.advance()?;
            }
        }
        Ok(true)
    }
}

impl Source<'_> {
    fn peek(&mut self) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Segment(cursor) => cursor.peek(),
            Self::Fresh(range) => range.peek().map(|(key, value)| (&***key, &***value)),
            Self::Copied(rest) => rest.peek().map(|(key, value)| (&**key, &**value)),
        }
    }

    fn advance(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Segment(cursor) => cursor.advance()?,
            Self::Fresh(range) => drop(range.next()),
            Self::Copied(rest) => drop(rest.next()),
        }
        Ok(())
    }
}
