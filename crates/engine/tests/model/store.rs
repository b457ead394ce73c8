//! A store between the engine and the real one: every write may be the last thing the process does.

use super::oracle::{Oracle, Small};
use super::step::Cut;
use async_trait::async_trait;
use confirmd_core::{
    Archived, Attempt, ChainId, ChainState, ChangeSet, CommitReceipt, ConsumerName, ConsumerSpec, ConsumerStatus, DeliveredPage,
    Delivery, DeliveryFilter, DeliveryRecord, DepositFilter, DepositKey, DepositState, Epoch, Height, History, Outbox, Pace,
    Position, Rescan, SettledDeposit, StateStore, StoreError, StoreId, Timestamp, WatchEntry,
};
use confirmd_store_sled::{OpenOptions, SledStore};
use confirmd_testkit::{MemoryDisk, MemoryStore};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};

/// All sides of a store.
pub(crate) trait Both: StateStore + Outbox + History {}
impl<T: StateStore + Outbox + History> Both for T {}

/// What is written down of a chain's payments below their minimum.
pub(crate) fn small(store: &dyn Both, chain: &ChainId) -> Small {
    let filter =
        DepositFilter { chain: Some(chain.clone()), state: Some(DepositState::BelowMinimum), ..DepositFilter::default() };
    let records = at_once(store.deposits(&filter, None, 10_000)).expect("the store answers");
    records.into_iter().map(|record| (record.key, (record.block, record.amount))).collect()
}

/// What a store stands on.
#[derive(Debug)]
pub(crate) enum Disk {
    Memory(MemoryDisk),
    Sled { directory: tempfile::TempDir, open: Option<Arc<SledStore>>, clock: Arc<dyn confirmd_core::Clock> },
}

impl Disk {
    pub(crate) fn open(&mut self) -> Arc<dyn Both> {
        match self {
            Self::Memory(disk) => Arc::new(MemoryStore::open(disk, true).expect("nobody else has the disk")),
            Self::Sled { directory, open, clock } => {
                let options = OpenOptions { init: true, clock: clock.clone(), ..OpenOptions::default() };
                let store = Arc::new(at_once(SledStore::open(directory.path().join("state"), options)).expect("it opens"));
                *open = Some(store.clone());
                store
            }
        }
    }

    /// After the last user of the store is gone.
    pub(crate) fn close(&mut self) {
        if let Self::Sled { open, .. } = self
            && let Some(store) = open.take()
        {
            at_once(store.close()).expect("it closes");
        }
    }

    /// Everything is gone.
    pub(crate) fn lose(&mut self, epoch: Epoch) {
        match self {
            Self::Memory(disk) => *disk = MemoryDisk::of_epoch(epoch),
            Self::Sled { directory, .. } => *directory = tempfile::TempDir::new().expect("a directory"),
        }
    }
}

/// The writes until the process stops.
#[derive(Debug, Default)]
pub(crate) struct Crash(Mutex<Option<(u8, Cut)>>);

impl Crash {
    pub(crate) fn plan(&self, plan: Option<(u8, Cut)>) {
        *self.0.lock().unwrap() = plan;
    }

    fn count(&self) -> Option<Cut> {
        let mut plan = self.0.lock().unwrap();
        let (left, cut) = plan.take()?;
        if left <= 1 {
            return Some(cut);
        }
        *plan = Some((left - 1, cut));
        None
    }
}

/// See the module. One per process.
#[derive(Debug)]
pub(crate) struct Gate {
    inner: Arc<dyn Both>,
    oracle: Arc<Mutex<Oracle>>,
    crash: Arc<Crash>,
    dead: AtomicBool,
}

impl Gate {
    pub(crate) fn new(inner: Arc<dyn Both>, oracle: Arc<Mutex<Oracle>>, crash: Arc<Crash>) -> Self {
        Self { inner, oracle, crash, dead: AtomicBool::new(false) }
    }

    /// See [`small`].
    pub(crate) fn small(&self, chain: &ChainId) -> Small {
        small(self.inner.as_ref(), chain)
    }

    /// The process has to be started again.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    async fn write<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
        written: impl FnOnce(&T),
    ) -> Result<T, StoreError> {
        self.alive().await;
        let cut = self.crash.count();
        self.dead.fetch_or(cut.is_some(), Ordering::SeqCst);
        if let Some(Cut::BeforeAndSay | Cut::Before) = cut {
            return self.stopped(cut == Some(Cut::Before)).await;
        }
        let answer = at_once(call);
        if let Ok(value) = &answer {
            written(value);
        }
        match cut {
            Some(cut) => self.stopped(cut == Cut::After).await,
            None => answer,
        }
    }

    async fn stopped<T>(&self, silently: bool) -> Result<T, StoreError> {
        if silently {
            std::future::pending::<()>().await;
        }
        Err(StoreError::Unknown { context: "scripted failure of a write".to_owned(), source: None })
    }

    async fn read<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.alive().await;
        at_once(call)
    }

    async fn alive(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }
}

