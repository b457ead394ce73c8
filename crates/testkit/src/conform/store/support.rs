//! What several trials of stores need.

use super::world::World;
use super::{Store, StoreHarness, StoreRig};
use crate::conform::{Broken, Verdict, block_on, hold};
use confirmd_core::{
    Attempt, AttemptOutcome, ChainId, ChainState, ChangeSet, CommitReceipt, ConsumerFilter, ConsumerName, ConsumerSpec,
    ConsumerStart, ConsumerStatus, Delivery, DeliveryFilter, DeliveryRecord, DepositFilter, DepositRecord, Height, Position,
    SettledDeposit, StoreError, Timestamp, WatchEntry,
};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::future::Future;
use std::sync::Arc;

/// Later than every retry of the suite.
pub(super) const LATE: Timestamp = Timestamp(1_000_000_000);
/// More than there ever is.
pub(super) const ALL: usize = 10_000;
/// How often a store may say that something is due and then hand nothing out.
const IDLE_MAX: u32 = 3;
/// Steps of the longest random history.
const STEPS_MAX: usize = 40;
/// Runs spent on a shorter history that fails as well.
const SHRINKS_MAX: u32 = 200;

/// One trial's store, and what it should add up to.
pub(super) struct Bench {
    pub(super) rig: Box<dyn StoreRig>,
    pub(super) world: World,
    store: Option<Arc<dyn Store>>,
}

impl Bench {
    /// A new store.
    pub(super) async fn start(harness: &dyn StoreHarness) -> Result<Self, Broken> {
        let mut rig = harness.start().await?;
        let store = rig.open(true).await.map_err(Broken::tried("making a new store"))?;
        Ok(Self { rig, world: World::default(), store: Some(store) })
    }

    /// The open store.
    pub(super) fn store(&self) -> &dyn Store {
        &**self.store.as_ref().expect("invariant: closed only within methods that open it again or end the trial")
    }

    /// Lets the handle go.
    pub(super) fn close(&mut self) {
        self.store = None;
    }

    /// Opens what is there.
    pub(super) async fn open(&mut self) -> Verdict {
        self.store = Some(self.rig.open(false).await.map_err(Broken::tried("opening the store again"))?);
        Ok(())
    }

    /// Closes and opens.
    pub(super) async fn reopen(&mut self) -> Verdict {
        self.close();
        self.open().await
    }

    /// The process is killed and started again.
    pub(super) async fn crash(&mut self) -> Verdict {
        self.rig.crash().await?;
        self.reopen().await
    }

    /// The power goes and comes back.
    pub(super) async fn power_cut(&mut self) -> Verdict {
        self.rig.power_cut().await?;
        self.reopen().await
    }

    /// Commits what must be taken, and checks the receipt.
    pub(super) async fn commit(&mut self, set: ChangeSet) -> Result<CommitReceipt, Broken> {
        let receipt = self.store().commit(set.clone()).await.map_err(Broken::tried("a commit"))?;
        self.took(&set, &receipt)?;
        Ok(receipt)
    }

    /// Takes over what was committed.
    pub(super) fn took(&mut self, set: &ChangeSet, receipt: &CommitReceipt) -> Verdict {
        let last = self.world.events.last().map(|(position, ..)| *position);
        hold!(receipt.first_event.is_none() == set.events.is_empty(), "{} events, {receipt:?}", set.events.len());
        hold!(receipt.first_event.is_none_or(|first| Some(first) > last), "a receipt goes back behind {last:?}: {receipt:?}");
        self.world.take(set, receipt);
        let version = self.world.version(&set.chain);
        hold!(receipt.version == version, "the state should have {version:?} now, the receipt says {:?}", receipt.version);
        Ok(())
    }

    /// Makes a consumer known that gets everything.
    pub(super) async fn register(&self, name: &str, start: Option<ConsumerStart>) -> Result<ConsumerName, Broken> {
        let spec = spec(name, start);
        self.store().register(&spec).await.map_err(Broken::tried("registering a consumer"))?;
        Ok(spec.name)
    }

    /// Everything that may be tried, whatever it waits for.
    pub(super) async fn due(&self, name: &ConsumerName, limit: usize) -> Result<Vec<Delivery>, Broken> {
        self.store().due(name, LATE, limit).await.map_err(Broken::tried("asking for deliveries"))
    }

    /// Delivers everything to a consumer; what it was given, in order.
    pub(super) async fn drain(&self, name: &ConsumerName) -> Result<Vec<Delivery>, Broken> {
        let (mut given, mut idle) = (Vec::new(), 0);
        loop {
            let due = self.due(name, ALL).await?;
            if due.is_empty() {
                // What a caller that went away was handed may come back a moment later; then the store says so here.
                match self.store().next_due(name).await.map_err(Broken::tried("asking for the next retry"))? {
                    Some(at) if at <= LATE && idle < IDLE_MAX => idle += 1,
                    _ => return Ok(given),
                }
                continue;
            }
            hold_progress(given.len())?;
            let positions = positions(&due);
            self.store().acknowledge(name, &positions).await.map_err(Broken::tried("an acknowledgement"))?;
            given.extend(due);
        }
    }

    /// Everything the store answers.
    pub(super) async fn answers(&self) -> Result<Answers, Broken> {
        answers(self.store()).await.map_err(Broken::tried("asking the store for everything"))
    }
}

