//! Addresses that are added while blocks are read.

use super::*;
use async_trait::async_trait;
use confirmd_core::{
    Address, AddressError, BlockHeader, ChainId, EndpointStatus, FinalityTag, SourceError, Transfer, WatchOrigin, WatchSet,
};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// Added and paid.
const ADDRESSES: u64 = 3_000;
/// Added at the same time.
const TOGETHER: u64 = 2;

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
#[derive(Debug, Clone)]
struct Slow {
    chain: ScriptedChain,
    chance: Chance,
    /// Questions that are being answered.
    asked: Arc<AtomicUsize>,
    /// Being added now, and the heights at which a payment to them was looked past.
    adding: Arc<Mutex<BTreeSet<String>>>,
    passed: Arc<Mutex<BTreeSet<(String, Height)>>>,
}

/// Counts as a question until it is dropped: a read that is interrupted ends, too.
struct Question(Arc<AtomicUsize>);

impl Drop for Question {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Slow {
    fn new(chain: ScriptedChain, chance: Chance) -> Self {
        Self { chain, chance, asked: Arc::default(), adding: Arc::default(), passed: Arc::default() }
    }

    fn question(&self) -> Question {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Question(self.asked.clone())
    }

    fn is_read(&self) -> bool {
        self.asked.load(Ordering::Relaxed) > 0
    }
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
        let _question = self.question();
        self.chance.pause().await;
        let answer = self.chain.tip().await;
        self.chance.pause().await;
        answer
    }

    async fn header_at(&self, height: Height) -> Result<Option<BlockHeader>, SourceError> {
        let _question = self.question();
        let answer = self.chain.header_at(height).await;
        self.chance.pause().await;
        answer
    }

    async fn headers(&self, from: Height, to: Height) -> Result<Vec<BlockHeader>, SourceError> {
        let _question = self.question();
        let answer = self.chain.headers(from, to).await;
        self.chance.pause().await;
        answer
    }

    async fn finalized(&self, tag: FinalityTag) -> Result<Option<BlockRef>, SourceError> {
        self.chain.finalized(tag).await
    }

    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        let _question = self.question();
        self.chance.pause().await;
        let unknown = |name: &&String| !watch.contains(name.as_bytes());
        let passed: Vec<_> = self.adding.lock().unwrap().iter().filter(unknown).map(|name| (name.clone(), to.height)).collect();
        self.passed.lock().unwrap().extend(passed);
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

    async fn transaction(
        &self,
        tx_id: &str,
        height: Option<Height>,
    ) -> Result<Option<confirmd_core::ShownTransaction>, SourceError> {
        self.chain.transaction(tx_id, height).await
    }

    fn connection(&self) -> u64 {
        self.chain.connection()
    }
}

/// An address, and when it was promised and paid.
struct Added {
    name: String,
    /// Its first block, says the answer.
    from: Height,
    /// Of the block that was mined while the answer was awaited, and pays it.
    meanwhile: Height,
    /// Whether the node was being read when it was asked for.
    during_a_read: bool,
}

/// Adds one address while the node is read.
async fn add(handle: &WatcherHandle, node: &Slow, name: String) -> (String, Height, bool) {
    node.chance.pause().await;
    let during_a_read = node.is_read();
    let new =
        NewWatch { address: ScriptedChain::address(&name), reference: None, origin: WatchOrigin::Command, from_height: None };
    let from = handle.add(vec![new]).await.unwrap().from;
    node.adding.lock().unwrap().remove(&name);
    (name, from, during_a_read)
}

