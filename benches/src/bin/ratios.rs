//! Compares, in turn and in one process, what must cost about the same; fails when it does not.
//!
//! CPU time is judged. Wall time is only printed, since on a busy machine it says who else was busy; bytes written are
//! only printed, since they rise and fall with the database's cleaning of its file (see RESULTS.md).

use anyhow::Result;
use benches::block::Sample;
use benches::ledger::{Ledger, PAYMENTS, loads_for_another};
use benches::process::memory_kb;
use benches::ratio::{Ratio, judge, median};
use benches::sweep::Sweeper;
use benches::usage::{Usage, Used};
use clap::Parser;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

const FEW: u64 = 1_000;
const MANY: u64 = 1_000_000;
const TICKS: u64 = 20;
const WARM_UP_TICKS: u64 = 5;
const WATCHED: usize = 1_000_000;
const TICK_GOAL: Ratio = Ratio(130);
const BLOCK_GOAL: Ratio = Ratio(150);

/// Ratios that must stay small whatever the machine.
#[derive(Debug, Parser)]
struct Args {
    /// Rounds of the tick comparison; each runs both sizes.
    #[arg(long, default_value_t = 21)]
    rounds: u64,
    /// Rounds of the block comparison.
    #[arg(long, default_value_t = 41)]
    block_rounds: u64,
}

fn main() -> Result<ExitCode> {
    if loads_for_another()? {
        return Ok(ExitCode::SUCCESS);
    }
    let args = Args::parse();
    let block = block_reached(args.block_rounds)?;
    let tick = tokio::runtime::Runtime::new()?.block_on(tick_reached(args.rounds))?;
    Ok(if block && tick { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn tick_reached(rounds: u64) -> Result<bool> {
    let start = Instant::now();
    let mut many = Ledger::with_settled(MANY).await?;
    println!("tick: {} settled keys loaded in {} s", many.settled(), start.elapsed().as_secs());
    let mut few = Ledger::with_settled(FEW).await?;
    let (mut few_used, mut many_used) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            few_used.push(measured(&mut few).await?);
            many_used.push(measured(&mut many).await?);
        } else {
            many_used.push(measured(&mut many).await?);
            few_used.push(measured(&mut few).await?);
        }
    }
    println!("tick: by the end {} and {} keys are settled", few.settled(), many.settled());
    println!("tick: {PAYMENTS} new, {PAYMENTS} confirmed, {PAYMENTS} settled; medians of {rounds} rounds of {TICKS} ticks");
    let of = |used: &[Used], figure: fn(&Used) -> u64| median(used.iter().map(figure).collect());
    let both = |figure: fn(&Used) -> u64| (of(&few_used, figure), of(&many_used, figure));
    let (cpu, wall, bytes) = (both(|used| used.cpu_ns), both(|used| used.wall_ns), both(|used| used.written_bytes));
    println!("  {FEW:>9} settled: {} us CPU, {} us wall, {} bytes written a tick", cpu.0 / 1_000, wall.0 / 1_000, bytes.0);
    println!("  {MANY:>9} settled: {} us CPU, {} us wall, {} bytes written a tick", cpu.1 / 1_000, wall.1 / 1_000, bytes.1);
    println!("tick 1e3 vs 1e6 settled, wall: {} (not judged)", Ratio::of(wall.1, wall.0));
    println!("tick 1e3 vs 1e6 settled, bytes written: {} (not judged)", Ratio::of(bytes.1, bytes.0));
    Ok(judge("tick 1e3 vs 1e6 settled, CPU", Ratio::of(cpu.1, cpu.0), TICK_GOAL))
}

async fn measured(ledger: &mut Ledger) -> Result<Used> {
    ledger.ticks(WARM_UP_TICKS).await?;
    let usage = Usage::now()?;
    ledger.ticks(TICKS).await?;
    Ok(usage.used()?.each(TICKS))
}

fn block_reached(rounds: u64) -> Result<bool> {
    let sample = Sample::find()?;
    let before = memory_kb("self", "VmRSS")?;
    let watch = sample.watch(WATCHED)?;
    let taken = memory_kb("self", "VmRSS")?.saturating_sub(before).saturating_mul(1024);
    let found = sample.decode_and_match(&watch)?.len();
    println!("block: {}; {found} payments to {} watched scripts", sample.origin, watch.len());
    println!("block: {} bytes of memory a watched script", taken / u64::try_from(watch.len().max(1))?);
    let mut sweeper = Sweeper::default();
    let mut receive = || sweeper.sweep(&sample.bytes);
    let mut reached = true;
    for (kind, fresh) in [("the same block again", false), ("a block just received", true)] {
        let (mut decode, mut matched) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            decode.push(cpu_ns(fresh.then_some(&mut receive), || sample.decode().map(|block| block.outputs.len()))?);
            matched.push(cpu_ns(fresh.then_some(&mut receive), || sample.decode_and_match(&watch).map(|found| found.len()))?);
        }
        let (decode, matched) = (median(decode), median(matched));
        println!("  {kind}: decode {} us, decode and match {} us CPU", decode / 1_000, matched / 1_000);
        let what = format!("block decoded and matched vs decoded, {kind}, CPU");
        reached &= judge(&what, Ratio::of(matched, decode), BLOCK_GOAL);
    }
    Ok(reached)
}

fn cpu_ns(prepare: Option<&mut impl FnMut()>, work: impl FnOnce() -> Result<usize>) -> Result<u64> {
    if let Some(prepare) = prepare {
        prepare();
    }
    let usage = Usage::now()?;
    black_box(work()?);
    Ok(usage.used()?.cpu_ns)
}
