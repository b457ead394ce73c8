//! The torture run: `torture --seeds N [--from M]`, in virtual time; `torture --real --rounds N`, outside.

use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use e2e::torture::{Tally, real, simulated};

/// Whole instances under faults, crashes and reorgs, judged by the consumers' own books.
#[derive(Debug, Parser)]
#[command(name = "torture")]
struct Args {
    /// Seeds to run, in virtual time.
    #[arg(long, default_value_t = 100, conflicts_with = "real")]
    seeds: u64,
    /// The first seed or round.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Seeds at a time, each on a thread of its own [default: the number of cores].
    #[arg(long, conflicts_with = "real")]
    jobs: Option<usize>,
    /// Where the files of the runs lie [default: the system's folder for temporary files].
    #[arg(long, conflicts_with = "real")]
    folder: Option<PathBuf>,
    /// Tell everything that happens. With one seed.
    #[arg(long, conflicts_with = "real")]
    log: bool,
    /// The shipped binary against real nodes, with real signals.
    #[arg(long)]
    real: bool,
    /// Rounds outside.
    #[arg(long, default_value_t = 5, requires = "real")]
    rounds: u64,
}

/// Failing seeds that are told in full.
const SHOWN_MAX: usize = 20;

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if args.real {
        let tally = real::run(args.rounds, args.from)?;
        return Ok(ended("rounds", args.rounds, &tally, tally.holds()));
    }
    if args.log {
        let filter = tracing_subscriber::EnvFilter::try_from_default_env()
            .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,confirmd_engine=debug"));
        let lines =
            tracing_subscriber::fmt().with_env_filter(filter).without_time().with_ansi(false).with_writer(std::io::stdout);
        lines.init();
    } else {
        // A panic is a finding, told with its seed; sled's own are caught by the store.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = if args.log { 1 } else { args.jobs.unwrap_or(cores) };
    let began = Instant::now();
    let progress = |done: u64, failed: u64| {
        if std::io::stderr().is_terminal() {
            eprint!("\r{done} of {} seeds, {failed} failed", args.seeds);
            let _ = std::io::stderr().flush();
        }
    };
    let folder = args.folder.unwrap_or_else(std::env::temp_dir);
    let series = simulated::Series { from: args.from, seeds: args.seeds, folder, jobs, aloud: args.log };
    let summary = simulated::run(&series, &progress)?;
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    for (seed, findings) in summary.failed.iter().take(SHOWN_MAX) {
        println!("seed {seed} failed; replay it with --from {seed} --seeds 1 --log");
        findings.iter().take(SHOWN_MAX).for_each(|finding| println!("  {finding}"));
    }
    println!("{:.1} s on {jobs} threads, {} seeds failed", began.elapsed().as_secs_f64(), summary.failed.len());
    Ok(ended("seeds", summary.seeds, &summary.tally, summary.failed.is_empty()))
}

fn ended(what: &str, count: u64, tally: &Tally, held: bool) -> ExitCode {
    println!("{count} {what}, {tally}");
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
