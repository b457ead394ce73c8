//! One seed from its first block to its last comparison.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use anyhow::{Context as _, Result};
use confirmd::Embedded;
use confirmd_testkit::receiver::{Ledger, LedgerKey};

use super::judge;
use super::operator::{Accepted, Standing, look};
use super::payment::Truth;
use super::plan::{self, Plan};
use super::world::{RECEIVERS, World};
use super::{life, receiver_side};
use crate::torture::Tally;

/// Blocks there are before anybody watches.
const FIRST_BLOCKS: u32 = 10;
/// Looks of the operator until everything must be delivered, ten seconds apart at first, later a minute.
const LOOKS_MAX: u32 = 60;
/// So many of them until the wall clock is helped along.
const LOOKS_SOON: u32 = 30;
/// How far it is set ahead with each of them then.
const LOOKS_APART: Duration = Duration::from_secs(600);

/// What came of a seed.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The counts.
    pub tally: Tally,
    /// Everything that is wrong, in words; empty when every guarantee held.
    pub findings: Vec<String>,
    /// Of every request, answer, commit and delivery, with their times: the same for every run of the seed.
    pub digest: String,
}

/// Runs a seed on a runtime of its own whose time is virtual.
///
/// # Errors
/// When the run itself could not be made: no folder, no runtime.
pub fn run_seed(seed: u64, root: &Path, aloud: bool) -> Result<Outcome> {
    // Whatever in the instance draws a number (jitter) draws it from the seed, too.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    // Made within the runtime: outside of it the clock would begin at the machine's time, some microseconds later each run.
    let outcome = runtime.block_on(async { Run::new(seed, root, aloud)?.play().await });
    runtime.shutdown_background();
    outcome
}

struct Run {
    world: Arc<World>,
    plan: Plan,
    accepted: Accepted,
    crashes: u64,
}

impl Run {
    fn new(seed: u64, root: &Path, aloud: bool) -> Result<Self> {
        let dice = super::dice::Dice::new(seed.wrapping_mul(3).wrapping_add(7));
        let (plan, chains) = plan::draw(&dice)?;
        let endpoints: Vec<_> = plan.chains.iter().map(|chain| chain.endpoints).collect();
        Ok(Self {
            world: Arc::new(World::new(seed, root, chains, &endpoints, aloud)?),
            plan,
            accepted: Accepted::default(),
            crashes: 0,
        })
    }

    async fn play(mut self) -> Result<Outcome> {
        let world = self.world.clone();
        world.record.line(&world.clock, format_args!("{:?}", self.plan));
        world.chains.iter().for_each(|chain| chain.mine(FIRST_BLOCKS));
        let mut left = self.plan.actions;
        while left > 0 {
            let Some(instance) = self.born().await else { continue };
            let operator = instance.operator();
            while left > 0 {
                left -= 1;
                let wait = Duration::from_millis(world.script.skewed(15));
                tokio::select! {
                    biased;
                    () = world.lives.ended() => break,
                    why = instance.failed() => world.problem(format!("the instance stopped by itself: {why}")),
                    () = tokio::time::sleep(wait) => {}
                }
                if self.act() {
                    let acts = world.script.percent(50);
                    let looked = look(&world, &self.plan, &operator, acts, &mut self.accepted);
                    tokio::select! {
                        biased;
                        () = world.lives.ended() => break,
                        // A node that gives no answer keeps a command waiting, too.
                        looked = tokio::time::timeout(Duration::from_secs(60), looked) => drop(looked),
                    }
                }
                if world.script.percent(2) {
                    break;
                }
            }
            drop(operator);
            self.dies(instance).await;
        }
        let instance = self.quiet_life().await?;
        let standing = self.until_delivered(&instance).await;
        let store = instance.end().await.context("the last stop")?;
        if !store.is_empty() {
            world.problem(format!("parts did not stop in time: {}", store.join(", ")));
        }
        self.verdict(standing)
    }

    /// Starts the instance, with a crash coming or not. `None` if it did not live to see its start.
    async fn born(&mut self) -> Option<Embedded> {
        let world = &self.world;
        if world.script.percent(self.plan.crashes_percent) {
            world.lives.light(world.script.skewed(9), world.script.percent(40));
        }
        world.record.fact(&world.clock, "start", b"");
        let started = tokio::select! {
            biased;
            () = world.lives.ended() => None,
            started = life::start(world, &self.plan) => Some(started),
        };
        match started {
            Some(Ok(instance)) => return Some(instance),
            Some(Err(error)) if world.lives.counts(world.lives.present()) => {
                world.problem(format!("the instance did not start: {error:#}"));
                world.lives.crash();
            }
            _ => {}
        }
        self.bury().await;
        None
    }

    /// Ends a life: by the crash that has come, by one now, or in order.
    async fn dies(&mut self, instance: Embedded) {
        let world = self.world.clone();
        let alive = world.lives.counts(world.lives.present());
        if alive && world.script.percent(30) {
            world.record.fact(&world.clock, "stop", b"");
            world.lives.light(0, false);
            if let Err(error) = instance.end().await {
                world.problem(format!("the instance did not stop in order: {error:#}"));
            }
            world.lives.crash();
        } else {
            if alive {
                world.lives.crash();
            }
            self.crashes += 1;
            drop(instance);
        }
        self.bury().await;
    }

