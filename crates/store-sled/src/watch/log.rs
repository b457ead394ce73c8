//! The log of a list: what commits appended since the last segment was made of it.

use super::damage::{damaged, unread, unwritten};
use super::varint;
use crate::rows::WatchLogRow;
use confirmd_core::StoreError;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const HEADER: &[u8; 16] = b"confirmd-wlog 1\n";

/// What a log adds up to: a key and its newest value, an empty one if it is gone.
pub(super) type Fresh = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// The open file.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    path: PathBuf,
    row: WatchLogRow,
}

impl Log {
    /// A new file, whole and durable, with its name in the directory.
    pub(super) fn create(directory: &Path, path: &Path, number: u64) -> Result<Self, StoreError> {
        let failed = |error| unwritten(path, error);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path).map_err(failed)?;
        let row = WatchLogRow { file: number, bytes: 0, sum: 0 };
        let mut log = Self { file, path: path.to_owned(), row };
        log.append(HEADER)?;
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
        Ok(log)
    }

    /// The file as the database names it. What lies behind its named length was never committed: it is cut off.
    pub(super) fn open(path: &Path, row: WatchLogRow) -> Result<(Self, Fresh), StoreError> {
        let file = File::options().read(true).write(true).open(path).map_err(|error| unread(path, error))?;
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes).map_err(|error| unread(path, error))?;
        let length = usize::try_from(row.bytes).map_err(|_| damaged(path, "its length is impossible"))?;
        let committed = bytes.get(..length).ok_or_else(|| damaged(path, "it has lost what was committed last"))?;
        if crc32fast::hash(committed) != row.sum {
            return Err(damaged(path, "its checksum does not match"));
        }
        let fresh = replay(committed).ok_or_else(|| damaged(path, "it is of another format"))?;
        if bytes.len() > length {
            let cut = file.set_len(row.bytes).and_then(|()| file.sync_all());
            cut.map_err(|error| crate::damage::refused_io("cutting off what was not committed in", path, error))?;
        }
        Ok((Self { file, path: path.to_owned(), row }, fresh))
    }

    /// Appends and syncs. After an error the file may hold anything behind what was committed.
    pub(super) fn append(&mut self, records: &[u8]) -> Result<(), StoreError> {
        let failed = |error| unwritten(&self.path, error);
        self.file.seek(SeekFrom::Start(self.row.bytes)).map_err(failed)?;
        self.file.write_all(records).map_err(failed)?;
        self.file.sync_data().map_err(failed)?;
        let mut sum = crc32fast::Hasher::new_with_initial(self.row.sum);
        sum.update(records);
        self.row.sum = sum.finalize();
        self.row.bytes = self.row.bytes.saturating_add(u64::try_from(records.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    /// As the database is to name it.
    pub(super) fn row(&self) -> WatchLogRow {
        self.row
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn replay(committed: &[u8]) -> Option<Fresh> {
    let mut rest = committed.strip_prefix(HEADER)?;
    let mut fresh = Fresh::new();
    while !rest.is_empty() {
        let (key, value) = varint::take(&mut rest)?;
        fresh.insert(key.into(), value.into());
    }
    Some(fresh)
}
