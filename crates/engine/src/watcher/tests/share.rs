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
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(handle.status().trail_tip, desk.tip(), "it read although it was not its turn");
    let new = NewWatch {
        address: ScriptedChain::address("bob"),
        reference: None,
        origin: confirmd_core::WatchOrigin::Command,
        from_height: None,
    };
    handle.add(vec![new]).await.unwrap();
    // The one that reads is gone.
    *turns.theirs.lock().unwrap() = None;
    let mut status = handle.subscribe();
    let tip = desk.chain.tip_block();
    status.wait_for(|status| status.trail_tip.as_ref() == Some(&tip)).await.unwrap();
    stop.send(true).unwrap();
    task.await.unwrap().unwrap();
}

/// Another instance has the turn, and never commits anything.
async fn beside_a_stuck_one(desk: &Desk) -> (WatcherHandle, watch::Sender<bool>) {
    let turns = Arc::new(Turns::default());
    *turns.theirs.lock().unwrap() = Some(Duration::from_secs(3));
    let idle = open_watcher(&desk.store, &desk.chain, &["alice"]).await.sharing(turns);
    let handle = idle.handle();
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(idle.run(stopping));
    (handle, stop)
}

#[tokio::test(start_paused = true)]
async fn g11_an_instance_decides_what_the_one_that_reads_does_not_see() {
    let desk = Desk::new(2).await;
    let (handle, _stop) = beside_a_stuck_one(&desk).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    let tip = desk.chain.mine_empty(3);
    let mut status = handle.subscribe();
    status.wait_for(|status| status.trail_tip.as_ref() == Some(&tip)).await.unwrap();
    assert_eq!(desk.events().await, [confirmed("t")]);
    let before = desk.chain.requests();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let looks = desk.chain.requests() - before;
    assert!((20..500).contains(&looks), "{looks} requests in ten minutes of idling");
}

#[tokio::test(start_paused = true)]
async fn g11_a_longer_chain_that_only_an_idle_instance_sees_is_followed_after_the_grace_alone() {
    let mut desk = Desk::new(1).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.chain.mine_empty(1);
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("t")]);
    let (handle, _stop) = beside_a_stuck_one(&desk).await;
    desk.chain.fork(2);
    let tip = desk.chain.mine_empty(4);
    let mut status = handle.subscribe();
    status.wait_for(|status| matches!(status.phase, Phase::WaitingForFork { .. })).await.unwrap();
    let began = Instant::now();
    assert!(desk.events().await.is_empty(), "reverted at once");
    status.wait_for(|status| status.trail_tip.as_ref() == Some(&tip)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(59), "followed after {:?}", began.elapsed());
    assert_eq!(desk.events().await, [numbered("t", 2)]);
}

#[tokio::test(start_paused = true)]
async fn g11_a_node_of_another_network_behind_an_idle_instance_halts_nobody() {
    let desk = Desk::new(1).await;
    let (handle, _stop) = beside_a_stuck_one(&desk).await;
    desk.chain.change_network(ChainId::new("scripted:other").unwrap());
    let mut status = handle.subscribe();
    status.wait_for(|status| matches!(status.phase, Phase::Unreachable { .. })).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let state = desk.store.load(&handle.status().chain).await.unwrap().unwrap();
    assert!(state.halt.is_none(), "an idle instance's node halted the chain");
}
