//! The torture run outside: the shipped binary, real nodes, real signals.
//!
//! A round is a robot on an anvil and one on a litecoind that pay, fork, and take their nodes away; kill -9 of confirmd at
//! any moment, also while it starts; and two consumers, one well, one that fails in every way. When all that is over, the
//! books of both are compared with what the nodes say. What is done is decided by the round's seed; at which moment of
//! confirmd's it happens is up to the machine, so a replay repeats the acts and not the interleaving.

mod books;
mod coin_robot;
mod crashes;
mod dice;
mod evm_robot;
mod journal;
mod outage;
mod round;
mod truth;
mod weather;

use std::time::Instant;

use anyhow::{Context, Result};

use crate::torture::Tally;
use crate::{BitcoinFamily, FamilyOptions, Litecoind};

pub use books::Rule;

use dice::Dice;

/// No fork goes deeper than this below the highest tip there ever was; `reorg_depth` of the configuration is more.
const FORK_DEPTH_MAX: u64 = 8;
/// The most confirmations that any asset needs.
const CONFIRMATIONS_MAX: u64 = 3;
/// Rounds that one litecoind serves: its start takes longer than a round's acts, and its chain must not grow for ever.
const ROUNDS_OF_A_NODE: u64 = 10;

/// What a run does.
#[derive(Debug, Clone, Default)]
pub struct RealOptions {
    /// How many rounds.
    pub rounds: u64,
    /// The seed of the first; the others follow.
    pub from: u64,
    /// How both consumers keep their books.
    pub rule: Rule,
}

/// What the robots counted.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    reorgs: u64,
    outages: u64,
    /// Acts that the node refused, for example a payment of coins that a fork has just taken away.
    refused: u64,
}

/// How long a robot waits between its acts.
#[derive(Debug, Clone, Copy)]
struct Pace {
    low_ms: u64,
    high_ms: u64,
}

impl Pace {
    async fn pause(self, dice: &mut Dice) {
        // Now and then long enough for confirmd to have told of everything.
        if dice.chance(1, 8) { dice.pause(150, 400).await } else { dice.pause(self.low_ms, self.high_ms).await }
    }
}

/// Runs rounds `from..from + rounds` one after the other and prints what each broken promise was; the sum.
///
/// # Errors
/// When a round could not be carried out or did not come to its end; it names the seed and the folder that was kept.
/// Broken promises are no error here: they are in the tally.
pub fn run(rounds: u64, from: u64) -> Result<Tally> {
    // The processes that are started die with this thread, which outlives them.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(run_with(RealOptions { rounds, from, ..RealOptions::default() }));
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}

/// As [`run`], within a runtime.
///
/// # Errors
/// As [`run`].
pub async fn run_with(options: RealOptions) -> Result<Tally> {
    let begun = Instant::now();
    crate::confirmd()?;
    let mut tally = Tally::default();
    let mut node: Option<BitcoinFamily> = None;
    let (mut reverts, mut outages, mut faults) = (0, 0, 0);
    for done in 0..options.rounds {
        let (seed, started) = (options.from + done, Instant::now());
        let mut litecoind = match node.take().filter(|_| done % ROUNDS_OF_A_NODE != 0) {
            Some(node) => node,
            None => {
                // At its end the node waits for idle connections to time out, by default half a minute.
                let extra = vec!["-rpcservertimeout=1".to_owned()];
                Litecoind::start_with(FamilyOptions { extra, ..FamilyOptions::default() }).await?
            }
        };
        let outcome = round::run(seed, options.rule, &mut litecoind).await;
        let outcome = outcome.with_context(|| format!("round {seed}; to replay it: torture --real --rounds 1 --from {seed}"))?;
        tally += outcome.tally;
        (reverts, outages, faults) = (reverts + outcome.reverts, outages + outcome.outages, faults + outcome.faults);
        node = Some(litecoind);
        eprintln!("round {seed}: {} in {:.1} s", outcome.tally, started.elapsed().as_secs_f32());
    }
    eprintln!(
        "outside: {} rounds from {} in {} s, with {reverts} reverts told, {outages} outages of nodes, {faults} faults of a receiver",
        options.rounds,
        options.from,
        begun.elapsed().as_secs()
    );
    Ok(tally)
}
