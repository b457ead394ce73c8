//! Where the runners put their files, and what they read of processes.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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

/// Builds the binary and takes its path from cargo, so that no older one is measured.
pub fn build_confirmd() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments =
        ["build", "--release", "--package", "confirmd", "--bin", "confirmd", "--message-format", "json-render-diagnostics"];
    let built = Command::new(cargo).args(arguments).current_dir(workspace()).stderr(Stdio::inherit()).output()?;
    ensure!(built.status.success(), "building confirmd failed ({})", built.status);
    let messages = String::from_utf8(built.stdout)?;
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let is_ours = |message: &serde_json::Value| message.pointer("/target/name").is_some_and(|name| name == "confirmd");
    let path = artifacts.filter(is_ours).filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from)).next_back();
    path.context("cargo named no confirmd binary")
}
