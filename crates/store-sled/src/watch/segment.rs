//! A segment: records sorted by key in checksummed blocks, behind them the index of the blocks. Written once, never changed.

use super::damage::{damaged, unread, unwritten};
use super::varint;
use crate::rows::WatchSegmentRow;
use confirmd_core::StoreError;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const HEADER: &[u8; 16] = b"confirmd-wseg 1\n";
/// A block ends with the record that fills it: what one look-up reads.
const BLOCK_BYTES: usize = 16 * 1024;

/// Where a block is, and what it must be.
#[derive(Debug, Serialize, Deserialize)]
struct Block {
    first: Box<[u8]>,
    at: u64,
    len: u32,
    sum: u32,
}

/// An open segment; its index is in memory, some 60 bytes for 16 KiB.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    path: PathBuf,
    row: WatchSegmentRow,
    blocks: Vec<Block>,
}

/// Writes a segment.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    file: BufWriter<File>,
    path: PathBuf,
    row: WatchSegmentRow,
    block: Vec<u8>,
    first: Vec<u8>,
    blocks: Vec<Block>,
}

impl SegmentWriter {
    pub(super) fn create(path: &Path, number: u64) -> Result<Self, StoreError> {
        let failed = |error| unwritten(path, error);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path).map_err(failed)?;
        let mut file = BufWriter::with_capacity(4 * BLOCK_BYTES, file);
        file.write_all(HEADER).map_err(failed)?;
        let row = WatchSegmentRow { file: number, records: 0, index_at: length(HEADER), bytes: 0, sum: 0 };
        Ok(Self { file, path: path.to_owned(), row, block: Vec::new(), first: Vec::new(), blocks: Vec::new() })
    }

    /// Adds the record with the next higher key.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if self.block.is_empty() {
            self.first.clear();
            self.first.extend_from_slice(key);
        }
        varint::put(key, value, &mut self.block);
        self.row.records = self.row.records.saturating_add(1);
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    /// Ends and syncs the file. Its name in the directory is not yet durable.
    pub(super) fn finish(mut self) -> Result<Segment, StoreError> {
        self.end_block()?;
        let index = postcard::to_stdvec(&self.blocks).expect("invariant: plain data is always encoded");
        let path = self.path;
        let failed = |error| unwritten(&path, error);
        self.file.write_all(&index).map_err(failed)?;
        let file = self.file.into_inner().map_err(|error| unwritten(&path, error.into_error()))?;
        file.sync_all().map_err(failed)?;
        let bytes = self.row.index_at.saturating_add(length(&index));
        let row = WatchSegmentRow { bytes, sum: crc32fast::hash(&index), ..self.row };
        Ok(Segment { file, path, row, blocks: self.blocks })
    }

    fn end_block(&mut self) -> Result<(), StoreError> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.block).map_err(|error| unwritten(&self.path, error))?;
        self.blocks.push(Block {
            first: self.first.as_slice().into(),
            at: self.row.index_at,
            len: u32::try_from(self.block.len()).expect("invariant: an address and its label are shorter than 4 GiB"),
            sum: crc32fast::hash(&self.block),
        });
        self.row.index_at = self.row.index_at.saturating_add(length(&self.block));
        self.block.clear();
        Ok(())
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

impl Segment {
    /// The file as the database names it. Checks all but the blocks, which are checked when they are read.
    pub(super) fn open(path: &Path, row: WatchSegmentRow) -> Result<Self, StoreError> {
        let failed = |error| unread(path, error);
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() != row.bytes {
            return Err(damaged(path, "it does not have the length it was written with"));
        }
        let mut header = [0; HEADER.len()];
        (&file).read_exact(&mut header).map_err(failed)?;
        if header != *HEADER {
            return Err(damaged(path, "it does not begin as a segment of this format"));
        }
        (&file).seek(SeekFrom::Start(row.index_at)).map_err(failed)?;
        let mut index = Vec::new();
        (&file).read_to_end(&mut index).map_err(failed)?;
        if crc32fast::hash(&index) != row.sum {
            return Err(damaged(path, "the checksum of its index does not match"));
        }
        let blocks = postcard::from_bytes(&index).map_err(|_| damaged(path, "its index can't be read"))?;
        Ok(Self { file, path: path.to_owned(), row, blocks })
    }

    /// As the database is to name it.
    pub(super) fn row(&self) -> WatchSegmentRow {
        self.row
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The value of a key, an empty one if it is gone; `None` if the segment does not know it.
    pub(super) fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(number) = self.block_of(key) else { return Ok(None) };
        let mut block = Vec::new();
        self.read_block(&self.file, number, &mut block)?;
        let mut rest = block.as_slice();
        while !rest.is_empty() {
            let (found, value) = varint::take(&mut rest).ok_or_else(|| damaged(&self.path, "a block can't be read"))?;
            if found == key {
                return Ok(Some(value.to_vec()));
            }
        }
        Ok(None)
    }

    /// The block that holds a key if any does.
    fn block_of(&self, key: &[u8]) -> Option<usize> {
        self.blocks.partition_point(|block| *block.first <= *key).checked_sub(1)
    }

    fn read_block(&self, mut file: &File, number: usize, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        into.clear();
        let Some(block) = self.blocks.get(number) else { return Ok(false) };
        let failed = |error| unread(&self.path, error);
        into.resize(usize::try_from(block.len).unwrap_or(usize::MAX), 0);
        file.seek(SeekFrom::Start(block.at)).map_err(failed)?;
        file.read_exact(into).map_err(failed)?;
        if crc32fast::hash(into) != block.sum {
            return Err(damaged(&self.path, &format!("the checksum of block {number} does not match")));
        }
        Ok(true)
    }
}

/// Reads a segment in order, over a file of its own.
#[derive(Debug)]
pub(super) struct SegmentCursor {
    segment: Arc<Segment>,
    file: File,
    next_block: usize,
    block: Vec<u8>,
    /// Where in the block what follows begins.
    at: usize,
    key: Vec<u8>,
    value: Vec<u8>,
    ended: bool,
}

impl SegmentCursor {
    /// At the first record behind `after`.
    pub(super) fn new(segment: Arc<Segment>, after: Option<&[u8]>) -> Result<Self, StoreError> {
        let file = File::open(segment.path()).map_err(|error| unread(segment.path(), error))?;
        let next_block = after.and_then(|after| segment.block_of(after)).unwrap_or(0);
        let (block, key, value) = (Vec::new(), Vec::new(), Vec::new());
        let mut cursor = Self { segment, file, next_block, block, at: 0, key, value, ended: false };
        cursor.advance()?;
        while !cursor.ended && after.is_some_and(|after| cursor.key.as_slice() <= after) {
            cursor.advance()?;
        }
        Ok(cursor)
    }

    /// The record it is at.
    pub(super) fn peek(&self) -> Option<(&[u8], &[u8])> {
        (!self.ended).then_some((self.key.as_slice(), self.value.as_slice()))
    }

    /// Goes on to the next.
    pub(super) fn advance(&mut self) -> Result<(), StoreError> {
        if self.at >= self.block.len() {
            self.at = 0;
            self.ended = !self.segment.read_block(&self.file, self.next_block, &mut self.block)?;
            self.next_block = self.next_block.saturating_add(1);
            if self.ended {
                return Ok(());
            }
        }
        let mut rest = self.block.get(self.at..).unwrap_or_default();
        let (key, value) = varint::take(&mut rest).ok_or_else(|| damaged(self.segment.path(), "a block can't be read"))?;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        self.at = self.block.len().saturating_sub(rest.len());
        Ok(())
    }
}
