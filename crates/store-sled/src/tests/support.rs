//! A store in a directory of its own, and the small world it writes down.

use crate::{OpenOptions, SledStore};
use confirmd_core::*;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct HandClock(pub(crate) AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) fn options(init: bool) -> OpenOptions {
    let clock = Arc::new(HandClock(AtomicU64::new(1_790_000_000_000)));
    // Small logs: segments are made and merged all the time.
    OpenOptions { init, restored: false, cache_bytes: 8 << 20, watch_log_max: 3, clock, ..OpenOptions::default() }
}

pub(crate) async fn open(path: &Path) -> Result<SledStore, StoreError> {
    SledStore::open(path, options(true)).await
}

pub(crate) fn chain() -> ChainId {
    ChainId::new("eip155:1").unwrap()
}

pub(crate) fn block(height: u64) -> BlockRef {
    BlockRef { height: Height(height), hash: BlockHash::new(format!("0xh{height}")).unwrap() }
}

pub(crate) fn asset() -> Asset {
    Asset { id: AssetId::new("eip155:1/slip44:60").unwrap(), symbol: "ETH".into(), decimals: 18 }
}

pub(crate) fn listed() -> ListedAsset {
    let requirement = Requirement::confirmations(NonZeroU32::new(3).unwrap());
    ListedAsset { asset: asset(), requirement, minimum: None, delisted: false }
}

pub(crate) fn key(n: u64) -> DepositKey {
    DepositKey { tx_id: TxId::new(format!("0xt{n}")).unwrap(), output_index: 0 }
}

pub(crate) fn address(n: u64) -> Address {
    Address::new(n.to_be_bytes(), format!("0xa{n}"))
}

/// One that was half read.
pub(crate) fn rescan(id: u64, from: u64) -> Rescan {
    let range = HeightRange { from: Height(from), to: Height(from + 9) };
    let mut rescan = Rescan::new(RescanId(id), RescanScope::Asset(asset().id), range, Timestamp(id));
    rescan.read(&HeightRange { from: Height(from + 2), to: Height(from + 3) });
    rescan.read_to = Some(block(from + 3));
    rescan.state = RescanState::Failed("pruned".into());
    rescan
}

pub(crate) fn watch(n: u64) -> WatchEntry {
    WatchEntry {
        address: address(n),
        reference: Some(format!("customer-{n}").into()),
        from: Height(1),
        origin: WatchOrigin::Config,
        state: WatchState::Watching,
        history: n.is_multiple_of(2).then_some(AskedHistory { from: Height(n), rescan: RescanId(n) }),
    }
}

/// Deposit `n` pays address `n % 10`.
pub(crate) fn transfer(n: u64, height: u64) -> Transfer {
    Transfer {
        key: key(n),
        payment: Payment { address: address(n % 10), asset: asset().id, amount: Amount::from(n + 1), memo: None },
        block: block(height),
        block_time: None,
        position: 0,
        from: None,
        maturity: None,
    }
}

pub(crate) fn pending(n: u64, height: u64, last: u64) -> Change {
    Change::PendingPut(Pending { transfer: transfer(n, height), last_sequence: Sequence(last) })
}

pub(crate) fn reported(n: u64, height: u64, sequence: u64) -> Change {
    Change::ReportedPut(Reported { transfer: transfer(n, height), sequence: Sequence(sequence) })
}

pub(crate) fn orphaned(n: u64, height: u64, last: u64) -> Change {
    Change::OrphanedPut(Orphaned { transfer: transfer(n, height), last_sequence: Sequence(last) })
}

pub(crate) fn archived(n: u64, height: u64, sequence: u64) -> Change {
    Change::Archived(key(n), Archived { height: Height(height), sequence: Sequence(sequence) })
}

pub(crate) fn event_of(chain: &ChainId, n: u64, height: u64, sequence: u64) -> Event {
    Event {
        id: EventId::derive(chain, &key(n), Epoch(7), Sequence(sequence)),
        chain: chain.clone(),
        chain_name: ChainName::new("ethereum").unwrap(),
        epoch: Epoch(7),
        sequence: Sequence(sequence),
        transfer: transfer(n, height),
        asset: asset(),
        reference: Some(format!("customer-{}", n % 10).into()),
        confirmations: 3,
        decided_at: Timestamp(height * 1000),
        notice: None,
    }
}

