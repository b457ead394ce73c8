//! The engine and the reference model side by side, under random schedules: watchers, pumps and a store as they are, over scripted
//! chains and consumers, in virtual time. Every commit and every delivery is judged when it happens; after the faults have
//! ended, every consumer holds what the model says within a bounded number of polls.
//!
//! Without being told otherwise the search tries the same cases each time, so that it fails only for who changed something.
//! `CONFIRMD_MODEL_CASES=2500` tries so many others on the store in memory and a fortieth of them on sled, from a seed that it
//! names; `CONFIRMD_MODEL_SEED` gives it. A case that fails is shrunk and printed as JSON; put it into `cases/`, where every
//! file is a test of its own on both stores.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod node;
mod oracle;
mod sink;
mod step;
mod store;
mod verdict;
mod world;

use confirmd_testkit::MemoryDisk;
use libtest_mimic::{Arguments, Failed, Trial};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use step::Case;
use store::Disk;
use world::{Counts, Virtual};

/// Random cases on the store in memory; sled gets a fortieth.
const CASES: u32 = 400;
/// Steps of one case, at most.
const STEPS_MAX: usize = 60;
/// Where the search begins while nobody asks for other cases.
const SEED: u64 = 1;
/// Searches on the store in memory, side by side; each takes its share of the cases.
const SHARES: u32 = 2;

#[derive(Debug, Clone, Copy)]
enum Store {
    Memory,
    Sled,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let asked = std::env::var("CONFIRMD_MODEL_CASES").ok().map(|text| text.parse().expect("a number of cases"));
    let seed = std::env::var("CONFIRMD_MODEL_SEED").ok().map(|text| text.parse().expect("a number to begin from"));
    let seed = seed.unwrap_or_else(|| if asked.is_some() { fastrand::u64(..1_000_000_000) } else { SEED });
    let cases = asked.unwrap_or(CASES);
    let random = "g1_to_g8_the_consumers_hold_what_the_model_says_after_any_schedule";
    let sled = move || search(Store::Sled, (cases / 40).max(1), seed);
    let mut trials = vec![Trial::test(format!("{random}::sled"), sled)];
    trials.extend((0..SHARES).map(|share| {
        let search = move || search(Store::Memory, cases.div_ceil(SHARES), seed + 1 + u64::from(share));
        Trial::test(format!("{random}::memory::{share}"), search)
    }));
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model/cases");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "json")) {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        for store in [Store::Memory, Store::Sled] {
            let file = file.clone();
            trials.push(Trial::test(format!("case::{name}::{store:?}").to_lowercase(), move || {
                let case: Case = serde_json::from_slice(&std::fs::read(&file)?)?;
                play(&case, store).map(drop).map_err(Failed::from)
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// One case, from an empty disk, in a time of its own.
fn play(case: &Case, store: Store) -> Result<Counts, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Arc::new(Virtual::new());
        let disk = match store {
            Store::Memory => Disk::Memory(MemoryDisk::default()),
            Store::Sled => Disk::Sled { directory: tempfile::TempDir::new().unwrap(), open: None, clock: clock.clone() },
        };
        world::play(case, disk, clock).await
    })
}

fn search(store: Store, cases: u32, seed: u64) -> Result<(), Failed> {
    let rng_seed = RngSeed::Fixed(seed);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 3000, rng_seed, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let sum = Mutex::new(Counts::default());
    let began = std::time::Instant::now();
    let found = runner.run(&step::case(STEPS_MAX), |case| {
        let counts = play(&case, store).map_err(TestCaseError::fail)?;
        let mut sum = sum.lock().unwrap();
        sum.commits += counts.commits;
        sum.events += counts.events;
        sum.handed += counts.handed;
        sum.reorgs += counts.reorgs;
        Ok(())
    });
    match found {
        Ok(()) => {
            eprintln!("{cases} cases on {store:?} from seed {seed}: {:?} in {:?}", sum.lock().unwrap(), began.elapsed());
            Ok(())
        }
        Err(TestError::Abort(why)) => Err(format!("given up: {why}").into()),
        Err(TestError::Fail(why, case)) => {
            let json = literal(&case);
            Err(format!(
                "{why}\non {store:?}, found in {:?} from seed {seed}. The case, for a file in cases/:\n{json}",
                began.elapsed()
            )
            .into())
        }
    }
}

/// A case as a file of `cases/` holds it: one step a line.
fn literal(case: &Case) -> String {
    let steps: Vec<String> = case.steps.iter().map(|step| serde_json::to_string(step).unwrap()).collect();
    let (about, reverts) = (serde_json::to_string(&case.about).unwrap(), case.revert_settled);
    format!("{{\"about\": {about},\n\"revert_settled\": {reverts},\n\"steps\": [\n{}\n]}}\n", steps.join(",\n"))
}
