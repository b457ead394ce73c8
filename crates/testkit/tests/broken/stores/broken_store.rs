//! A wrapper around the store in memory that makes one mistake.

use super::harness::Mistake;
use async_trait::async_trait;
use confirmd_core::*;
use confirmd_testkit::{MemoryDisk, MemoryStore};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(crate) struct BrokenStore {
    inner: MemoryStore,
    disk: MemoryDisk,
    before: Arc<Mutex<MemoryDisk>>,
    mistake: Mistake,
    /// Of a commit that failed, or that is half written.
    early: Mutex<Vec<(Event, Arc<[u8]>)>>,
    /// Every key ever archived.
    archived: Mutex<Vec<DepositKey>>,
    /// Handles opened anew know nothing of these.
    halts: Mutex<Vec<ChainId>>,
    /// Retention was here.
    pruned: Mutex<bool>,
    /// Consumers registered since the start.
    registered: Mutex<Vec<ConsumerName>>,
}

impl BrokenStore {
    pub(crate) fn new(inner: MemoryStore, disk: MemoryDisk, before: Arc<Mutex<MemoryDisk>>, mistake: Mistake) -> Self {
        Self {
            inner,
            disk,
            before,
            mistake,
            early: Mutex::default(),
            archived: Mutex::default(),
            halts: Mutex::default(),
            pruned: Mutex::default(),
            registered: Mutex::default(),
        }
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }

    /// The deliveries of every other consumer too.
    async fn everybody(&self) -> Result<Vec<ConsumerName>, StoreError> {
        Ok(self.inner.consumers().await?.into_iter().map(|status| status.name).collect())
    }
}

#[async_trait]
impl StateStore for BrokenStore {
    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }

    fn identity(&self) -> StoreId {
        self.inner.identity()
    }

    async fn chains(&self) -> Result<Vec<ChainId>, StoreError> {
        self.inner.chains().await
    }

    async fn load(&self, chain: &ChainId) -> Result<Option<ChainState>, StoreError> {
        let mut state = self.inner.load(chain).await?;
        if let Some(state) = &mut state {
            if self.is(Mistake::ForgetsWatchedAddresses) {
                state.watch = WatchSet::default();
            }
            if self.is(Mistake::ForgetsHaltsInANewStart) && !self.halts.lock().unwrap().contains(chain) {
                state.halt = None;
            }
        }
        Ok(state)
    }

    async fn settled_among(&self, chain: &ChainId, keys: &[DepositKey]) -> Result<BTreeMap<DepositKey, Archived>, StoreError> {
        let mut found = self.inner.settled_among(chain, keys).await?;
        if self.is(Mistake::PrunesSequences) {
            // Gone with the event.
            let settled = self.inner.settled_above(chain, Height(0)).await?;
            let pruned = |key: &DepositKey| settled.iter().any(|s| s.digest == KeyDigest::of(chain, key) && s.event.is_none());
            found.retain(|key, _| !pruned(key));
        }
        if self.is(Mistake::MixesChains) {
            for other in self.inner.chains().await? {
                found.extend(self.inner.settled_among(&other, keys).await?);
            }
        }
        if self.is(Mistake::ScansWhatIsSettled) {
            let archived = self.archived.lock().unwrap();
            // Text is compared for each, as a database without an index would.
            let there = |key: &DepositKey| archived.iter().filter(|other| other.to_string() == key.to_string()).count();
            found.retain(|key, _| there(key) > 0);
        }
        Ok(found)
    }

    async fn settled_above(&self, chain: &ChainId, height: Height) -> Result<Vec<SettledDeposit>, StoreError> {
        self.inner.settled_above(chain, height).await
    }

    async fn watched(&self, chain: &ChainId, after: Option<&[u8]>, limit: usize) -> Result<Vec<WatchEntry>, StoreError> {
        self.inner.watched(chain, after, limit).await
    }

    async fn rescans(&self, chain: &ChainId) -> Result<Vec<Rescan>, StoreError> {
        self.inner.rescans(chain).await
    }

    async fn commit(&self, mut changes: ChangeSet) -> Result<CommitReceipt, StoreError> {
        if self.is(Mistake::ForgetsSmallPayments) {
            changes.changes.retain(|change| !matches!(change, Change::SmallSeen(_)));
        }
        *self.before.lock().unwrap() = self.disk.copy();
        for change in &changes.changes {
            match change {
                Change::Archived(key, _) => self.archived.lock().unwrap().push(key.clone()),
                Change::Halted(_) => self.halts.lock().unwrap().push(changes.chain.clone()),
                _ => {}
            }
        }
        if self.is(Mistake::WritesInTwoParts) && !changes.events.is_empty() {
            // The state first; its events once somebody looks away.
            let half = ChangeSet { events: Vec::new(), ..changes.clone() };
            let receipt = self.inner.commit(half).await?;
            tokio::task::yield_now().await;
            let rest = ChangeSet { base: receipt.version, changes: Vec::new(), ..changes };
            return self.inner.commit(rest).await.map(|second| CommitReceipt { version: receipt.version, ..second });
        }
        let answer = self.inner.commit(changes.clone()).await;
        match answer {
            Err(StoreError::Conflict { found, .. }) if self.is(Mistake::WritesAConflictsEvents) => {
                let events = ChangeSet { base: found, changes: Vec::new(), ..changes };
                self.inner.commit(events).await?;
                answer
            }
            Err(StoreError::Conflict { found, .. }) if self.is(Mistake::IgnoresTheVersion) => {
                self.inner.commit(ChangeSet { base: found, ..changes }).await
            }
            Err(StoreError::Unknown { .. }) if self.is(Mistake::TakesAFailureForAConflict) => {
                Err(StoreError::Conflict { chain: changes.chain, expected: changes.base, found: changes.base })
            }
            Err(StoreError::Unknown { .. }) if self.is(Mistake::HandsOutBeforeTheSync) => {
                *self.early.lock().unwrap() = changes.events;
                answer
            }
            answer => answer,
        }
    }
}

