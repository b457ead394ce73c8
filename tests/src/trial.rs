//! Trials: tests that show as ignored, with the reason in their name, where what they need is not installed.

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::nodes::Needs;

/// A trial that takes longer has lost something; its nodes are stopped and it fails.
const TRIAL_DEADLINE: Duration = Duration::from_secs(220);

/// A trial that runs `test` on a runtime of its own if everything in `needs` is here. Name it
/// `group::a_sentence_about_behaviour`.
pub fn node_trial<T, F>(name: &str, needs: &[Needs], test: T) -> Trial
where
    T: FnOnce() -> F + Send + 'static,
    F: Future<Output = Result<()>>,
{
    let trial = Trial::test(name, move || run(test).map_err(|error| Failed::from(report(&error))));
    match needs.iter().find(|needed| needed.path().is_none()) {
        Some(missing) => trial.with_kind(missing.missing()).with_ignored_flag(true),
        None => trial,
    }
}

/// The causes, and of the backtrace only the places in this package.
fn report(error: &anyhow::Error) -> String {
    let full = format!("{error:?}");
    let (causes, backtrace) = full.split_once("\nStack backtrace:").unwrap_or((&full, ""));
    let ours = backtrace.lines().map(str::trim).filter(|line| line.starts_with("at ./"));
    std::iter::once(causes.trim_end()).chain(ours).collect::<Vec<_>>().join("\n")
}

fn run<T, F>(test: T) -> Result<()>
where
    T: FnOnce() -> F,
    F: Future<Output = Result<()>>,
{
    // The trial's own future stays on this thread, which outlives the processes it starts.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let limited = async { tokio::time::timeout(TRIAL_DEADLINE, test()).await };
    let outcome = runtime.block_on(limited).with_context(|| format!("not done within {TRIAL_DEADLINE:?}"));
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome?
}

/// Runs all trials as the command line says; understands what `cargo test` and `cargo nextest` ask.
pub fn run_trials(trials: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Every trial starts nodes: as many as there are cores would only slow each other down.
    arguments.test_threads = arguments.test_threads.or(Some(2));
    libtest_mimic::run(&arguments, trials).exit_code()
}
