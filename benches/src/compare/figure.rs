//! What one run took.

use anyhow::{Context, Result};
use std::time::Instant;

/// The kernel's clock ticks a second in `/proc/PID/stat`, on every Linux that matters.
pub(crate) const TICK_MS: u64 = 10;

/// One run of a floor or a subject.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figure {
    /// Milliseconds that passed.
    pub wall_ms: u64,
    /// Milliseconds of CPU of the client, in steps of ten where it is another process.
    pub client_ms: u64,
    /// The same of the node.
    pub node_ms: u64,
    /// HTTP requests.
    pub requests: u64,
    /// Peak of resident memory, in kB; 0 where it is not asked for.
    pub peak_kb: u64,
    /// Payments found.
    pub found: u64,
}

/// CPU of a process and its ended threads so far, in milliseconds.
pub fn cpu_ms(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    // The name may hold spaces; behind its bracket the fields count from 3.
    let fields: Vec<&str> = text.rsplit_once(')').context("no name in stat")?.1.split_whitespace().collect();
    let field = |n: usize| fields.get(n - 3).and_then(|field| field.parse::<u64>().ok()).context("a field of stat");
    Ok((field(14)? + field(15)?) * TICK_MS)
}

/// Runs `work` in this process and measures it beside the node.
pub fn measured(node: u32, work: impl FnOnce() -> Result<(u64, u64)>) -> Result<Figure> {
    let own = std::process::id();
    let (start, client, node_before) = (Instant::now(), cpu_ms(own)?, cpu_ms(node)?);
    let (requests, found) = work()?;
    Ok(Figure {
        wall_ms: u64::try_from(start.elapsed().as_millis())?,
        client_ms: cpu_ms(own)? - client,
        node_ms: cpu_ms(node)? - node_before,
        requests,
        peak_kb: 0,
        found,
    })
}

/// The median of each figure.
#[must_use]
pub fn median(runs: &[Figure]) -> Figure {
    let of = |read: fn(&Figure) -> u64| crate::ratio::median(runs.iter().map(read).collect());
    Figure {
        wall_ms: of(|run| run.wall_ms),
        client_ms: of(|run| run.client_ms),
        node_ms: of(|run| run.node_ms),
        requests: of(|run| run.requests),
        peak_kb: of(|run| run.peak_kb),
        found: of(|run| run.found),
    }
}
