//! Counts the syncs of a running process, by strace.

use super::driver::Process;
use crate::process::scratch;
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(10);

/// strace on all threads of a process, as long as this value lives.
#[derive(Debug)]
pub struct Tracer {
    process: Process,
    folder: TempDir,
}

impl Tracer {
    /// Attaches to a process, and waits until every thread is traced.
    pub fn attach(pid: u32) -> Result<Self> {
        let folder = scratch("strace")?;
        let mut command = Command::new("strace");
        command.args(["-f", "-y", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-e", "signal=none", "-o"]);
        command.arg(folder.path().join("trace")).args(["-p", &pid.to_string()]);
        let process = Process::start(&mut command, &folder.path().join("log")).context("strace is missing")?;
        let mut tracer = Self { process, folder };
        let start = Instant::now();
        while !traced(pid)? {
            ensure!(
                tracer.process.exited()?.is_none() && start.elapsed() < LIMIT,
                "strace can't attach: {}",
                std::fs::read_to_string(tracer.folder.path().join("log")).unwrap_or_default().trim()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(tracer)
    }

    /// Files synced so far, by `fsync` and `fdatasync`; the store's counter of its commits apart.
    pub fn syncs(&self) -> Result<u64> {
        Ok(self.count(&["fsync(", "fdatasync("], "")? - self.counter()?)
    }

    /// Syncs of the store's counter of its commits, of which one in many is.
    pub fn counter(&self) -> Result<u64> {
        self.count(&["fsync(", "fdatasync("], "/commits>")
    }

    /// Parts of files handed to the disk without waiting for its cache: `sync_file_range`, which the database uses.
    pub fn ranges(&self) -> Result<u64> {
        self.count(&["sync_file_range("], "")
    }

    fn count(&self, calls: &[&str], file: &str) -> Result<u64> {
        let trace = std::fs::read_to_string(self.folder.path().join("trace"))?;
        // Each line begins with the thread's id. A call that another thread's interrupts shows twice: its beginning counts.
        let of_file = trace.lines().filter(|line| line.contains(file));
        let called = of_file.filter_map(|line| line.split_whitespace().nth(1));
        Ok(u64::try_from(called.filter(|call| calls.iter().any(|name| call.starts_with(name))).count())?)
    }
}

/// Whether some process traces each of its threads.
fn traced(pid: u32) -> Result<bool> {
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = std::fs::read_to_string(task?.path().join("status")).unwrap_or_default();
        if status.lines().any(|line| line.starts_with("TracerPid:") && line.ends_with("\t0")) {
            return Ok(false);
        }
    }
    Ok(true)
}
