//! The recording of a process's file operations, read as it grows.

use crate::conform::Broken;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// Kind, two numbers, a length.
const HEAD: usize = 21;

/// One thing the process did. Files and directories go by their inode's number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// A new file (or directory) under a name in a directory.
    Made {
        parent: u64,
        inode: u64,
        name: String,
        directory: bool,
    },
    /// A name was removed.
    Removed {
        parent: u64,
        name: String,
    },
    /// A name became another one, within one directory.
    Renamed {
        parent: u64,
        inode: u64,
        from: String,
        to: String,
    },
    Written {
        inode: u64,
        at: u64,
        data: Vec<u8>,
    },
    Sized {
        inode: u64,
        size: u64,
    },
    /// `fsync` or `fdatasync` of a file or directory.
    Synced {
        inode: u64,
    },
    /// `sync_file_range`: written to the drive, whatever the drive does with it, where the file's size is known.
    RangeSynced {
        inode: u64,
        from: u64,
        size: u64,
    },
    /// A process began.
    Begun,
    /// Said on stdout: the outside world knows it now.
    Said(Vec<u8>),
}

/// An open recording.
#[derive(Debug)]
pub(super) struct Recording {
    file: File,
    /// Where the next record begins.
    at: u64,
}

impl Recording {
    /// From its beginning.
    pub(super) fn open(path: &Path) -> Result<Self, Broken> {
        let file = File::open(path).map_err(Broken::tried("opening the recording"))?;
        Ok(Self { file, at: 0 })
    }

    /// From what is written next.
    pub(super) fn from_now(path: &Path) -> Result<Self, Broken> {
        let mut recording = Self::open(path)?;
        recording.at = recording.file.metadata().map_err(Broken::tried("measuring the recording"))?.len();
        Ok(recording)
    }

    /// The next record; `None` at the end of what there is.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Broken> {
        self.file.seek(SeekFrom::Start(self.at)).map_err(Broken::tried("reading the recording"))?;
        let mut head = [0; HEAD];
        match self.file.read_exact(&mut head) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read.map_err(Broken::tried("reading the recording"))?,
        }
        let [kind, rest @ ..] = head;
        let (first, second, size) = numbers(&rest).ok_or_else(|| Broken::new("a record's head is short"))?;
        let mut data = vec![0; usize::try_from(size).map_err(Broken::tried("measuring a record"))?];
        match self.file.read_exact(&mut data) {
            // The recorded process is in the middle of it.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read.map_err(Broken::tried("reading the recording"))?,
        }
        self.at = self.at.saturating_add(u64::from(size)).saturating_add(u64::try_from(HEAD).unwrap_or(0));
        record(kind, first, second, data).map(Some)
    }
}

fn numbers(rest: &[u8]) -> Option<(u64, u64, u32)> {
    let (first, rest) = rest.split_first_chunk::<8>()?;
    let (second, rest) = rest.split_first_chunk::<8>()?;
    let (size, _) = rest.split_first_chunk::<4>()?;
    Some((u64::from_le_bytes(*first), u64::from_le_bytes(*second), u32::from_le_bytes(*size)))
}

fn record(kind: u8, first: u64, second: u64, data: Vec<u8>) -> Result<Record, Broken> {
    let name = || String::from_utf8_lossy(&data).into_owned();
    Ok(match kind {
        b'L' => Record::Made { parent: first, inode: second, name: name(), directory: false },
        b'D' => Record::Made { parent: first, inode: second, name: name(), directory: true },
        b'U' => Record::Removed { parent: first, name: name() },
        b'M' => {
            let both = name();
            let (from, to) = both.split_once('/').ok_or_else(|| Broken::new(format!("a rename without two names: {both:?}")))?;
            Record::Renamed { parent: first, inode: second, from: from.to_owned(), to: to.to_owned() }
        }
        b'W' => Record::Written { inode: first, at: second, data },
        b'T' => Record::Sized { inode: first, size: second },
        b'S' => Record::Synced { inode: first },
        b'R' => {
            let size = data.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            Record::RangeSynced { inode: first, from: second, size }
        }
        b'B' => Record::Begun,
        b'O' => Record::Said(data),
        _ => return Err(Broken::new(format!("the process did what can't be recorded: {}", name()))),
    })
}
