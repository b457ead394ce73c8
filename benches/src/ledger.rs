//! A chain's state over the real store, with as many settled keys as wanted, driven tick by tick.

use crate::process::scratch;
use anyhow::{Context, Result, ensure};
use confirmd_core::{
    Address, Amount, Archived, Asset, AssetId, BlockHash, BlockRef, ChainId, ChainName, ChainState, Change, ChangeSet,
    DepositKey, Height, ListedAsset, Payment, Requirement, Sequence, StateStore, Timestamp, Transfer, TxId, WatchEntry,
    WatchOrigin, WatchState,
};
use confirmd_engine::{DueIndex, Observation, Rules, SeenBlock, fold};
use confirmd_store_sled::{OpenOptions, SledStore};
use fastrand::Rng;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Payments in the block of one tick; as many are confirmed and as many settled.
pub const PAYMENTS: usize = 3;
/// Keys that were settled by ticks before anything is measured.
const SETTLED_BY_TICKS: u64 = 990;
/// Keys settled in one commit while loading.
const LOADED_AT_ONCE: u64 = 20_000;
const LOAD_PATH: &str = "BENCHES_LOAD_PATH";
const LOAD_COUNT: &str = "BENCHES_LOAD_COUNT";
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
    // Dropped after the store.
    _folder: Option<TempDir>,
}

/// What one tick decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decided {
    confirmed: usize,
    settled: usize,
}

/// To be called first thing in `main`: whether this process was started by [`Ledger::with_settled`] to load a store, which
/// is then done.
pub fn loads_for_another() -> Result<bool> {
    let (Some(path), Some(count)) = (std::env::var_os(LOAD_PATH), std::env::var_os(LOAD_COUNT)) else { return Ok(false) };
    let count = count.to_str().context("not a number")?.parse()?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let mut ledger = Ledger::open(Path::new(&path), None, true, 0).await?;
        ledger.begin().await?;
        ledger.load(count).await?;
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
        let folder = scratch("state")?;
        let path = folder.path().join("state");
        let old = settled.saturating_sub(SETTLED_BY_TICKS);
        let status = Command::new(std::env::current_exe()?).env(LOAD_PATH, &path).env(LOAD_COUNT, old.to_string()).status()?;
        ensure!(status.success(), "loading {old} settled keys failed ({status}); does its main begin with loads_for_another?");
        let mut ledger = Self::open(&path, Some(folder), false, settled).await?;
        ledger.state = ledger.store.load(&ledger.rules.chain).await?.context("the loaded store has no state")?;
        ledger.due = DueIndex::of(&ledger.state);
        ledger.settled = old;
        ledger.settle_by_ticks().await?;
        Ok(ledger)
    }

    async fn open(path: &Path, folder: Option<TempDir>, init: bool, seed: u64) -> Result<Self> {
        let store = SledStore::open(path, OpenOptions { init, ..OpenOptions::default() }).await?;
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
            _folder: folder,
        })
    }

    /// Settled keys so far.
    pub fn settled(&self) -> u64 {
        self.settled
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
        let height = self.state.trail.tip().context("the trail is never empty")?.height.next();
        let block = BlockRef { height, hash: BlockHash::new(self.hex())? };
        let transfers = (0..).take(PAYMENTS).map(|position| self.transfer(&block, position)).collect::<Result<Vec<_>>>()?;
        let keys: Vec<DepositKey> = transfers.iter().map(|transfer| transfer.key.clone()).collect();
        let archived = self.store.settled_among(&self.rules.chain, &keys).await?;
        let decided_at = time_of(height);
        let blocks = vec![SeenBlock::Linked(block)];
        let seen = Observation { blocks, transfers, archived, decided_at, ..Observation::default() };
        let set = fold(&self.state, &self.due, &seen, &self.rules).map_err(|breach| anyhow::anyhow!("{breach}"))?;
        let settled = set.changes.iter().filter(|change| matches!(change, Change::Archived(..))).count();
        let decided = Decided { confirmed: set.events.len(), settled };
        self.settled += u64::try_from(settled)?;
        self.commit(set).await?;
        Ok(decided)
    }

    /// The chain, its watched addresses and its trail.
    async fn begin(&mut self) -> Result<()> {
        let asset = Asset { id: self.coin.clone(), symbol: "BTC".to_owned(), decimals: 8 };
        let listed = ListedAsset { asset, requirement: Requirement::confirmations(CONFIRMATIONS), delisted: false };
        let mut set = ChangeSet::new(self.rules.chain.clone(), self.state.version);
        set.changes = vec![Change::Named(self.rules.chain_name.clone()), Change::AssetPut(listed)];
        set.changes.extend((0..).zip(&self.addresses).map(|(n, address): (u32, _)| {
            Change::WatchPut(WatchEntry {
                address: address.clone(),
                reference: Some(format!("customer-{n}").into()),
                from: START,
                origin: WatchOrigin::Config,
                state: WatchState::Watching,
                history: None,
            })
        }));
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

fn script(n: u32) -> Vec<u8> {
    [&[0x00, 20][..], &[0; 16], &n.to_be_bytes()].concat()
}

fn time_of(height: Height) -> Timestamp {
    Timestamp::from_seconds(GENESIS_TIME + height.since(START) * 600)
}
