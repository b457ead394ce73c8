//! Folders for what nodes and instances write: in memory where there is a tmpfs, since a node syncs every block.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

const PREFIX: &str = "confirmd-e2e-";

fn base() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// A new empty folder, removed when dropped. Folders of test processes that were killed are removed first.
pub fn scratch_dir() -> Result<TempDir> {
    let base = base();
    remove_abandoned(&base);
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(&base);
    made.or_else(|_| tempfile::Builder::new().prefix(&prefix).tempdir())
        .with_context(|| format!("make a folder in {}", base.display()))
}

/// The folder's name holds the process id of its maker; one whose maker is gone belongs to nobody.
fn remove_abandoned(base: &Path) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if maker.is_some_and(|maker| !Path::new("/proc").join(maker.to_string()).exists()) {
            // Another test may be removing it too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
