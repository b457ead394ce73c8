//! The torture run in virtual time, as much of it as fits here; `cargo run --release -p e2e --bin torture` runs more.

use anyhow::{Result, ensure};
use e2e::scratch_dir;
use e2e::torture::simulated::{Outcome, Series, run, run_seed};
use libtest_mimic::{Failed, Trial};

/// Seeds that run here.
const SEEDS: u64 = 200;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result<()>| {
        Trial::test(name, move || test().map_err(|error| Failed::from(format!("{error:#}"))))
    };
    vec![
        trial("torture::a_seed_gives_the_same_run_again_bit_for_bit", a_seed_gives_the_same_run_again),
        trial("torture::two_hundred_seeds_lose_nothing_and_credit_nothing_twice", two_hundred_seeds),
    ]
}

fn a_seed_gives_the_same_run_again() -> Result<()> {
    let once = |seed: u64| -> Result<Outcome> { run_seed(seed, scratch_dir()?.path(), false) };
    for seed in 1_000_000..1_000_004 {
        let (first, second) = (once(seed)?, once(seed)?);
        ensure!(first.digest == second.digest, "seed {seed} gave two runs");
        ensure!(first.tally == second.tally, "seed {seed}: {:?}, then {:?}", first.tally, second.tally);
    }
    ensure!(once(1)?.digest != once(2)?.digest, "two seeds gave one run");
    Ok(())
}

fn two_hundred_seeds() -> Result<()> {
    let folder = scratch_dir()?;
    let series = Series { from: 0, seeds: SEEDS, folder: folder.path().to_owned(), jobs: 2, aloud: false };
    let summary = run(&series, &|_, _| ())?;
    ensure!(summary.failed.is_empty(), "replay with `torture --from SEED --seeds 1 --log`: {:#?}", summary.failed);
    ensure!(summary.seeds == SEEDS && summary.tally.crashes > 0 && summary.tally.reorgs > 0, "{summary:?}");
    Ok(())
}
