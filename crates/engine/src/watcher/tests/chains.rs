//! Following a chain that behaves.

use super::*;
use confirmd_core::{FinalityTag, Requirement, StartAt};
use std::num::NonZeroU32;

#[tokio::test]
async fn the_first_start_records_a_dense_trail_and_covers_the_next_block() {
    let desk = Desk::new(3).await;
    let state = desk.watcher.state();
    assert_eq!((state.trail.len(), state.trail.floor(), state.trail.tip()), (7, Height(14), Some(desk.chain.tip_block())));
    assert_eq!(state.watch.get(b"alice").unwrap().from, Height(21));
}

#[tokio::test]
async fn a_deposit_is_reported_at_its_depth_and_a_restart_repeats_nothing() {
    let mut desk = Desk::new(3).await;
    desk.chain.mine([Pay::new("t", "alice", 5), Pay::new("u", "nobody", 5)]);
    desk.chain.mine_empty(1);
    desk.follow().await;
    assert_eq!(desk.events().await, []);
    desk.chain.mine_empty(1);
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("t")]);
    let chain = desk.chain.clone();
    let mut desk = desk.restart(chain, &["alice"]).await;
    desk.chain.mine_empty(10);
    desk.follow().await;
    assert_eq!(desk.events().await, []);
}

#[tokio::test]
async fn g5_a_tick_that_was_read_but_not_committed_leaves_nothing() {
    let mut desk = Desk::new(1).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    let before = desk.watcher.state().clone();
    drop(desk.watcher);
    desk.watcher = open_watcher(&desk.store, &desk.chain, &["alice"]).await;
    assert_eq!(*desk.watcher.state(), before);
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("t")]);
}

#[tokio::test]
async fn a_catch_up_from_a_height_takes_sparse_spans_and_misses_nothing() {
    let mut profile = scripted_profile("desk", 3, 6);
    profile.start = StartAt::Height(Height(1));
    let chain = ScriptedChain::new(profile);
    let mut expected = Vec::new();
    for height in 1..=3000 {
        if height % 7 == 0 {
            chain.mine([Pay::new(&format!("t{height}"), "alice", height)]);
            expected.push(confirmed(&format!("t{height}")));
        } else {
            chain.mine_empty(1);
        }
    }
    chain.mine_empty(3);
    let directory = TempDir::new().unwrap();
    let store = open_store(&directory).await;
    let watcher = open_watcher(&store, &chain, &["alice"]).await;
    let mut desk = Desk { directory, store, chain, watcher };
    desk.follow().await;
    assert_eq!(desk.events().await, expected);
    assert!(desk.watcher.state().trail.len() < 100, "{} refs", desk.watcher.state().trail.len());
    assert!(desk.chain.requests() < 200, "{} requests", desk.chain.requests());
}

#[tokio::test]
async fn a_span_with_many_deposits_is_cut_and_a_full_block_is_taken_whole() {
    let mut profile = scripted_profile("desk", 1, 6);
    profile.start = StartAt::Height(Height(1));
    let chain = ScriptedChain::new(profile);
    let mut expected = 0;
    for height in 1..=40u64 {
        let count = if height == 20 { 700 } else { 30 };
        chain.mine((0..count).map(|n| Pay::new(&format!("t{height}-{n}"), "alice", 1)));
        expected += count;
    }
    let directory = TempDir::new().unwrap();
    let store = open_store(&directory).await;
    let watcher = open_watcher(&store, &chain, &["alice"]).await;
    let mut desk = Desk { directory, store, chain, watcher };
    desk.follow().await;
    assert_eq!(desk.events().await.len(), usize::try_from(expected).unwrap());
}

#[tokio::test]
async fn finality_that_advances_without_a_new_block_confirms() {
    let mut profile = scripted_profile("desk", 1, 6);
    profile.assets[0].requirement = Requirement { at_least: NonZeroU32::MIN, tag: Some(FinalityTag::Finalized) };
    let mut desk = Desk::with(profile).await;
    let paid = desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.chain.mine_empty(9);
    desk.follow().await;
    assert_eq!(desk.events().await, [], "no statement is no finality");
    desk.chain.mark(FinalityTag::Finalized, paid);
    desk.tick().await;
    assert_eq!(desk.events().await, [confirmed("t")]);
    desk.chain.forget_marks();
    desk.chain.mine_empty(1);
    desk.follow().await;
    assert_eq!(desk.watcher.state().marks[&FinalityTag::Finalized], Height(21));
}

#[tokio::test]
async fn nothing_above_the_finalized_block_enters_the_trail_without_a_link() {
    let mut profile = scripted_profile("desk", 1, 6);
    profile.start = StartAt::Height(Height(1));
    profile.assets[0].requirement = Requirement { at_least: NonZeroU32::MIN, tag: Some(FinalityTag::Finalized) };
    let chain = ScriptedChain::new(profile);
    let finalized = chain.mine_empty(200);
    chain.mine([Pay::new("t", "alice", 5)]);
    chain.mine_empty(60);
    chain.mark(FinalityTag::Finalized, finalized);
    let directory = TempDir::new().unwrap();
    let store = open_store(&directory).await;
    let watcher = open_watcher(&store, &chain, &["alice"]).await;
    let mut desk = Desk { directory, store, chain, watcher };
    desk.follow().await;
    assert_eq!(desk.watcher.state().trail.dense_from(), Height(200));
    // Far deeper than reorg_depth, and still above what is final: followed like any other.
    desk.chain.fork(55);
    desk.chain.mine_empty(70);
    desk.follow().await;
    assert_eq!(desk.phase(), Phase::Following);
}

#[tokio::test]
async fn e08_a_changed_policy_applies_to_pending_deposits_without_a_new_block() {
    let mut desk = Desk::new(5).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.chain.mine_empty(1);
    desk.follow().await;
    let shallow = desk.chain.with_profile(scripted_profile("desk", 2, 6));
    let mut desk = desk.restart(shallow, &["alice"]).await;
    desk.tick().await;
    desk.tick().await;
    assert_eq!(desk.events().await, [confirmed("t")]);
}

#[tokio::test]
async fn errors_of_the_source_decide_nothing_and_are_shown() {
    let mut desk = Desk::new(1).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.chain.fail_next([confirmd_testkit::scripted::THROTTLED]);
    desk.tick().await;
    assert!(matches!(desk.phase(), Phase::Unreachable { .. }), "{:?}", desk.phase());
    assert_eq!(desk.events().await, []);
    desk.follow().await;
    assert_eq!((desk.phase(), desk.events().await), (Phase::Following, vec![confirmed("t")]));
}

#[tokio::test]
async fn an_idle_tick_commits_nothing() {
    let mut desk = Desk::new(1).await;
    desk.follow().await;
    let version = desk.watcher.state().version;
    desk.tick().await;
    desk.tick().await;
    assert_eq!(desk.watcher.state().version, version);
}
