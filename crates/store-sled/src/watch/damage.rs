//! What an operator reads when a list of watched addresses can't be used.

use crate::damage::{REMEDY, refused, refused_io, unknown_by};
use confirmd_core::StoreError;
use std::path::Path;

/// A file is not what was written.
pub(super) fn damaged(path: &Path, what: &str) -> StoreError {
    refused(format!("the watched addresses in {} are damaged: {what}; {REMEDY}", path.display()))
}

/// A file could not be read; one that is missing was lost.
pub(super) fn unread(path: &Path, error: std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::NotFound => damaged(path, "the file is missing"),
        std::io::ErrorKind::UnexpectedEof => damaged(path, "the file is cut short"),
        _ => refused_io("reading the watched addresses in", path, error),
    }
}

/// A file could not be written, in the middle of a commit.
pub(super) fn unwritten(path: &Path, error: std::io::Error) -> StoreError {
    unknown_by(format!("writing the watched addresses to {} failed", path.display()), error)
}
