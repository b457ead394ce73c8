//! Rescans of a running watcher: their share of the time, and what is told of them.

use super::rescans::{names, paid_for_long, pay_at, since};
use super::*;
use async_trait::async_trait;
use confirmd_core::{
    Address, AddressError, BlockHeader, ChainId, EndpointStatus, FinalityTag, RescanState, SourceError, Transfer, WatchSet,
};
use confirmd_testkit::{MemoryDisk, MemoryStore};
use std::sync::Mutex;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn history_that_takes_for_ever_never_delays_the_live_watch_and_takes_no_more_than_its_share() {
    // A store without a thread of its own: paused time stands still while something is committed.
    let store = Arc::new(MemoryStore::open(&MemoryDisk::default(), true).unwrap());
    let mut profile = scripted_profile("desk", 3, 6);
    profile.span_max = std::num::NonZeroU64::MIN;
    let chain = ScriptedChain::new(profile);
    (1..=60).for_each(|height| pay_at(&chain, height));
    let source = Arc::new(SlowHistory { chain: chain.clone(), below: Height(60), reading: Mutex::default() });
    let (clock, wake) = (Arc::new(SystemClock), Arc::new(Notify::new()));
    let deps = WatcherDeps { source: source.clone(), store, clock, wake, config_watch: Vec::new() };
    let mut watcher = Watcher::open(deps).await.unwrap().rescan_share(25);
    watcher.tick().await.unwrap();
    let handle = watcher.handle();
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(watcher.run(stopped));
    handle.add(vec![since("bob", 1)]).await.unwrap();
    let began = Instant::now();
    let mut status = handle.subscribe();
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_millis(997)).await;
        let tip = chain.mine([]);
        let mined = Instant::now();
        status.wait_for(|status| status.trail_tip.as_ref() == Some(&tip)).await.unwrap();
        assert!(mined.elapsed() <= Duration::from_millis(1001), "the live watch was {:?} late", mined.elapsed());
    }
    let (elapsed, reading) = (began.elapsed(), *source.reading.lock().unwrap());
    assert!(reading > Duration::from_secs(20), "history was read for {reading:?} of {elapsed:?}");
    assert!(reading <= elapsed / 4 + Duration::from_secs(7), "history was read for {reading:?} of {elapsed:?}");
    let rescan = handle.status().rescans.pop().unwrap();
    assert!(rescan.rescan.heights_left() < 60 && rescan.seconds_left.is_some(), "{rescan:?}");
    stop.send(true).unwrap();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_running_watcher_reads_history_by_itself_and_tells_how_far_it_is() {
    let desk = paid_for_long(10).await;
    desk.events().await;
    let Desk { directory, store, chain, watcher } = desk;
    let handle = watcher.handle();
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(watcher.run(stopped));
    handle.add(vec![since("bob", 1)]).await.unwrap();
    let done = |status: &ChainStatus| status.rescans.iter().any(|one| one.rescan.state == RescanState::Done);
    handle.subscribe().wait_for(done).await.unwrap();
    stop.send(true).unwrap();
    task.await.unwrap().unwrap();
    let watcher = open_watcher(&store, &chain, &["alice"]).await;
    let desk = Desk { directory, store, chain, watcher };
    assert_eq!(names(&desk.events().await), ["b10", "b20", "b30", "b40", "b50"]);
}

/// A node whose old blocks take three seconds each.
#[derive(Debug)]
struct SlowHistory {
    chain: ScriptedChain,
    below: Height,
    reading: Mutex<Duration>,
}

#[async_trait]
impl ChainSource for SlowHistory {
    fn profile(&self) -> &ChainProfile {
        self.chain.profile()
    }

    async fn identify(&self) -> Result<ChainId, SourceError> {
        self.chain.identify().await
    }

    async fn tip(&self) -> Result<BlockRef, SourceError> {
        self.chain.tip().await
    }

    async fn header_at(&self, height: Height) -> Result<Option<BlockHeader>, SourceError> {
        self.chain.header_at(height).await
    }

    async fn headers(&self, from: Height, to: Height) -> Result<Vec<BlockHeader>, SourceError> {
        self.chain.headers(from, to).await
    }

    async fn finalized(&self, tag: FinalityTag) -> Result<Option<BlockRef>, SourceError> {
        self.chain.finalized(tag).await
    }

    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        if from < self.below {
            let took = Duration::from_secs(3);
            tokio::time::sleep(took).await;
            *self.reading.lock().unwrap() += took;
        }
        self.chain.transfers(from, to, watch).await
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
