//! What millions of watched addresses cost: memory, time to fill the index, and what a full block pays for their number.

use anyhow::Result;
use benches::block::Sample;
use benches::process::memory_kb;
use benches::ratio::{Ratio, judge, median};
use benches::sweep::Sweeper;
use benches::usage::{Usage, Used};
use clap::Parser;
use confirmd_core::WatchSet;
use std::hint::black_box;
use std::process::ExitCode;

const FEW: usize = 1_000;
const BLOCK_GOAL: Ratio = Ratio(150);
const MEMORY_GOAL_BYTES: u64 = 1_000_000_000;

/// Bytes per address, time to fill, and a full block against few and many addresses.
#[derive(Debug, Parser)]
struct Args {
    /// How many addresses are watched.
    #[arg(long, default_value_t = 10_000_000)]
    addresses: usize,
    /// Rounds of the block comparison.
    #[arg(long, default_value_t = 41)]
    rounds: u64,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let sample = Sample::find()?;
    let few = sample.watch(FEW)?;
    let before = memory_kb("self", "VmRSS")?;
    let usage = Usage::now()?;
    let many = sample.watch(args.addresses)?;
    let filled = usage.used()?;
    let taken = memory_kb("self", "VmRSS")?.saturating_sub(before).saturating_mul(1024);
    let count = u64::try_from(many.len().max(1))?;
    println!("index: {count} P2WPKH addresses with references made and put in {} ms CPU", filled.cpu_ns / 1_000_000);
    println!("index: {} bytes an address, {} MB", taken / count, taken / 1_000_000);
    let small = taken <= MEMORY_GOAL_BYTES;
    println!("index: memory {} of {MEMORY_GOAL_BYTES} bytes{}", taken, if small { "" } else { "  MISSED" });
    println!("block: {}", sample.origin);
    let reached = compare(&sample, &few, &many, args.rounds)?;
    Ok(if reached && small { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