    /// Lets what is left of a life go, and time pass while nobody watches.
    async fn bury(&mut self) {
        let world = &self.world;
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(world.script.skewed(15))).await;
        for _ in 0..world.script.below(3) {
            self.act();
        }
        self.world.lives.next();
    }

    /// The world does something. True when it is the operator's turn.
    fn act(&self) -> bool {
        let (world, dice) = (&self.world, &self.world.script);
        let Some(chain) = dice.pick(&world.chains) else { return false };
        match dice.below(100) {
            0..=44 => {
                (0..dice.below(4)).for_each(|_| chain.pay(dice));
                chain.mine(u32::try_from(dice.skewed(2)).unwrap_or(1));
                world.record.line(&world.clock, format_args!("{} at {}", chain.name, chain.height()));
            }
            45..=64 => {
                let deep = if dice.percent(8) { dice.between(1, 4) } else { 0 };
                let depth = if deep > 0 { chain.reorg_depth + deep } else { dice.between(1, chain.reorg_depth) };
                let told = chain.fork(depth.min(chain.height().saturating_sub(1)).max(1), dice);
                world.record.fact(&world.clock, &told, b"");
            }
            65..=68 => {
                if chain.return_to_left() {
                    let told = format!("{} returned to the branch before: tip {}", chain.name, chain.height());
                    world.record.fact(&world.clock, &told, b"");
                }
            }
            69..=84 => world.change_conditions(),
            85..=86 => {
                let ahead = if dice.percent(50) { Duration::ZERO } else { Duration::from_secs(dice.between(1, 7_200)) };
                world.clock.set_ahead(ahead);
            }
            _ => return true,
        }
        false
    }

    /// Nothing goes wrong any more: the last start, and blocks that make everything deep enough.
    async fn quiet_life(&mut self) -> Result<Embedded> {
        let world = self.world.clone();
        world.calm_down();
        world.record.fact(&world.clock, "calm", b"");
        let instance = life::start(&world, &self.plan).await.context("the start after everything")?;
        for chain in &world.chains {
            chain.mine(4);
        }
        for _ in 0..12 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            world.chains.iter().for_each(|chain| chain.mine(1));
        }
        Ok(instance)
    }

    async fn until_delivered(&mut self, instance: &Embedded) -> Standing {
        let world = self.world.clone();
        let operator = instance.operator();
        let mut standing = Standing::default();
        for looks in 0..LOOKS_MAX {
            match look(&world, &self.plan, &operator, true, &mut self.accepted).await {
                Ok(now) => standing = now,
                Err(error) => world.record.line(&world.clock, format_args!("operator: {error}")),
            }
            if standing.at_tips && standing.delivered {
                break;
            }
            if looks >= LOOKS_SOON {
                // Nothing is left but a retry far ahead, by a wall clock that was wrong once: every pump looks at the clock each minute.
                world.clock.set_ahead(LOOKS_APART * (looks - LOOKS_SOON));
                tokio::time::sleep(Duration::from_secs(61)).await;
            } else {
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        }
        standing
    }

    fn verdict(self, standing: Standing) -> Result<Outcome> {
        let world = &self.world;
        let mut tally = Tally {
            ticks: world.ticks.load(SeqCst),
            reorgs: world.chains.iter().map(super::chain::Chain::reorgs).sum(),
            crashes: self.crashes,
            deliveries: world.deliveries.load(SeqCst),
            ..Tally::default()
        };
        let mut findings = Vec::new();
        if !(standing.at_tips && standing.delivered) {
            findings.push(format!("not everything was delivered in time: {standing:?}"));
        }
        let truth: Truth = world.chains.iter().flat_map(super::chain::Chain::truth).collect();
        for (name, receiver) in RECEIVERS.iter().zip(&world.receivers) {
            let hears = |key: &LedgerKey| {
                !(*name == "shop" && self.plan.shop_hears_one)
                    || world.chains.iter().any(|chain| chain.name == "base" && chain.id() == key.chain)
            };
            let truth = truth.iter().filter(|(key, _)| hears(key)).map(|(key, due)| (key.clone(), due.clone())).collect();
            let verdict = judge::books(name, &receiver.ledger(), &truth, &self.accepted);
            tally += verdict.tally;
            findings.extend(verdict.findings);
            findings.extend(judge::decisions(name, &receiver.requests()));
        }
        let archive = self.archive()?;
        let verdict = judge::books("archive", &archive, &truth, &self.accepted);
        tally += verdict.tally;
        findings.extend(verdict.findings);
        findings.extend(world.problems());
        findings.extend(world.lives.trouble());
        Ok(Outcome { tally, findings, digest: world.record.digest() })
    }

    /// The books of whoever reads the file.
    fn archive(&self) -> Result<Ledger> {
        let world = &self.world;
        let text = std::fs::read(world.lives.folder().join("events.jsonl")).context("read the file sink's lines")?;
        world.record.fact(&world.clock, "archive", &text);
        let mut ledger = Ledger::default();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match ledger.read(line) {
                Ok(event) => receiver_side::judge(world, &event),
                Err(error) => world.problem(format!("a line of the file is no event: {error}")),
            }
        }
        Ok(ledger)
    }
}