/// No trial delivers as many events as this: the store hands acknowledged ones out again.
fn hold_progress(given: usize) -> Verdict {
    hold!(given < ALL, "deliveries were acknowledged and come again without end");
    Ok(())
}

/// A consumer that gets everything.
pub(super) fn spec(name: &str, start: Option<ConsumerStart>) -> ConsumerSpec {
    let name = ConsumerName::new(name).expect("invariant: the suite's names are names");
    ConsumerSpec { name, filter: ConsumerFilter::default(), start }
}

/// The places of deliveries.
pub(super) fn positions(deliveries: &[Delivery]) -> Vec<Position> {
    deliveries.iter().map(|delivery| delivery.position).collect()
}

/// A failed attempt.
pub(super) fn attempt(number: u32) -> Attempt {
    let error = format!("attempt {number} was refused");
    Attempt {
        number,
        at: Timestamp(u64::from(number)),
        outcome: AttemptOutcome::Transient,
        status: Some(503),
        error,
        excerpt: Some("busy".to_owned()),
    }
}

/// Everything a store answers. How far a consumer has read is left out: it may fall back to what is undelivered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answers {
    chains: Vec<(ChainId, Option<ChainState>)>,
    watched: Vec<Vec<WatchEntry>>,
    settled: Vec<Vec<SettledDeposit>>,
    deposits: Vec<DepositRecord>,
    consumers: Vec<ConsumerStatus>,
    deliveries: Vec<DeliveryRecord>,
    attempts: Vec<Vec<Attempt>>,
    delivered: Vec<DeliveryRecord>,
}

/// Asks a store for everything.
pub(super) async fn answers(store: &dyn Store) -> Result<Answers, StoreError> {
    let (mut chains, mut watched, mut settled, mut attempts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for chain in store.chains().await? {
        watched.push(store.watched(&chain, None, ALL).await?);
        let mut above = store.settled_above(&chain, Height(0)).await?;
        above.sort_by_key(|deposit| deposit.digest);
        settled.push(above);
        chains.push((chain.clone(), store.load(&chain).await?));
    }
    let mut consumers = store.consumers().await?;
    consumers.iter_mut().for_each(|consumer| consumer.cursor = Position(0));
    let deliveries = store.list(&DeliveryFilter::default(), None, ALL).await?;
    for delivery in &deliveries {
        attempts.push(store.attempts(&delivery.consumer, delivery.position).await?);
    }
    let mut delivered = Vec::new();
    for consumer in &consumers {
        delivered.extend(store.delivered(&consumer.name, None, ALL).await?.records);
    }
    let deposits = store.deposits(&DepositFilter::default(), None, ALL).await?;
    Ok(Answers { chains, watched, settled, deposits, consumers, deliveries, attempts, delivered })
}

/// What a store answers about one consumer.
#[derive(Debug, PartialEq)]
pub(super) struct OfConsumer<'a> {
    consumers: Vec<&'a ConsumerStatus>,
    deliveries: Vec<(&'a DeliveryRecord, &'a Vec<Attempt>)>,
    delivered: Vec<&'a DeliveryRecord>,
}

impl Answers {
    /// What concerns one consumer.
    pub(super) fn of(&self, name: &ConsumerName) -> OfConsumer<'_> {
        let consumers = self.consumers.iter().filter(|status| status.name == *name).collect();
        let deliveries = self.deliveries.iter().zip(&self.attempts).filter(|(record, _)| record.consumer == *name).collect();
        let delivered = self.delivered.iter().filter(|record| record.consumer == *name).collect();
        OfConsumer { consumers, deliveries, delivered }
    }

    /// Where two stores differ, in one line.
    pub(super) fn difference(&self, other: &Self) -> String {
        let parts = [
            ("the chains' states", self.chains == other.chains),
            ("the watched addresses", self.watched == other.watched),
            ("the settled deposits", self.settled == other.settled),
            ("the deposits", self.deposits == other.deposits),
            ("the consumers", self.consumers == other.consumers),
            ("the deliveries", self.deliveries == other.deliveries),
            ("the failed attempts", self.attempts == other.attempts),
            ("what was delivered", self.delivered == other.delivered),
        ];
        let differ: Vec<_> = parts.iter().filter(|(_, same)| !same).map(|(part, _)| *part).collect();
        differ.join(", ")
    }
}

/// Tries a property with random histories, each given as the numbers its steps follow from. The shortest failing one is named.
pub(super) fn for_histories<F>(harness: &dyn StoreHarness, run: impl Fn(Vec<u32>) -> F) -> Verdict
where
    F: Future<Output = Verdict>,
{
    let config = Config { cases: harness.cases(), failure_persistence: None, max_shrink_iters: SHRINKS_MAX, ..Config::default() };
    // The same histories every time: a red trial stays red.
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let tried = runner.run(&vec(any::<u32>(), 1..STEPS_MAX), |steps| {
        let verdict = block_on(run(steps)).and_then(|verdict| verdict);
        verdict.map_err(|broken| TestCaseError::fail(broken.to_string()))
    });
    tried.map_err(|error| match error {
        TestError::Fail(why, steps) => Broken::new(format!("{why}; in the history {steps:?}")),
        TestError::Abort(why) => Broken::new(format!("the trial could not be carried out: {why}")),
    })
}
