//! Where the runners put their files, and what they read of processes.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The folder this project's checkout is in.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// A folder beside the built programs, removed when it is dropped: on the disk that the checkout is on, since a system's
/// own temporary folder is often memory.
pub fn scratch(name: &str) -> Result<TempDir> {
    let program = std::env::current_exe().context("asking where this program is")?;
    let beside = program.parent().context("this program is in no folder")?;
    let made = tempfile::Builder::new().prefix(&format!("bench-{name}-")).tempdir_in(beside);
    made.with_context(|| format!("making a folder in {}", beside.display()))
}

/// A figure in kB from a process's status: `VmHWM` for its peak of resident memory, `VmRSS` for now.
pub fn memory_kb(process: &str, figure: &str) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
    let line = line.with_context(|| format!("no {figure} in {path}"))?;
    Ok(line.trim().trim_end_matches("kB").trim_end().parse()?)
}
