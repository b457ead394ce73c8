//! A chain's state over the real store, with as many settled keys as wanted, driven tick by tick.

use crate::process::scratch;
use crate::usage::{Usage, Used};
use anyhow::{Context, Result, ensure};
use confirmd_core::{
    Address, Amount, Archived, Asset, AssetId, BlockHash, BlockRef, ChainId, ChainName, ChainState, Change, ChangeSet,
    ConsumerFilter, ConsumerName, ConsumerSpec, DepositKey, Height, ListedAsset, Outbox, Payment, Requirement, Sequence,
    StateStore, Timestamp, Transfer, TxId, WatchEntry, WatchOrigin, WatchState,
};
use confirmd_engine::{DueIndex, Observation, Rules, SeenBlock, fold};
use confirmd_store_sled::{OpenOptions, SledStore, Step, Steps};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// Payments in the block of one tick; as many are confirmed and as many settled.
pub const PAYMENTS: usize = 3;
/// Keys that were settled by ticks before anything is measured.
const SETTLED_BY_TICKS: u64 = 990;
/// Keys settled in one commit while loading.
const LOADED_AT_ONCE: u64 = 20_000;
/// Payments, blocks or addresses in one commit while loading.
const AT_ONCE: u32 = 5_000;
const LOAD_PATH: &str = "BENCHES_LOAD_PATH";
const LOAD_HELD: &str = "BENCHES_LOAD_HELD";
const CONFIRMATIONS: NonZeroU32 = NonZeroU32::new(3).expect("invariant: 3 is not zero");
const REORG_DEPTH: NonZeroU64 = NonZeroU64::new(6).expect("invariant: 6 is not zero");
const ADDRESSES: u32 = 100;
const START: Height = Height(800_000);
const GENESIS_TIME: u64 = 1_767_225_600;

/// See the module.
#[derive(Debug)]
pub struct Ledger {
    store: SledStore,
    state: ChainState,
    due: DueIndex,
    rules: Rules,
    random: Rng,
    addresses: Vec<Address>,
    coin: AssetId,
    settled: u64,
    syncs: Arc<AtomicU64>,
    // Dropped after the store.
    _folder: Option<TempDir>,
}

/// What a store holds before anything is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Settled keys, at least 990.
    pub settled: u64,
    /// Watched addresses, at least 100.
    pub watched: u32,
    /// Deposits that were seen and stay locked by the chain.
    pub pending: u32,
    /// Events that a consumer has not taken. As many more keys are settled.
    pub backlog: u32,
    /// Empty blocks that went by, one commit each.
    pub length: u32,
}

impl Default for Held {
    fn default() -> Self {
        Self { settled: 1_000, watched: ADDRESSES, pending: 0, backlog: 0, length: 0 }
    }
}

/// What one tick decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decided {
    confirmed: usize,
    settled: usize,
}

/// To be called first thing in `main`: whether this process was started by [`Ledger::holding`] to load a store, which
/// is then done.
pub fn loads_for_another() -> Result<bool> {
    let (Some(path), Some(held)) = (std::env::var_os(LOAD_PATH), std::env::var_os(LOAD_HELD)) else { return Ok(false) };
    let held: Held = serde_json::from_str(held.to_str().context("not readable")?)?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let mut ledger = Ledger::open(Path::new(&path), None, true, 0).await?;
        ledger.begin().await?;
        ledger.load(held.settled).await?;
        ledger.watch(held.watched).await?;
        ledger.fall_behind(held.backlog).await?;
        ledger.pend(held.pending).await?;
        for _ in 0..held.length {
            let block = ledger.next_block()?;
            ledger.decide_on(block, Vec::new()).await?;
        }
        ledger.store.close().await?;
        Ok(true)
    })
}

impl Ledger {
    /// A store on disk that holds this many settled keys, at least 990, and a state in which every tick takes [`PAYMENTS`]
    /// deposits in, confirms as many and settles as many. The last 990 were settled by ticks, so that stores of any size
    /// hold equally many events and deposit records; the others are what remains for ever of older deposits. Those were
    /// written by another process ([`loads_for_another`]), so that no memory is in pieces from it, as after a restart.
    pub async fn with_settled(settled: u64) -> Result<Self> {
        Ok(Self::holding(Held { settled, ..Held::default() }).await?.0)
    }

