//! B8: outputs of a block against few and very many scripts. B7: the same block's decoding.

use super::report::Goal;
use crate::block::Sample;
use crate::process::memory_kb;
use crate::ratio::median;
use crate::sweep::Sweeper;
use crate::usage::Usage;
use anyhow::{Context, Result};
use confirmd_core::WatchSet;
use std::hint::black_box;

const SIZES: [usize; 3] = [1_000, 1_000_000, 10_000_000];
const ROUNDS: usize = 31;

/// One size's figures.
struct Point {
    size: usize,
    watch: WatchSet,
    bytes_each: u64,
    seen_ns: Vec<u64>,
    fresh_ns: Vec<u64>,
}

/// Looks every output's script up, as matching does. `quick`: without the ten million.
pub fn matching(quick: bool) -> Result<Goal> {
    let sample = Sample::find()?;
    let sizes = SIZES.get(..if quick { 2 } else { 3 }).unwrap_or(&SIZES);
    let mut points = Vec::new();
    for size in sizes {
        let before = memory_kb("self", "VmRSS")?;
        let watch = sample.watch(*size)?;
        let taken = memory_kb("self", "VmRSS")?.saturating_sub(before).saturating_mul(1024);
        let bytes_each = taken / u64::try_from(*size)?;
        points.push(Point { size: *size, watch, bytes_each, seen_ns: Vec::new(), fresh_ns: Vec::new() });
    }
    let block = sample.decode()?;
    let mut sweeper = Sweeper::default();
    for _ in 0..ROUNDS {
        for point in &mut points {
            // Once for the caches; another size's look-ups have just been there.
            black_box(sample.find_in(&block, &point.watch));
            let usage = Usage::now()?;
            black_box(sample.find_in(&block, &point.watch));
            point.seen_ns.push(usage.used()?.cpu_ns);
            sweeper.sweep(&sample.bytes);
            let usage = Usage::now()?;
            black_box(sample.find_in(&block, &point.watch));
            point.fresh_ns.push(usage.used()?.cpu_ns);
        }
    }
    let outputs = u64::try_from(block.outputs.len())?.max(1);
    let figures: Vec<(usize, u64, u64, u64)> = points
        .into_iter()
        .map(|point| (point.size, median(point.seen_ns) / outputs, median(point.fresh_ns) / outputs, point.bytes_each))
        .collect();
    for (size, seen, fresh, bytes) in &figures {
        println!("B8 an output against {size} scripts: {seen} ns just seen, {fresh} ns in cold caches; {bytes} bytes a script");
    }
    let (first, last) = (figures.first().context("sizes")?, figures.last().context("sizes")?);
    let goal = Goal::new("B8")
        .ratio(&format!("{} scripts against {}, just seen", last.0, first.0), last.1, first.1, 300)
        .note(format!("in cold caches {} ns against {} ns an output; {} bytes a script", last.2, first.2, last.3));
    Ok(if quick { goal.lacks("10,000,000 scripts need the full run") } else { goal })
}

/// Decoding, the merkle root and matching against decoding by the `bitcoin` crate with its txids.
pub fn decoding() -> Result<Goal> {
    let sample = Sample::find()?;
    let watch = sample.watch(1_000)?;
    let decoded = sample.decode()?;
    let (mut alone, mut theirs, mut ours, mut found) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let usage = Usage::now()?;
        let block: bitcoin::Block = bitcoin::consensus::deserialize(black_box(&sample.bytes))?;
        alone.push(usage.used()?.cpu_ns);
        black_box(block.txdata.iter().map(bitcoin::Transaction::compute_txid).collect::<Vec<_>>());
        drop(block);
        theirs.push(usage.used()?.cpu_ns);
        let usage = Usage::now()?;
        black_box(sample.decode_and_match(&watch)?);
        ours.push(usage.used()?.cpu_ns);
        let usage = Usage::now()?;
        black_box(sample.find_in(&decoded, &watch));
        found.push(usage.used()?.cpu_ns);
    }
    let (alone, theirs, ours, found) = (median(alone), median(theirs), median(ours), median(found));
    println!(
        "B7 {}: decode {} us, with txids {} us; ours with txids, merkle root and match {} us, the match alone {} us",
        sample.origin,
        alone / 1_000,
        theirs / 1_000,
        ours / 1_000,
        found / 1_000
    );
    Ok(Goal::new("B7")
        .ratio("decode, merkle root and match against decode and txids", ours, theirs, 110)
        .note(format!("the match of a decoded block takes {} us of decode's {} us", found / 1_000, alone / 1_000))
        .lacks("the adapter reads no block without its txids and merkle root, so that part does not exist alone"))
}
