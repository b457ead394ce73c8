//! What an operator reads when the state can't be used, and what to do about it.

use confirmd_core::StoreError;
use std::any::Any;
use std::error::Error;
use std::path::Path;

/// The way back that always exists: everything can be derived again from the chain.
pub(crate) const REMEDY: &str = "put a copy back and start it once with --restored, or move the directory away and start anew with --init and \
     `start = HEIGHT` for each chain (both take a new epoch; consumers that follow docs/consumers.md move no money for what they know; see docs/operations.md)";

/// A refusal with its text.
pub(crate) fn refused(context: impl Into<String>) -> StoreError {
    StoreError::Refused { context: context.into(), source: None }
}

/// A refusal with its cause.
pub(crate) fn refused_by(context: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    StoreError::Refused { context: context.into(), source: Some(source.into()) }
}

/// The outcome of something is unknown.
pub(crate) fn unknown_by(context: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    StoreError::Unknown { context: context.into(), source: Some(source.into()) }
}

/// A file operation on the state directory failed: what to do follows from how.
pub(crate) fn refused_io(what: &str, path: &Path, error: std::io::Error) -> StoreError {
    use std::io::ErrorKind as Kind;
    let path = path.display();
    let remedy = match error.kind() {
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => "make it readable and writable for the user confirmd runs as",
        Kind::StorageFull | Kind::QuotaExceeded => "the disk is full: make room and start again; nothing committed is lost",
        Kind::NotFound => "create the directory above it, or correct `state.path`",
        Kind::NotADirectory | Kind::AlreadyExists => "`state.path` must name a directory",
        _ => "check the disk and the system's log",
    };
    refused_by(format!("{what} {path} failed; {remedy}"), error)
}

/// The database itself said no.
pub(crate) fn refused_db(path: &Path, error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(error) => refused_io("opening the database in", path, error),
        error => refused_by(format!("the state in {} is damaged: the database does not open; {REMEDY}", path.display()), error),
    }
}

/// The database could not write.
pub(crate) fn refused_write(path: &Path, error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(error) => refused_io("writing to the database in", path, error),
        error => refused_by(format!("writing to the database in {} failed", path.display()), error),
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Runs what reads the database; sled panics on some kinds of damage instead of answering.
pub(crate) fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic_text(panic);
        Err(refused(format!("the state in {} is damaged: the database gave up with {text:?}; {REMEDY}", path.display())))
    })
}
