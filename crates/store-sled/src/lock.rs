//! One owner per state directory. The lock goes with the process, however it ends.

use crate::damage::{refused, refused_io};
use confirmd_core::StoreError;
use fs4::fs_std::FileExt;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

const NAME: &str = "lock";

/// Held as long as the store is open.
#[derive(Debug)]
pub(crate) struct StateLock(File);

impl StateLock {
    /// Takes the lock, or names who holds it.
    pub(crate) fn take(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(NAME);
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(|error| refused_io("opening the lock file", &path, error))?;
        if !FileExt::try_lock_exclusive(&file).map_err(|error| refused_io("locking", &path, error))? {
            let mut owner = String::new();
            // Who holds it is a courtesy of the text; that it is held decides.
            let known = file.read_to_string(&mut owner).is_ok() && !owner.trim().is_empty();
            let owner = if known { format!("process {}", owner.trim()) } else { "another process".to_owned() };
            return Err(refused(format!(
                "the state directory {} is in use by {owner}; if that is starting or stopping, try again, else stop it first, or give this instance its own `state.path`",
                directory.display()
            )));
        }
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
        written.map_err(|error| refused_io("writing the lock file", &path, error))?;
        Ok(Self(file))
    }
}

/// Whether somebody holds the lock of a directory right now. Says nothing of the next moment.
pub(crate) fn is_held(directory: &Path) -> bool {
    let file = File::options().read(true).write(true).open(directory.join(NAME));
    file.is_ok_and(|file| !FileExt::try_lock_exclusive(&file).unwrap_or(true))
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // Closing the file unlocks it anyway.
        let _ = FileExt::unlock(&self.0);
    }
}
