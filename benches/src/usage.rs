//! What this process has used so far.

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// A reading of the process's meters; two of them make a difference.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    at: Instant,
    cpu: Duration,
    written_bytes: u64,
}

/// What was used between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Nanoseconds on any core, of all threads, in the program and in the kernel.
    pub cpu_ns: u64,
    /// Nanoseconds that passed.
    pub wall_ns: u64,
    /// Bytes that were sent on to a disk, in whole pages. Nothing is counted on a memory file system.
    pub written_bytes: u64,
}

impl Usage {
    /// Reads the meters. Errors where there is no `/proc`.
    pub fn now() -> Result<Self> {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?);
        let io = std::fs::read_to_string("/proc/self/io").context("reading /proc/self/io for the bytes written")?;
        let written =
            io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).context("no write_bytes in /proc/self/io")?;
        Ok(Self { at: Instant::now(), cpu, written_bytes: written.trim().parse()? })
    }

    /// What was used since this reading.
    pub fn used(&self) -> Result<Used> {
        let now = Self::now()?;
        Ok(Used {
            cpu_ns: ns(now.cpu.saturating_sub(self.cpu)),
            wall_ns: ns(now.at.duration_since(self.at)),
            written_bytes: now.written_bytes.saturating_sub(self.written_bytes),
        })
    }
}

impl Used {
    /// The share of one of `count` equal parts.
    #[must_use]
    pub fn each(self, count: u64) -> Self {
        let count = count.max(1);
        Self { cpu_ns: self.cpu_ns / count, wall_ns: self.wall_ns / count, written_bytes: self.written_bytes / count }
    }
}

/// Saturates after some 584 years.
pub fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