/// Two addresses are added while the watcher reads; meanwhile a block is mined that pays both. Whoever is promised the
/// block after that one is paid there: each has a payment in the very first block that its answer names.
async fn add_and_pay(handle: &WatcherHandle, node: &Slow, round: u64) -> Vec<Added> {
    let (chain, mut status) = (&node.chain, handle.subscribe());
    status.wait_for(|status| status.trail_tip.as_ref() == Some(&chain.tip_block())).await.unwrap();
    handle.wake();
    let names = [0, 1].map(|who| format!("customer-{round}-{who}"));
    node.adding.lock().unwrap().extend(names.clone());
    let mining = async {
        node.chance.pause().await;
        let meanwhile = chain.mine(names.iter().map(|name| Pay::new(&format!("meanwhile-{name}"), name, 5)));
        handle.wake();
        meanwhile.height
    };
    let [one, other] = names.clone();
    let (one, other, meanwhile) = tokio::join!(add(handle, node, one), add(handle, node, other), mining);
    let added = [one, other].map(|(name, from, during_a_read)| Added { name, from, meanwhile, during_a_read });
    let next = added.iter().filter(|added| added.from > meanwhile);
    let next: Vec<_> = next.map(|Added { name, .. }| Pay::new(&format!("next-{name}"), name, 5)).collect();
    if !next.is_empty() {
        let paid = chain.mine(next);
        assert!(added.iter().all(|added| added.from <= paid.height));
        handle.wake();
    }
    added.into()
}

#[tokio::test(start_paused = true)]
async fn thousands_of_addresses_added_during_reads_are_covered_from_the_height_the_answer_names() {
    let chain = ScriptedChain::new(scripted_profile("desk", 1, 6));
    chain.mine_empty(20);
    let directory = TempDir::new().unwrap();
    let store = open_store(&directory).await;
    let node = Slow::new(chain.clone(), Chance::new(7));
    let deps = WatcherDeps {
        source: Arc::new(node.clone()),
        store: store.clone(),
        clock: Arc::new(SystemClock),
        wake: Arc::new(Notify::new()),
        config_watch: Vec::new(),
    };
    let mut watcher = Watcher::open(deps).await.unwrap();
    watcher.tick().await.unwrap();
    let (handle, (stop, stopped)) = (watcher.handle(), watch::channel(false));
    let running = tokio::spawn(watcher.run(stopped));
    let mut added = Vec::new();
    for round in 0..ADDRESSES / TOGETHER {
        added.extend(add_and_pay(&handle, &node, round).await);
    }
    let mut status = handle.subscribe();
    status.wait_for(|status| status.trail_tip.as_ref() == Some(&chain.tip_block())).await.unwrap();
    stop.send(true).unwrap();
    running.await.unwrap().unwrap();
    let watcher = open_watcher(&store, &chain, &[]).await;
    let desk = Desk { directory, store, chain, watcher };
    let events = desk.events().await;
    let told: BTreeSet<_> = events.iter().cloned().collect();
    assert_eq!(told.len(), events.len(), "a payment was told twice");

    // Told is exactly what was promised: the payment meanwhile if its block is covered, else the one in the next block.
    let (mut meanwhile, mut anew, mut during_reads) = (0u64, 0u64, 0u64);
    for Added { name, from, meanwhile: height, during_a_read } in &added {
        assert!((height.0..=height.0 + 1).contains(&from.0), "{name} is promised from {from}, and {height} was the node's tip");
        let covered = from == height;
        let payment = if covered { format!("meanwhile-{name}") } else { format!("next-{name}") };
        assert!(told.contains(&confirmed(&payment)), "{name} is promised from {from}, was paid there and not told");
        meanwhile += u64::from(covered);
        anew += u64::from(covered && node.passed.lock().unwrap().contains(&(name.clone(), *height)));
        during_reads += u64::from(*during_a_read);
    }
    assert_eq!(u64::try_from(events.len()).unwrap(), ADDRESSES, "something was told that was not promised");
    // Each way was gone: everybody was paid in the first block promised; for many it was there before the answer,
    // for some it had been read without them and was read anew, for many it came after the answer.
    println!("{during_reads} added during a read, {meanwhile} paid before the answer, {anew} of a block that was read anew");
    assert!(during_reads > ADDRESSES / 2, "{during_reads} were added during a read");
    assert!((ADDRESSES / 10..ADDRESSES * 9 / 10).contains(&meanwhile), "{meanwhile} were paid before the answer");
    assert!(anew > ADDRESSES / 100, "for {anew} a block was read anew");
}
