//! Many seeds, each on one thread.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use anyhow::{Context as _, Result};

use super::run::run_seed;
use crate::torture::Tally;

/// Which seeds, and how.
#[derive(Debug, Clone)]
pub struct Series {
    /// The first seed.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// Where each run makes a folder for its files.
    pub folder: PathBuf,
    /// Threads, each with one seed at a time.
    pub jobs: usize,
    /// Tells everything that happens, on standard output.
    pub aloud: bool,
}

/// What came of all.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Seeds run.
    pub seeds: u64,
    /// The counts of all.
    pub tally: Tally,
    /// Seeds that failed, with what they found, in order.
    pub failed: Vec<(u64, Vec<String>)>,
}

/// Runs them all. `done` is told of each seed as it ends.
///
/// # Errors
/// When a run itself could not be made.
pub fn run(series: &Series, done: &(dyn Fn(u64, u64) + Sync)) -> Result<Summary> {
    let next = AtomicU64::new(0);
    let summary: Mutex<Result<Summary>> = Mutex::new(Ok(Summary::default()));
    std::thread::scope(|scope| {
        for _ in 0..series.jobs.max(1) {
            scope.spawn(|| work(series, &next, &summary, done));
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    summary.failed.sort();
    Ok(summary)
}

fn work(series: &Series, next: &AtomicU64, summary: &Mutex<Result<Summary>>, done: &(dyn Fn(u64, u64) + Sync)) {
    loop {
        let n = next.fetch_add(1, SeqCst);
        if n >= series.seeds {
            return;
        }
        let seed = series.from.saturating_add(n);
        let outcome = std::panic::catch_unwind(|| one(seed, &series.folder, series.aloud)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(anyhow::anyhow!("it panicked: {}", text.unwrap_or_default()))
        });
        let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(sum) = summary.as_mut() else { return };
        sum.seeds += 1;
        match outcome {
            Ok(outcome) => {
                sum.tally += outcome.tally;
                if !outcome.findings.is_empty() || !outcome.tally.holds() {
                    sum.failed.push((seed, outcome.findings));
                }
            }
            Err(error) => sum.failed.push((seed, vec![format!("{error:#}")])),
        }
        done(sum.seeds, u64::try_from(sum.failed.len()).unwrap_or(u64::MAX));
    }
}

fn one(seed: u64, base: &Path, aloud: bool) -> Result<super::Outcome> {
    let made = tempfile::Builder::new().prefix("confirmd-torture-").tempdir_in(base);
    let folder = made.with_context(|| format!("make a folder for the run's files in {}", base.display()))?;
    let outcome = run_seed(seed, folder.path(), aloud).with_context(|| format!("seed {seed}"))?;
    if aloud {
        println!("digest of everything: {}", outcome.digest);
    }
    Ok(outcome)
}
