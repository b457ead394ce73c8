//! Two watchers on one state: one version is decided on once, and the one that loses goes on from what the other one decided.

use super::*;
use async_trait::async_trait;
use confirmd_core::{ChainId, Sharing, StateVersion, StoreError, Turn};
use std::sync::Mutex;
use std::time::Duration;

/// Turns as a test hands them out; keeps no change sets, so that whoever is behind loads.
#[derive(Debug, Default)]
struct Turns {
    theirs: Mutex<Option<Duration>>,
    passed: Mutex<u32>,
    news: Notify,
}

#[async_trait]
impl Sharing for Turns {
    async fn changes_since(&self, _: &ChainId, _: StateVersion) -> Result<Option<Vec<ChangeSet>>, StoreError> {
        Ok(None)
    }

    async fn turn(&self, _: &ChainId, _: Duration) -> Result<Turn, StoreError> {
        let theirs = *self.theirs.lock().unwrap();
        Ok(theirs.map_or(Turn::Ours, |left| Turn::Theirs { left }))
    }

    async fn pass(&self, _: &ChainId) -> Result<(), StoreError> {
        *self.passed.lock().unwrap() += 1;
        Ok(())
    }

    async fn changed(&self, _: &ChainId) {
        self.news.notified().await;
    }
}

#[tokio::test]
async fn g11_a_tick_that_lost_against_another_instance_is_discarded_and_decided_anew() {
    let mut desk = Desk::new(2).await;
    let mut other = open_watcher(&desk.store, &desk.chain, &["alice"]).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.chain.mine_empty(3);
    desk.follow().await;
    assert_eq!(desk.events().await.len(), 1);
    // It read the same blocks, from the state before.
    for _ in 0..5 {
        other.tick().await.unwrap();
    }
    assert_eq!(other.state(), desk.watcher.state());
    assert!(desk.events().await.is_empty(), "a decision was made twice");
    // And the other way round.
    desk.chain.mine([Pay::new("u", "alice", 6)]);
    desk.chain.mine_empty(3);
    for _ in 0..5 {
        other.tick().await.unwrap();
    }
    desk.follow().await;
    assert_eq!(desk.events().await.len(), 1);
    assert_eq!(other.state().trail.tip(), desk.watcher.state().trail.tip());
}

#[tokio::test(start_paused = true)]
async fn g11_an_instance_whose_turn_it_is_not_reads_nothing_and_still_takes_commands() {
    let desk = Desk::new(2).await;
    let turns = Arc::new(Turns::default());
    *turns.theirs.lock().unwrap() = Some(Duration::from_secs(5));
    let idle = open_watcher(&desk.store, &desk.chain, &["alice"]).await.sharing(turns.clone());
    let handle = idle.handle();
    let (stop, stopping) = watch::channel(false);
    let task = tokio::spawn(idle.run(stopping));
    desk.chain.mine_empty(4);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(handle.status().trail_tip, desk.tip(), "it read although it was not its turn");
    let new = NewWatch { address: ScriptedChain::address("bob"), reference: None, origin: confirmd_core::WatchOrigin::Command };
    handle.add(vec![new]).await.unwrap();
    // The one that reads is gone.
    *turns.theirs.lock().unwrap() = None;
    let mut status = handle.subscribe();
    let tip = desk.chain.tip_block();
    status.wait_for(|status| status.trail_tip.as_ref() == Some(&tip)).await.unwrap();
    stop.send(true).unwrap();
    task.await.unwrap().unwrap();
}
