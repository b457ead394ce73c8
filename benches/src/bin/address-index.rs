//! What millions of watched addresses cost: the import into a store, the start that loads them, memory, and what a full block pays
//! for their number. Each phase is a process of its own, so that none is charged for another's memory.

use anyhow::{Context, Result, ensure};
use benches::address_list::{a_key_each, import, load, write_lines};
use benches::block::Sample;
use benches::process::{memory_kb, scratch};
use benches::ratio::{Ratio, judge, median};
use benches::sweep::Sweeper;
use benches::usage::{Usage, Used};
use clap::{Parser, ValueEnum};
use confirmd_core::WatchSet;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const FEW: usize = 1_000;
const BLOCK_GOAL: Ratio = Ratio(150);
const MEMORY_GOAL_KB: u64 = 1_000_000_000 / 1024;
const LOAD_GOAL_MS: u64 = 20_000;
const IMPORT_GOAL_PER_S: u64 = 100_000;
/// An import may hold so much at its highest, however long it is.
const IMPORT_GOAL_KB: u64 = 200 << 10;

/// An import, a start, memory, and a full block against few and many addresses.
#[derive(Debug, Parser)]
struct Args {
    /// How many addresses are watched.
    #[arg(long, default_value_t = 10_000_000)]
    addresses: usize,
    /// Rounds of the block comparison.
    #[arg(long, default_value_t = 41)]
    rounds: u64,
    /// Addresses of the comparison with a database that holds a key for each; 0 leaves it out.
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// The part that this process measures.
    #[arg(long, hide = true, requires = "folder")]
    phase: Option<Phase>,
    /// Where the parts find each other's files.
    #[arg(long, hide = true)]
    folder: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Phase {
    Import,
    Load,
    Keys,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let Some(phase) = args.phase else { return all(&args) };
    let folder = args.folder.as_deref().context("no folder")?;
    let (lines, state) = (folder.join("addresses.jsonl"), folder.join("state"));
    let reached = match phase {
        Phase::Import => importing(&lines, &state)?,
        Phase::Load => loading(&state, &args)?,
        Phase::Keys => keys(&lines, args.keys.min(args.addresses), &folder.join("keys"))?,
    };
    Ok(if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all(args: &Args) -> Result<ExitCode> {
    let folder = scratch("address-index")?;
    write_lines(&Sample::find()?, args.addresses, &folder.path().join("addresses.jsonl"))?;
    let mut reached = true;
    for phase in ["import", "load", "keys"].into_iter().filter(|phase| *phase != "keys" || args.keys > 0) {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--phase", phase, "--folder"]).arg(folder.path());
        command.args(["--addresses", &args.addresses.to_string(), "--rounds", &args.rounds.to_string()]);
        reached &= command.args(["--keys", &args.keys.to_string()]).status()?.success();
    }
    Ok(if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn goal(what: &str, reached: bool, goal: &str) -> bool {
    println!("{what} (goal: {goal}){}", if reached { "" } else { "  MISSED" });
    reached
}

fn per_second(count: usize, ns: u64) -> Result<u64> {
    Ok(u64::try_from(u128::try_from(count)? * 1_000_000_000 / u128::from(ns.max(1)))?)
}

fn importing(lines: &Path, state: &Path) -> Result<bool> {
    let imported = tokio::runtime::Runtime::new()?.block_on(import(lines, state))?;
    let used = imported.used;
    let rate = per_second(imported.count, used.wall_ns)?;
    println!(
        "import: {} lines in {} ms ({} ms CPU), {} MB written, {} MB in the store",
        imported.count,
        used.wall_ns / 1_000_000,
        used.cpu_ns / 1_000_000,
        used.written_bytes / 1_000_000,
        folder_bytes(state)? / 1_000_000
    );
    let fast = goal(&format!("import: {rate} addresses a second"), rate >= IMPORT_GOAL_PER_S, "100,000");
    let memory =
        format!("import: {} MB after a tenth, {} MB at its highest", imported.early_kb / 1_000, imported.peak_kb / 1_000);
    Ok(goal(&memory, imported.peak_kb <= IMPORT_GOAL_KB, "200 MB, whatever the length") && fast)
}

fn folder_bytes(path: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

fn loading(state: &Path, args: &Args) -> Result<bool> {
    let sample = Sample::find()?;
    let before = memory_kb("self", "VmRSS")?;
    let (loaded, used) = tokio::runtime::Runtime::new()?.block_on(load(state))?;
    ensure!(loaded.watch.len() == args.addresses, "{} addresses were loaded", loaded.watch.len());
    let (after, peak) = (memory_kb("self", "VmRSS")?, memory_kb("self", "VmHWM")?);
    let each = after.saturating_sub(before).saturating_mul(1024) / u64::try_from(loaded.watch.len().max(1))?;
    let millis = used.wall_ns / 1_000_000;
    println!("start: {} P2WPKH addresses with references, {each} bytes each", loaded.watch.len());
    let time = format!("start: opened and loaded in {millis} ms ({} ms CPU)", used.cpu_ns / 1_000_000);
    let mut reached = goal(&time, millis <= LOAD_GOAL_MS, "20 s for 10,000,000");
    let memory = format!("start: {} MB resident, {} MB at its highest", after * 1024 / 1_000_000, peak * 1024 / 1_000_000);
    reached &= goal(&memory, peak <= MEMORY_GOAL_KB, "1 GB for 10,000,000");
    println!("block: {}", sample.origin);
    let few = sample.watch(FEW)?;
    reached &= compare(&sample, &few, &loaded.watch, args.rounds)?;
    Ok(reached)
}

fn keys(lines: &Path, count: usize, path: &Path) -> Result<bool> {
    let (filled, loaded) = a_key_each(lines, count, path)?;
    println!(
        "not taken, a database key each: {count} in {} ms ({} a second), opened and read in {} ms, {} MB at its highest",
        filled.wall_ns / 1_000_000,
        per_second(count, filled.wall_ns)?,
        loaded.wall_ns / 1_000_000,
        memory_kb("self", "VmHWM")? / 1_000
    );
    Ok(true)
}

fn compare(sample: &Sample, few: &WatchSet, many: &WatchSet, rounds: u64) -> Result<bool> {
    let mut sweeper = Sweeper::default();
    let mut reached = true;
    for (kind, fresh) in [("the same block again", false), ("a block just received", true)] {
        let (mut by_few, mut by_many) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            for (watch, into) in [(few, &mut by_few), (many, &mut by_many)] {
                if fresh {
                    sweeper.sweep(&sample.bytes);
                }
                into.push(cost(sample, watch)?.cpu_ns);
            }
        }
        let (by_few, by_many) = (median(by_few), median(by_many));
        println!(
            "  {kind}: {} us against {} addresses, {} us against {}",
            by_few / 1_000,
            few.len(),
            by_many / 1_000,
            many.len()
        );
        let what = format!("block decoded and matched, {FEW} against {} addresses, {kind}, CPU", many.len());
        reached &= judge(&what, Ratio::of(by_many, by_few), BLOCK_GOAL);
    }
    Ok(reached)
}

fn cost(sample: &Sample, watch: &WatchSet) -> Result<Used> {
    let usage = Usage::now()?;
    black_box(sample.decode_and_match(watch)?);
    usage.used()
}
