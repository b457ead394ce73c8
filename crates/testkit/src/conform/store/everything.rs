//! A store filled with a sample history, and everything it answers about it: for comparing a store with itself.

use super::Store;
use super::power_cut::round;
use super::support::{ALL, spec};
use super::world::World;
use crate::conform::{Broken, Verdict};
use confirmd_core::{
    Archived, Attempt, ChainId, ChainState, ConsumerStatus, DeliveryFilter, DeliveryRecord, DepositFilter, DepositKey,
    DepositRecord, DepositState, EventId, EventRecord, Height, SettledDeposit, StoreError, WatchEntry,
};
use std::collections::BTreeMap;

/// A sample history as far as it was committed.
#[derive(Clone, Default)]
pub struct Sampled {
    world: World,
    commits: u64,
}

impl std::fmt::Debug for Sampled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampled").field("commits", &self.commits).field("events", &self.world.events.len()).finish()
    }
}

impl Sampled {
    /// Goes on by so many commits, with a consumer that takes some of the events.
    ///
    /// # Errors
    /// If the store does not take one.
    pub async fn go_on(&mut self, store: &dyn Store, commits: u64) -> Verdict {
        let ledger = spec("ledger", None);
        store.register(&ledger).await.map_err(Broken::tried("registering a consumer"))?;
        for _ in 0..commits {
            self.commits += 1;
            round(store, &ledger.name, &mut self.world, self.commits, |_| Ok(())).await?;
        }
        Ok(())
    }
}

/// Every answer of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Everything {
    chains: Vec<(ChainId, Option<ChainState>)>,
    watched: Vec<Vec<WatchEntry>>,
    settled: Vec<Vec<SettledDeposit>>,
    archived: Vec<BTreeMap<DepositKey, Archived>>,
    events: Vec<(EventId, Option<EventRecord>)>,
    deposits: Vec<Vec<DepositRecord>>,
    consumers: Vec<ConsumerStatus>,
    deliveries: Vec<DeliveryRecord>,
    attempts: Vec<Vec<Attempt>>,
}

impl Everything {
    /// Asks for everything that is known of a sample history.
    ///
    /// # Errors
    /// The first answer that is one.
    pub async fn of(store: &dyn Store, sampled: &Sampled) -> Result<Self, StoreError> {
        let (mut chains, mut watched, mut settled, mut archived) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for chain in store.chains().await? {
            chains.push((chain.clone(), store.load(&chain).await?));
            watched.push(store.watched(&chain, None, ALL).await?);
            let mut above = store.settled_above(&chain, Height(0)).await?;
            above.sort_by_key(|deposit| deposit.digest);
            settled.push(above);
        }
        for chain in sampled.world.states.keys() {
            let keys = sampled.world.archived.keys().filter(|(of, _)| of == chain).map(|(_, key)| key.clone());
            archived.push(store.settled_among(chain, &keys.collect::<Vec<_>>()).await?);
        }
        let mut events = Vec::new();
        for (_, event, _) in &sampled.world.events {
            events.push((event.id.clone(), store.event(&event.id).await?));
        }
        let deliveries = deliveries(store).await?;
        let mut attempts = Vec::new();
        for delivery in &deliveries {
            attempts.push(store.attempts(&delivery.consumer, delivery.position).await?);
        }
        let deposits = deposits(store).await?;
        Ok(Self {
            chains,
            watched,
            settled,
            archived,
            events,
            deposits,
            consumers: store.consumers().await?,
            deliveries,
            attempts,
        })
    }

    /// Which of the answers differ.
    pub fn difference(&self, other: &Self) -> String {
        let parts = [
            ("chains", self.chains == other.chains),
            ("watched addresses", self.watched == other.watched),
            ("settled deposits", self.settled == other.settled),
            ("archived keys", self.archived == other.archived),
            ("events", self.events == other.events),
            ("deposits", self.deposits == other.deposits),
            ("consumers", self.consumers == other.consumers),
            ("deliveries", self.deliveries == other.deliveries),
            ("attempts", self.attempts == other.attempts),
        ];
        parts.iter().filter(|(_, same)| !same).map(|(part, _)| *part).collect::<Vec<_>>().join(", ")
    }
}

async fn deliveries(store: &dyn Store) -> Result<Vec<DeliveryRecord>, StoreError> {
    let mut all: Vec<DeliveryRecord> = Vec::new();
    loop {
        let after = all.last().map(|last| (last.consumer.clone(), last.position));
        let page = store.list(&DeliveryFilter::default(), after, ALL).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// All deposits, and again those of each state: each comes through an index of its own.
async fn deposits(store: &dyn Store) -> Result<Vec<Vec<DepositRecord>>, StoreError> {
    let mut lists = Vec::new();
    for state in [None].into_iter().chain(DepositState::ALL.map(Some)) {
        let filter = DepositFilter { state, ..DepositFilter::default() };
        let mut all: Vec<DepositRecord> = Vec::new();
        loop {
            let page = store.deposits(&filter, all.last(), ALL).await?;
            if page.is_empty() {
                break;
            }
            all.extend(page);
        }
        lists.push(all);
    }
    Ok(lists)
}
