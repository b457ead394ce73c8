//! Addresses that are added while blocks are read.

use super::*;
use async_trait::async_trait;
use confirmd_core::{
    Address, AddressError, BlockHeader, ChainId, EndpointStatus, FinalityTag, SourceError, Transfer, WatchOrigin, WatchSet,
};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::sleep;

/// Added and paid.
const ADDRESSES: u64 = 3_000;
/// Who adds at a time.
const ADDING: u64 = 2;

/// Numbers by chance, the same each time.
#[derive(Debug, Clone)]
struct Chance(Arc<Mutex<u64>>);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    fn below(&self, end: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Mostly a moment, now and then longer than a command waits.
    async fn pause(&self) {
        match self.below(40) {
            0 => sleep(Duration::from_millis(1_500)).await,
            1..=9 => sleep(Duration::from_millis(self.below(20))).await,
            some => {
                for _ in 0..some {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

/// A node that takes its time: before it looks, and from its look to its answer.
#[derive(Debug)]
struct Slow {
    chain: ScriptedChain,
    chance: Chance,
}

#[async_trait]
impl ChainSource for Slow {
    fn profile(&self) -> &ChainProfile {
        self.chain.profile()
    }

    async fn identify(&self) -> Result<ChainId, SourceError> {
        self.chain.identify().await
    }

    async fn tip(&self) -> Result<BlockRef, SourceError> {
        self.chance.pause().await;
        let answer = self.chain.tip().await;
        self.chance.pause().await;
        answer
    }

    async fn header_at(&self, height: Height) -> Result<Option<BlockHeader>, SourceError> {
        let answer = self.chain.header_at(height).await;
        self.chance.pause().await;
        answer
    }

    async fn headers(&self, from: Height, to: Height) -> Result<Vec<BlockHeader>, SourceError> {
        let answer = self.chain.headers(from, to).await;
        self.chance.pause().await;
        answer
    }

    async fn finalized(&self, tag: FinalityTag) -> Result<Option<BlockRef>, SourceError> {
        self.chain.finalized(tag).await
    }

    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        self.chance.pause().await;
        let answer = self.chain.transfers(from, to, watch).await;
        self.chance.pause().await;
        answer
    }

    fn parse_address(&self, text: &str) -> Result<Address, AddressError> {
        self.chain.parse_address(text)
    }

    async fn inspect(&self) -> Result<Vec<EndpointStatus>, SourceError> {
        self.chain.inspect().await
    }

    fn connection(&self) -> u64 {
        self.chain.connection()
    }
}

/// Adds addresses one after the other, and pays each in the next block once the answer is there.
async fn add_and_pay(handle: WatcherHandle, chain: ScriptedChain, chance: Chance, who: u64) -> Vec<(String, Height, Height)> {
    let mut paid = Vec::new();
    for number in 0..ADDRESSES / ADDING {
        chance.pause().await;
        let name = format!("customer-{who}-{number}");
        let new = NewWatch { address: ScriptedChain::address(&name), reference: None, origin: WatchOrigin::Command };
        let from = handle.add(vec![new]).await.unwrap();
        let block = chain.mine([Pay::new(&name, &name, 5)]);
        handle.wake();
        paid.push((name, from, block.height));
    }
    paid
}

#[tokio::test(start_paused = true)]
async fn thousands_of_addresses_added_during_reads_are_covered_from_the_height_the_answer_names() {
    let chain = ScriptedChain::new(scripted_profile("desk", 1, 6));
    chain.mine_empty(20);
    let directory = TempDir::new().unwrap();
    let store = open_store(&directory).await;
    let chance = Chance::new(7);
    let deps = WatcherDeps {
        source: Arc::new(Slow { chain: chain.clone(), chance: chance.clone() }),
        store: store.clone(),
        clock: Arc::new(SystemClock),
        wake: Arc::new(Notify::new()),
        config_watch: Vec::new(),
    };
    let mut watcher = Watcher::open(deps).await.unwrap();
    watcher.tick().await.unwrap();
    let (handle, (stop, stopped)) = (watcher.handle(), watch::channel(false));
    let running = tokio::spawn(watcher.run(stopped));
    let adding = (0..ADDING).map(|who| tokio::spawn(add_and_pay(handle.clone(), chain.clone(), chance.clone(), who)));
    let adding: Vec<_> = adding.collect();
    let mut paid = Vec::new();
    for task in adding {
        paid.extend(task.await.unwrap());
    }
    let mut status = handle.subscribe();
    handle.wake();
    status.wait_for(|status| status.trail_tip.as_ref() == Some(&chain.tip_block())).await.unwrap();
    stop.send(true).unwrap();
    running.await.unwrap().unwrap();
    let watcher = open_watcher(&store, &chain, &[]).await;
    let desk = Desk { directory, store, chain, watcher };
    let events = desk.events().await;
    let told: BTreeSet<_> = events.iter().cloned().collect();
    assert_eq!(told.len(), events.len(), "a payment was told twice");
    let mut at_once = 0;
    for (name, from, height) in &paid {
        assert!(from <= height, "{name} is promised from {from} and was paid at {height}");
        at_once += u64::from(from == height);
        assert!(told.contains(&confirmed(name)), "{name} is promised from {from}, was paid at {height} and not told");
    }
    assert_eq!(u64::try_from(events.len()).unwrap(), ADDRESSES);
    assert!(at_once > 0, "none was paid in the very first block that is promised");
}
