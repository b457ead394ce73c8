//! Segments and a log read as one, in the order of the keys: the newest word on each key counts.

use super::log::Fresh;
use super::segment::{Segment, SegmentCursor};
use confirmd_core::StoreError;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

type FreshRange<'a> = Peekable<Range<'a, Box<[u8]>, Box<[u8]>>>;

enum Source<'a> {
    Segment(SegmentCursor),
    Fresh(FreshRange<'a>),
}

/// Oldest source first.
pub(super) struct Merged<'a>(Vec<Source<'a>>);

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
        }
    }

    fn advance(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Segment(cursor) => cursor.advance()?,
            Self::Fresh(range) => drop(range.next()),
        }
        Ok(())
    }
}