#[async_trait]
impl Outbox for BrokenStore {
    async fn register(&self, spec: &ConsumerSpec) -> Result<(), StoreError> {
        let mut spec = spec.clone();
        if self.is(Mistake::GuessesAStart) {
            spec.start = spec.start.or(Some(ConsumerStart::Now));
        }
        if self.is(Mistake::StartsEverybodyNow) {
            spec.start = spec.start.map(|_| ConsumerStart::Now);
        }
        self.inner.register(&spec).await?;
        if self.is(Mistake::DropsConsumersNotConfigured) && self.registered.lock().unwrap().is_empty() {
            for name in self.everybody().await?.into_iter().filter(|name| *name != spec.name) {
                self.inner.purge(&name).await?;
            }
        }
        self.registered.lock().unwrap().push(spec.name);
        Ok(())
    }

    async fn consumers(&self) -> Result<Vec<ConsumerStatus>, StoreError> {
        self.inner.consumers().await
    }

    async fn due(&self, consumer: &ConsumerName, now: Timestamp, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        let early = std::mem::take(&mut *self.early.lock().unwrap());
        if !early.is_empty() {
            let delivery = |(event, body): (Event, Arc<[u8]>)| Delivery::new(Position(99), event, body, 1);
            return Ok(early.into_iter().map(delivery).collect());
        }
        let mut due = self.inner.due(consumer, now, limit).await?;
        match self.mistake {
            Mistake::HandsOutInReverse => due.reverse(),
            Mistake::HandsOutAKeyTwice if due.len() < limit => due.extend(due.clone()),
            Mistake::ChangesTheBody => due.iter_mut().for_each(|delivery| delivery.body = b"{}".to_vec().into()),
            Mistake::LosesWhatWasOut => {
                let positions: Vec<_> = due.iter().map(|delivery| delivery.position).collect();
                self.inner.acknowledge(consumer, &positions).await?;
            }
            _ => {}
        }
        Ok(due)
    }

    async fn next_due(&self, consumer: &ConsumerName) -> Result<Option<Timestamp>, StoreError> {
        self.inner.next_due(consumer).await
    }

    async fn acknowledge(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        if self.is(Mistake::AcknowledgesForEverybody) {
            for name in self.everybody().await? {
                self.inner.acknowledge(&name, positions).await?;
            }
        }
        let open = self.inner.list(&DeliveryFilter::default(), None, usize::MAX).await?;
        let known = open.iter().any(|record| record.consumer == *consumer && positions.contains(&record.position));
        let next = open.iter().find(|record| record.consumer == *consumer);
        match next {
            // One that was acknowledged before stands for whatever comes next.
            Some(next) if self.is(Mistake::AcknowledgesTheNextToo) && !known => {
                self.inner.acknowledge(consumer, &[next.position]).await
            }
            _ => self.inner.acknowledge(consumer, positions).await,
        }
    }

    async fn retry_later(
        &self,
        consumer: &ConsumerName,
        position: Position,
        attempt: Attempt,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.inner.retry_later(consumer, position, attempt, at).await
    }

    async fn bury(&self, consumer: &ConsumerName, position: Position, attempt: Attempt) -> Result<(), StoreError> {
        if self.is(Mistake::CountsABuryTwice) {
            self.inner.retry_later(consumer, position, attempt.clone(), Timestamp(0)).await?;
            self.inner.requeue(consumer, &[position]).await?;
            self.inner.bury(consumer, position, attempt.clone()).await?;
        }
        self.inner.bury(consumer, position, attempt).await
    }

    async fn release(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        self.inner.release(consumer, positions).await
    }