/// No virtual time passes while a real disk is written to.
pub(crate) fn at_once<T>(call: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut call = pin!(call);
    loop {
        match call.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[async_trait]
impl StateStore for Gate {
    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }

    fn identity(&self) -> StoreId {
        self.inner.identity()
    }

    async fn chains(&self) -> Result<Vec<ChainId>, StoreError> {
        self.read(self.inner.chains()).await
    }

    async fn load(&self, chain: &ChainId) -> Result<Option<ChainState>, StoreError> {
        self.read(self.inner.load(chain)).await
    }

    async fn settled_among(&self, chain: &ChainId, keys: &[DepositKey]) -> Result<BTreeMap<DepositKey, Archived>, StoreError> {
        self.read(self.inner.settled_among(chain, keys)).await
    }

    async fn settled_above(&self, chain: &ChainId, height: Height) -> Result<Vec<SettledDeposit>, StoreError> {
        self.read(self.inner.settled_above(chain, height)).await
    }

    async fn watched(&self, chain: &ChainId, after: Option<&[u8]>, limit: usize) -> Result<Vec<WatchEntry>, StoreError> {
        self.read(self.inner.watched(chain, after, limit)).await
    }

    async fn rescans(&self, chain: &ChainId) -> Result<Vec<Rescan>, StoreError> {
        self.read(self.inner.rescans(chain)).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<CommitReceipt, StoreError> {
        let set = changes.clone();
        let written = |receipt: &CommitReceipt| self.oracle.lock().unwrap().committed(&set, receipt);
        let answer = self.write(self.inner.commit(changes), written).await;
        if let Err(error @ (StoreError::Conflict { .. } | StoreError::Invalid(_))) = &answer {
            self.oracle.lock().unwrap().violated(format!("a commit was refused: {error}"));
        }
        answer
    }
}

#[async_trait]
impl Outbox for Gate {
    async fn register(&self, spec: &ConsumerSpec) -> Result<(), StoreError> {
        self.write(self.inner.register(spec), |()| {}).await
    }

    async fn consumers(&self) -> Result<Vec<ConsumerStatus>, StoreError> {
        self.read(self.inner.consumers()).await
    }

    async fn due(&self, consumer: &ConsumerName, now: Timestamp, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        self.read(self.inner.due(consumer, now, limit)).await
    }

    async fn next_due(&self, consumer: &ConsumerName) -> Result<Option<Timestamp>, StoreError> {
        self.read(self.inner.next_due(consumer)).await
    }

    async fn acknowledge(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        let written = |(): &()| self.oracle.lock().unwrap().acknowledged(consumer, positions);
        self.write(self.inner.acknowledge(consumer, positions), written).await
    }

    async fn retry_later(
        &self,
        consumer: &ConsumerName,
        position: Position,
        attempt: Attempt,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(self.inner.retry_later(consumer, position, attempt, at), |()| {}).await
    }

    async fn bury(&self, consumer: &ConsumerName, position: Position, attempt: Attempt) -> Result<(), StoreError> {
        self.write(self.inner.bury(consumer, position, attempt), |()| {}).await
    }

    async fn release(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        self.read(self.inner.release(consumer, positions)).await
    }

    async fn requeue(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<u64, StoreError> {
        self.write(self.inner.requeue(consumer, positions), |_| {}).await
    }

    async fn replay(&self, consumer: &ConsumerName, positions: &[Position], pace: Option<Pace>) -> Result<u64, StoreError> {
        self.write(self.inner.replay(consumer, positions, pace), |_| {}).await
    }

    async fn skip(&self, consumer: &ConsumerName, position: Position, now: Timestamp) -> Result<(), StoreError> {
        let written = |(): &()| self.oracle.lock().unwrap().skipped(consumer, position);
        self.write(self.inner.skip(consumer, position, now), written).await
    }

    async fn list(
        &self,
        filter: &DeliveryFilter,
        after: Option<(ConsumerName, Position)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        self.read(self.inner.list(filter, after, limit)).await
    }

    async fn delivered(
        &self,
        consumer: &ConsumerName,
        below: Option<Position>,
        limit: usize,
    ) -> Result<DeliveredPage, StoreError> {
        self.read(self.inner.delivered(consumer, below, limit)).await
    }

    async fn attempts(&self, consumer: &ConsumerName, position: Position) -> Result<Vec<Attempt>, StoreError> {
        self.read(self.inner.attempts(consumer, position)).await
    }

    async fn pause(&self, consumer: &ConsumerName, why: Option<String>) -> Result<(), StoreError> {
        self.write(self.inner.pause(consumer, why), |()| {}).await
    }

    async fn rename(&self, from: &ConsumerName, to: &ConsumerName) -> Result<(), StoreError> {
        self.write(self.inner.rename(from, to), |()| {}).await
    }

    async fn purge(&self, consumer: &ConsumerName) -> Result<u64, StoreError> {
        self.write(self.inner.purge(consumer), |_| {}).await
    }
}
