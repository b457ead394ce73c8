//! One open file of lines: opened, locked and repaired; appended to durably or not at all.

use crate::tail::{self, TailError};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why the file can't be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// A pipe, a directory, a device.
    #[error("it is not a regular file; name one, or use the kind \"stdout\" for a pipe")]
    NotRegular,
    /// Somebody else has it open for appending.
    #[error("another consumer or another process appends to it; give each its own file")]
    Locked,
    #[error(transparent)]
    Tail(TailError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<TailError> for OpenError {
    fn from(error: TailError) -> Self {
        match error {
            TailError::Io(error) => Self::Io(error),
            foreign => Self::Tail(foreign),
        }
    }
}

/// An open file whose content up to `durable_len` is whole lines on disk.
#[derive(Debug)]
pub(crate) struct LineFile {
    path: PathBuf,
    file: File,
    durable_len: u64,
}

impl LineFile {
    /// Opens or creates, locks, and cuts off what a crash left unfinished.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        // Asked before the open, which would block on a pipe without a reader.
        let existed = match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => return Err(OpenError::NotRegular),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error.into()),
        };
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked),
            // Some network mounts have no locks; the sink works without.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let (durable_len, cut) = tail::repair(&file)?;
        if cut > 0 {
            tracing::warn!(path = %path.display(), bytes = cut, "cut off an unfinished line; its event comes again");
        }
        if !existed {
            file.sync_all()?;
            sync_directory(path)?;
        }
        Ok(Self { path: path.to_owned(), file, durable_len })
    }

    /// Whether the path still names this file and nobody else changed its length.
    pub(crate) fn is_current(&self) -> bool {
        let (Ok(named), Ok(held)) = (std::fs::metadata(&self.path), self.file.metadata()) else { return false };
        same_file(&named, &held) && held.len() == self.durable_len
    }

    /// Appends whole lines and syncs them. On an error they are cut off again; close the file then, since what the
    /// system holds of it is unknown after a failed sync.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(lines).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => {
                self.durable_len = self.durable_len.saturating_add(u64::try_from(lines.len()).unwrap_or(u64::MAX));
                Ok(())
            }
            Err(error) => {
                // If this fails too, the next open cuts a torn line, and whole ones are duplicates (K5).
                let _ = self.file.set_len(self.durable_len).and_then(|()| self.file.sync_data());
                Err(error)
            }
        }
    }
}

/// Makes a new file's name durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(unix)]
fn same_file(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn same_file(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    a.created().ok() == b.created().ok() && a.len() == b.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_failed_append_reports_the_error_and_leaves_the_length_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut open = LineFile::open(&path).unwrap();
        open.append(b"{\"id\":\"evt_1\"}\n").unwrap();
        // A handle that may only read fails the way a disk does: after the file was opened.
        open.file = File::open(&path).unwrap();
        open.append(b"{\"id\":\"evt_2\"}\n").unwrap_err();
        assert_eq!(open.durable_len, 15);
        assert_eq!(std::fs::read(&path).unwrap(), b"{\"id\":\"evt_1\"}\n");
    }

    #[test]
    fn a_second_writer_of_one_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let first = LineFile::open(&path).unwrap();
        assert!(matches!(LineFile::open(&path), Err(OpenError::Locked)));
        drop(first);
        LineFile::open(&path).unwrap();
    }
}
