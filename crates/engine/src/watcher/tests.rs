#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod adding;
mod chains;
mod commands;
mod halts;
mod reorgs;
mod rescan_pace;
mod rescan_schedules;
mod rescans;
mod share;

use super::*;
use confirmd_core::{
    BlockRef, ChainProfile, ConsumerFilter, ConsumerName, ConsumerSpec, ConsumerStart, Height, Outbox, Sequence, SystemClock,
};
use confirmd_store_sled::{OpenOptions, SledStore};
use confirmd_testkit::{Pay, ScriptedChain, scripted_profile};
use tempfile::TempDir;

/// A watcher over a scripted chain and a real store, driven tick by tick.
struct Desk {
    directory: TempDir,
    store: Arc<SledStore>,
    chain: ScriptedChain,
    watcher: Watcher,
}

fn consumer() -> ConsumerName {
    ConsumerName::new("ledger").unwrap()
}

async fn open_store(directory: &TempDir) -> Arc<SledStore> {
    let store = Arc::new(
        SledStore::open(directory.path().join("state"), OpenOptions { init: true, ..OpenOptions::default() }).await.unwrap(),
    );
    let spec = ConsumerSpec { name: consumer(), filter: ConsumerFilter::default(), start: Some(ConsumerStart::Beginning) };
    store.register(&spec).await.unwrap();
    store
}

async fn open_watcher(store: &Arc<SledStore>, chain: &ScriptedChain, watch: &[&str]) -> Watcher {
    let config_watch = watch.iter().map(|text| ConfigWatch {
        address: ScriptedChain::address(text),
        reference: Some((*text).into()),
        from_height: None,
    });
    let deps = WatcherDeps {
        source: Arc::new(chain.clone()),
        store: store.clone(),
        clock: Arc::new(SystemClock),
        wake: Arc::new(Notify::new()),
        config_watch: config_watch.collect(),
    };
    Watcher::open(deps).await.unwrap()
}

impl Desk {
    /// A chain of 20 blocks, one tick done, `alice` watched.
    async fn new(confirmations: u32) -> Self {
        Self::with(scripted_profile("desk", confirmations, 6)).await
    }

    async fn with(profile: ChainProfile) -> Self {
        let chain = ScriptedChain::new(profile);
        chain.mine_empty(20);
        let directory = TempDir::new().unwrap();
        let store = open_store(&directory).await;
        let mut watcher = open_watcher(&store, &chain, &["alice"]).await;
        watcher.tick().await.unwrap();
        Self { directory, store, chain, watcher }
    }

    async fn tick(&mut self) {
        self.watcher.tick().await.unwrap();
    }

    /// Ticks until the watcher stands at the chain's tip, at most 50 times.
    async fn follow(&mut self) {
        for _ in 0..50 {
            self.tick().await;
            if self.tip() == Some(self.chain.tip_block()) {
                // One more: a changed policy is decided on the next look.
                return self.tick().await;
            }
        }
        panic!("not at the tip after 50 ticks: {:?}", self.watcher.handle().status());
    }

    fn tip(&self) -> Option<BlockRef> {
        self.watcher.state().trail.tip()
    }

    fn phase(&self) -> Phase {
        self.watcher.handle().status().phase
    }

    /// Everything handed out so far and not yet taken: (transaction, sequence).
    async fn events(&self) -> Vec<(String, u64)> {
        let mut events = Vec::new();
        loop {
            let due = self.store.due(&consumer(), SystemClock.now(), 1000).await.unwrap();
            if due.is_empty() {
                return events;
            }
            let positions: Vec<_> = due.iter().map(|delivery| delivery.position).collect();
            events.extend(due.into_iter().map(|delivery| (delivery.key.tx_id.to_string(), delivery.sequence.0)));
            self.store.acknowledge(&consumer(), &positions).await.unwrap();
        }
    }

    /// A new process over the same directory.
    async fn restart(self, chain: ScriptedChain, watch: &[&str]) -> Self {
        let Self { directory, store, watcher, .. } = self;
        drop(watcher);
        store.close().await.unwrap();
        drop(store);
        let store = open_store(&directory).await;
        let watcher = open_watcher(&store, &chain, watch).await;
        Self { directory, store, chain, watcher }
    }
}

fn confirmed(tx: &str) -> (String, u64) {
    (tx.to_owned(), 1)
}

fn numbered(tx: &str, sequence: u64) -> (String, u64) {
    (tx.to_owned(), sequence)
}