    /// The same for whatever is to be held, and what the start took: opening the store, loading the state.
    pub async fn holding(held: Held) -> Result<(Self, Used)> {
        let folder = scratch("state")?;
        let path = folder.path().join("state");
        let old = Held { settled: held.settled.saturating_sub(SETTLED_BY_TICKS), ..held };
        let mut command = Command::new(std::env::current_exe()?);
        let status = command.env(LOAD_PATH, &path).env(LOAD_HELD, serde_json::to_string(&old)?).status()?;
        ensure!(status.success(), "loading {held:?} failed ({status}); does its main begin with loads_for_another?");
        let usage = Usage::now()?;
        let mut ledger = Self::open(&path, Some(folder), false, held.settled).await?;
        ledger.state = ledger.store.load(&ledger.rules.chain).await?.context("the loaded store has no state")?;
        ledger.due = DueIndex::of(&ledger.state);
        let used = usage.used()?;
        ledger.settled = old.settled;
        ledger.settle_by_ticks().await?;
        Ok((ledger, used))
    }

    async fn open(path: &Path, folder: Option<TempDir>, init: bool, seed: u64) -> Result<Self> {
        let syncs = Arc::new(AtomicU64::new(0));
        let counted = syncs.clone();
        let steps = Steps::to(move |step| {
            if step == Step::Synced {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let store = SledStore::open(path, OpenOptions { init, steps, ..OpenOptions::default() }).await?;
        let chain = ChainId::new("bip122:000000000019d6689c085ae165831e93")?;
        let coin = AssetId::native(&chain, 0)?;
        let rules = Rules { chain, chain_name: ChainName::new("bitcoin")?, epoch: store.epoch(), reorg_depth: REORG_DEPTH };
        Ok(Self {
            store,
            state: ChainState::default(),
            due: DueIndex::default(),
            rules,
            random: Rng::with_seed(seed),
            addresses: (0..ADDRESSES).map(|n| Address::new(script(n), format!("bc1-{n:08}"))).collect(),
            coin,
            settled: 0,
            syncs,
            _folder: folder,
        })
    }

    /// Settled keys so far.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Syncs of the database file so far.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Steps 7 to 9 of a tick near the tip: one new block, its keys looked up among the settled ones, the decision, its
    /// durable commit.
    pub async fn tick(&mut self) -> Result<()> {
        self.decide().await.map(drop)
    }

    /// As many ticks.
    pub async fn ticks(&mut self, count: u64) -> Result<()> {
        for _ in 0..count {
            self.tick().await?;
        }
        Ok(())
    }

    async fn decide(&mut self) -> Result<Decided> {
        let block = self.next_block()?;
        let transfers = (0..).take(PAYMENTS).map(|position| self.transfer(&block, position)).collect::<Result<Vec<_>>>()?;
        self.decide_on(block, transfers).await
    }

    fn next_block(&mut self) -> Result<BlockRef> {
        let height = self.state.trail.tip().context("the trail is never empty")?.height.next();
        Ok(BlockRef { height, hash: BlockHash::new(self.hex())? })
    }

    async fn decide_on(&mut self, block: BlockRef, transfers: Vec<Transfer>) -> Result<Decided> {
        let keys: Vec<DepositKey> = transfers.iter().map(|transfer| transfer.key.clone()).collect();
        let archived = self.store.settled_among(&self.rules.chain, &keys).await?;
        let decided_at = time_of(block.height);
        let blocks = vec![SeenBlock::Linked(block)];
        let seen = Observation { blocks, transfers, archived, decided_at, ..Observation::default() };
        let set = fold(&self.state, &self.due, &seen, &self.rules).map_err(|breach| anyhow::anyhow!("{breach}"))?;
        let settled = set.changes.iter().filter(|change| matches!(change, Change::Archived(..))).count();
        let decided = Decided { confirmed: set.events.len(), settled };
        self.settled += u64::try_from(settled)?;
        self.commit(set).await?;
        Ok(decided)
    }

    /// Watches so many in all.
    async fn watch(&mut self, count: u32) -> Result<()> {
        let mut from = ADDRESSES;
        while from < count {
            let to = count.min(from + AT_ONCE);
            let mut set = ChangeSet::new(self.rules.chain.clone(), self.state.version);
            set.changes.extend((from..to).map(|n| watched(n, Address::new(script(n), format!("bc1-{n:08}")))));
            self.commit(set).await?;
            from = to;
        }
        Ok(())
    }

    /// Sees so many deposits that the chain locks for longer than anything here lasts.
    async fn pend(&mut self, count: u32) -> Result<()> {
        for from in (0..count).step_by(usize::try_from(AT_ONCE)?) {
            let block = self.next_block()?;
            let transfers = (0..AT_ONCE.min(count - from)).map(|position| {
                let transfer = self.transfer(&block, position)?;
                Ok(Transfer { maturity: NonZeroU32::new(u32::MAX), ..transfer })
            });
            let transfers = transfers.collect::<Result<Vec<_>>>()?;
            self.decide_on(block, transfers).await?;
        }
        Ok(())
    }

    /// Confirms and settles so many deposits that a consumer is never told of.
    async fn fall_behind(&mut self, count: u32) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let name = ConsumerName::new("dead")?;
        self.store.register(&ConsumerSpec { name, filter: ConsumerFilter::default(), start: None }).await?;
        for from in (0..count).step_by(usize::try_from(AT_ONCE)?) {
            let block = self.next_block()?;
            let transfers = (0..AT_ONCE.min(count - from)).map(|position| self.transfer(&block, position));
            let transfers = transfers.collect::<Result<Vec<_>>>()?;
            self.decide_on(block, transfers).await?;
        }
        for _ in 0..REORG_DEPTH.get() {
            let block = self.next_block()?;
            self.decide_on(block, Vec::new()).await?;
        }
        Ok(())
    }

    /// The chain, its watched addresses and its trail.
    async fn begin(&mut self) -> Result<()> {
        let asset = Asset { id: self.coin.clone(), symbol: "BTC".to_owned(), decimals: 8 };
        let listed =
            ListedAsset { asset, requirement: Requirement::confirmations(CONFIRMATIONS), minimum: None, delisted: false };
        let mut set = ChangeSet::new(self.rules.chain.clone(), self.state.version);
        set.changes = vec![Change::Named(self.rules.chain_name.clone()), Change::AssetPut(listed)];
        set.changes.extend((0..).zip(&self.addresses).map(|(n, address)| watched(n, address.clone())));
        let floor = START.minus(REORG_DEPTH.get());
        for height in floor.0..=START.0 {
            let hash = BlockHash::new(self.hex())?;
            set.changes.push(Change::TrailPushed(BlockRef { height: Height(height), hash }));
        }
        set.changes.push(Change::FloorRaised(floor));
        self.commit(set).await
    }

    /// Settled keys as the years leave them: the key's digest, height and sequence, nothing else.
    async fn load(&mut self, settled: u64) -> Result<()> {
        while self.settled < settled {
            let count = (settled - self.settled).min(LOADED_AT_ONCE);
            let mut set = ChangeSet::new(self.rules.chain.clone(), self.state.version);
            for _ in 0..count {
                let height = Height(self.random.u64(1..START.0 - 100));
                set.changes.push(Change::Archived(self.key()?, Archived { height, sequence: Sequence::NONE.next() }));
            }
            self.commit(set).await?;
            self.settled += count;
        }
        Ok(())
    }

    /// Lives through the last deposits, and checks that each further tick is like the last.
    async fn settle_by_ticks(&mut self) -> Result<()> {
        let wanted = self.settled + SETTLED_BY_TICKS;
        let steady = Decided { confirmed: PAYMENTS, settled: PAYMENTS };
        let mut decided = None;
        while self.settled < wanted {
            decided = Some(self.decide().await?);
        }
        ensure!(decided == Some(steady), "a steady tick decides {steady:?}, this one {decided:?}");
        Ok(())
    }

    async fn commit(&mut self, set: ChangeSet) -> Result<()> {
        self.store.commit(set.clone()).await?;
        self.state.apply(&set);
        set.changes.iter().for_each(|change| self.due.apply(change, &self.state.watch));
        Ok(())
    }

    fn transfer(&mut self, block: &BlockRef, position: u32) -> Result<Transfer> {
        let address = self.random.choice(&self.addresses).context("there are addresses")?.clone();
        let amount = Amount::from(self.random.u64(1..10_000_000_000));
        Ok(Transfer {
            key: self.key()?,
            payment: Payment { address, asset: self.coin.clone(), amount, memo: None },
            block: block.clone(),
            block_time: Some(time_of(block.height)),
            position,
            from: None,
            maturity: None,
        })
    }

    fn key(&mut self) -> Result<DepositKey> {
        Ok(DepositKey { tx_id: TxId::new(self.hex())?, output_index: self.random.u32(0..4) })
    }

    /// 64 digits that nothing can predict or compress, as hashes are.
    fn hex(&mut self) -> String {
        format!("{:032x}{:032x}", self.random.u128(..), self.random.u128(..))
    }
}

fn watched(n: u32, address: Address) -> Change {
    Change::WatchPut(WatchEntry {
        address,
        reference: Some(format!("customer-{n}").into()),
        from: START,
        origin: WatchOrigin::Config,
        state: WatchState::Watching,
        history: None,
    })
}

fn script(n: u32) -> Vec<u8> {
    [&[0x00, 20][..], &[0; 16], &n.to_be_bytes()].concat()
}

fn time_of(height: Height) -> Timestamp {
    Timestamp::from_seconds(GENESIS_TIME + height.since(START) * 600)
}