/// A store, and the state its commits should add up to.
pub(crate) struct World {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) store: SledStore,
    pub(crate) state: ChainState,
    pub(crate) clock: Arc<HandClock>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(HandClock(AtomicU64::new(1_000)));
        let store = SledStore::open(directory.path(), Self::options(&clock)).await.unwrap();
        let mut world = Self { directory, store, state: ChainState::default(), clock };
        let mut changes = vec![Change::Named(ChainName::new("ethereum").unwrap()), Change::AssetPut(listed())];
        changes.extend((0..10).map(|n| Change::WatchPut(watch(n))));
        world.commit(changes, vec![]).await;
        world
    }

    fn options(clock: &Arc<HandClock>) -> OpenOptions {
        let clock: Arc<HandClock> = Arc::clone(clock);
        OpenOptions { init: true, restored: false, cache_bytes: 8 << 20, clock, ..OpenOptions::default() }
    }

    pub(crate) async fn reopen(mut self) -> Self {
        self.store.close().await.unwrap();
        self.store = SledStore::open(self.directory.path(), Self::options(&self.clock)).await.unwrap();
        self
    }

    pub(crate) fn at(&self, now: u64) {
        self.clock.0.store(now, Ordering::SeqCst);
    }

    pub(crate) fn set(&self, changes: Vec<Change>, events: Vec<Event>) -> ChangeSet {
        let mut set = ChangeSet::new(chain(), self.state.version);
        set.changes = changes;
        events.into_iter().for_each(|event| set.push_event(event));
        set
    }

    pub(crate) async fn commit(&mut self, changes: Vec<Change>, events: Vec<Event>) -> CommitReceipt {
        let set = self.set(changes, events);
        let receipt = self.store.commit(set.clone()).await.unwrap();
        self.state.apply(&set);
        receipt
    }

    /// Deposit `n`, found at `height`.
    pub(crate) async fn found(&mut self, n: u64, height: u64) {
        self.commit(vec![pending(n, height, 0)], vec![]).await;
    }

    /// Deposit `n`, pending before, becomes confirmed: one event.
    pub(crate) async fn confirmed(&mut self, n: u64, height: u64, sequence: u64) -> Position {
        let changes = vec![Change::PendingDropped(key(n)), reported(n, height, sequence)];
        self.commit(changes, vec![event_of(&chain(), n, height, sequence)]).await.first_event.unwrap()
    }

    /// Deposit `n`, confirmed before, is taken back: one event.
    pub(crate) async fn reverted(&mut self, n: u64, height: u64, sequence: u64) -> Position {
        let changes = vec![Change::ReportedDropped(key(n)), orphaned(n, height, sequence)];
        self.commit(changes, vec![event_of(&chain(), n, height, sequence)]).await.first_event.unwrap()
    }

    /// Deposit `n`, confirmed before, is final.
    pub(crate) async fn settled(&mut self, n: u64, height: u64, sequence: u64) {
        self.commit(vec![Change::ReportedDropped(key(n)), archived(n, height, sequence)], vec![]).await;
    }

    /// `n` events of as many keys.
    pub(crate) async fn events(&mut self, keys: std::ops::Range<u64>) {
        for n in keys {
            self.found(n, n).await;
            self.confirmed(n, n, 1).await;
        }
    }

    pub(crate) async fn register(&self, name: &str, start: Option<ConsumerStart>) -> ConsumerName {
        let name = ConsumerName::new(name).unwrap();
        let spec = ConsumerSpec { name: name.clone(), filter: ConsumerFilter::default(), start };
        self.store.register(&spec).await.unwrap();
        name
    }

    pub(crate) async fn due(&self, name: &ConsumerName, now: u64) -> Vec<u64> {
        self.store.due(name, Timestamp(now), 100).await.unwrap().iter().map(|delivery| delivery.position.0).collect()
    }
}

pub(crate) fn attempt(number: u32, at: u64) -> Attempt {
    let outcome = AttemptOutcome::Transient;
    Attempt {
        number,
        at: Timestamp(at),
        outcome,
        status: Some(503),
        error: format!("attempt {number} was refused"),
        excerpt: Some(format!("answer {number}")),
    }
}

/// The text of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result.unwrap_err() {
        StoreError::Refused { context, .. } => context,
        other => panic!("not refused but {other:?}"),
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