    async fn requeue(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<u64, StoreError> {
        let dead = self.inner.consumers().await?.iter().any(|status| status.name == *consumer && status.dead > 1);
        let count = self.inner.requeue(consumer, positions).await?;
        if self.is(Mistake::CountsARequeueTwice) && !dead {
            for position in positions {
                let (number, at, outcome) = (1, Timestamp(0), AttemptOutcome::Transient);
                let attempt = Attempt { number, at, outcome, status: None, error: "requeued".to_owned(), excerpt: None };
                self.inner.retry_later(consumer, *position, attempt, Timestamp(0)).await?;
            }
        }
        Ok(count)
    }

    async fn replay(&self, consumer: &ConsumerName, positions: &[Position], pace: Option<Pace>) -> Result<u64, StoreError> {
        let pace = pace.filter(|_| !self.is(Mistake::IgnoresThePace));
        self.inner.replay(consumer, positions, pace).await
    }

    async fn skip(&self, consumer: &ConsumerName, position: Position, now: Timestamp) -> Result<(), StoreError> {
        self.inner.skip(consumer, position, now).await
    }

    async fn list(
        &self,
        filter: &DeliveryFilter,
        after: Option<(ConsumerName, Position)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        let mut listed = self.inner.list(filter, after, limit).await?;
        listed.retain(|record| !(self.is(Mistake::ListsNoDeadLetters) && record.state == DeliveryState::Dead));
        Ok(listed)
    }

    async fn delivered(
        &self,
        consumer: &ConsumerName,
        below: Option<Position>,
        limit: usize,
    ) -> Result<DeliveredPage, StoreError> {
        let mut page = self.inner.delivered(consumer, below, limit).await?;
        if self.is(Mistake::EndsAtTheFirstPage) {
            page.below = None;
        }
        Ok(page)
    }

    async fn attempts(&self, consumer: &ConsumerName, position: Position) -> Result<Vec<Attempt>, StoreError> {
        self.inner.attempts(consumer, position).await
    }

    async fn pause(&self, consumer: &ConsumerName, why: Option<String>) -> Result<(), StoreError> {
        match self.inner.pause(consumer, why).await {
            Err(StoreError::Unknown { .. }) if self.is(Mistake::GoesOnAfterAFailure) => Ok(()),
            answer => answer,
        }
    }

    async fn rename(&self, from: &ConsumerName, to: &ConsumerName) -> Result<(), StoreError> {
        self.inner.rename(from, to).await
    }

    async fn purge(&self, consumer: &ConsumerName) -> Result<u64, StoreError> {
        self.inner.purge(consumer).await
    }
}

#[async_trait]
impl History for BrokenStore {
    async fn deposits(
        &self,
        filter: &DepositFilter,
        after: Option<&DepositRecord>,
        limit: usize,
    ) -> Result<Vec<DepositRecord>, StoreError> {
        self.inner.deposits(filter, after, limit).await
    }

    async fn event(&self, id: &EventId) -> Result<Option<EventRecord>, StoreError> {
        let pruned = *self.pruned.lock().unwrap();
        let record = self.inner.event(id).await?;
        Ok(record.filter(|_| !(pruned && self.is(Mistake::PrunesUndelivered))))
    }

    async fn events(&self, after: Position, limit: usize) -> Result<Vec<EventRecord>, StoreError> {
        let mut events = self.inner.events(after, limit).await?;
        if self.is(Mistake::ReadsTheFirstEventTwice) && after == Position(0) {
            events = events.first().into_iter().chain(&events).cloned().collect();
        }
        Ok(events)
    }

    async fn life(&self, chain: &ChainId, key: &DepositKey) -> Result<Vec<LifeStep>, StoreError> {
        self.inner.life(chain, key).await
    }

    async fn reorgs(&self, chain: &ChainId, limit: usize) -> Result<Vec<ReorgRecord>, StoreError> {
        let reorgs = self.inner.reorgs(chain, limit).await?;
        Ok(if self.is(Mistake::TellsNoReorgs) { Vec::new() } else { reorgs })
    }

    async fn cursors(&self) -> Result<Vec<PullCursor>, StoreError> {
        let mut cursors = self.inner.cursors().await?;
        if self.is(Mistake::ExpiresNoCursor) {
            cursors.iter_mut().for_each(|cursor| cursor.expired = false);
        }
        Ok(cursors)
    }

    async fn put_cursor(&self, cursor: &PullCursor) -> Result<(), StoreError> {
        self.inner.put_cursor(cursor).await
    }

    async fn remove_cursor(&self, name: &CursorName) -> Result<bool, StoreError> {
        self.inner.remove_cursor(name).await
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        let before = if self.is(Mistake::PrunesTheYoung) { Timestamp(u64::MAX) } else { before };
        *self.pruned.lock().unwrap() = true;
        if self.is(Mistake::HoldsNothingForCursors) {
            for cursor in self.inner.cursors().await? {
                self.inner.remove_cursor(&cursor.name).await?;
            }
        }
        self.inner.prune(before).await
    }
}
