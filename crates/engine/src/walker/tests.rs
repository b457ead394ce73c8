#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use confirmd_core::{ChainState, Change, ChangeSet, StateVersion};
use confirmd_testkit::{ScriptedChain, scripted_profile};

/// A trail over the scripted chain's last blocks: dense from `floor` on.
async fn trail(chain: &ScriptedChain, floor: u64) -> Trail {
    let tip = chain.tip_block().height;
    let headers = chain.headers(Height(floor), tip).await.unwrap();
    let mut set = ChangeSet::new(chain.profile().chain.clone(), StateVersion(0));
    set.changes = headers.into_iter().map(|header| Change::TrailPushed(header.block)).collect();
    set.changes.push(Change::FloorRaised(Height(floor)));
    let mut state = ChainState::default();
    state.apply(&set);
    state.trail
}

fn chain(length: u64) -> ScriptedChain {
    let chain = ScriptedChain::new(scripted_profile("walk", 1, 6));
    chain.mine_empty(length);
    chain
}

#[tokio::test]
async fn an_unchanged_chain_costs_one_read() {
    let chain = chain(20);
    let trail = trail(&chain, 10).await;
    let before = chain.requests();
    assert_eq!(ReorgWalker.walk(&chain, &trail).await.unwrap(), Walk::OnBestChain);
    assert_eq!(chain.requests() - before, 1);
}

#[tokio::test]
async fn a_stale_tip_of_equal_height_is_a_fork_a02() {
    let chain = chain(20);
    let trail = trail(&chain, 10).await;
    let old = chain.tip_block();
    chain.fork(1);
    chain.mine_empty(1);
    let walk = ReorgWalker.walk(&chain, &trail).await.unwrap();
    let Walk::Forked { ancestor, orphaned } = walk else { panic!("{walk:?}") };
    assert_eq!((ancestor.height, orphaned), (Height(19), vec![old]));
}

#[tokio::test]
async fn every_depth_is_found_in_at_most_depth_plus_two_reads() {
    for depth in 1..=9 {
        let chain = chain(20);
        let trail = trail(&chain, 10).await;
        chain.fork(depth);
        chain.mine_empty(12);
        let before = chain.requests();
        let walk = ReorgWalker.walk(&chain, &trail).await.unwrap();
        let Walk::Forked { ancestor, orphaned } = walk else { panic!("{walk:?}") };
        assert_eq!(orphaned.len(), depth);
        assert_eq!(ancestor.height.0, 20 - u64::try_from(depth).unwrap());
        assert!(chain.requests() - before <= u64::try_from(depth).unwrap() + 2);
    }
}

#[tokio::test]
async fn g3_a_lower_tip_that_contradicts_nothing_is_behind_and_never_a_fork() {
    let chain = chain(20);
    let trail = trail(&chain, 10).await;
    for lag in 1..=20 {
        chain.lag(lag);
        assert_eq!(ReorgWalker.walk(&chain, &trail).await.unwrap(), Walk::Behind, "lag {lag}");
    }
}

#[tokio::test]
async fn e05_a_node_that_syncs_from_zero_costs_two_reads_and_is_behind() {
    let chain = chain(20);
    let trail = trail(&chain, 10).await;
    chain.lag(18);
    let before = chain.requests();
    assert_eq!(ReorgWalker.walk(&chain, &trail).await.unwrap(), Walk::Behind);
    assert_eq!(chain.requests() - before, 2);
}

#[tokio::test]
async fn a_shorter_fork_is_seen_as_a_fork() {
    let chain = chain(20);
    let trail = trail(&chain, 10).await;
    chain.fork(4);
    chain.mine_empty(2);
    let walk = ReorgWalker.walk(&chain, &trail).await.unwrap();
    let Walk::Forked { ancestor, orphaned } = walk else { panic!("{walk:?}") };
    assert_eq!((ancestor.height, orphaned.len()), (Height(16), 4));
}

#[tokio::test]
async fn g10_an_ancestor_below_the_floor_is_too_deep() {
    let chain = chain(20);
    let trail = trail(&chain, 10).await;
    chain.fork(12);
    chain.mine_empty(13);
    assert!(matches!(ReorgWalker.walk(&chain, &trail).await.unwrap(), Walk::TooDeep { seen } if seen.height == Height(10)));
    // Even while the other branch is still shorter than ours.
    let chain = self::chain(20);
    let trail = self::trail(&chain, 10).await;
    chain.fork(12);
    chain.mine_empty(5);
    assert!(matches!(ReorgWalker.walk(&chain, &trail).await.unwrap(), Walk::TooDeep { .. }));
}

#[tokio::test]
async fn c01_a_slot_that_is_empty_now_is_orphaned_only_when_a_later_header_links_past_it() {
    let chain = chain(20);
    let trail = trail(&chain, 10).await;
    chain.fork(1);
    chain.skip_slot();
    // Height 20 is empty now: proves nothing yet.
    assert_eq!(ReorgWalker.walk(&chain, &trail).await.unwrap(), Walk::Behind);
    chain.mine_empty(1);
    // Height 21 links past it to 19.
    let walk = ReorgWalker.walk(&chain, &trail).await.unwrap();
    let Walk::Forked { ancestor, orphaned } = walk else { panic!("{walk:?}") };
    assert_eq!((ancestor.height, orphaned.len()), (Height(19), 1));
}

#[tokio::test]
async fn c01_a_slot_that_is_empty_now_is_left_out_also_by_a_branch_with_a_block_where_ours_was_empty() {
    for above in 1..=3 {
        let chain = chain(12);
        chain.skip_slot();
        chain.mine_empty(1);
        let (trail, old) = (trail(&chain, 8).await, chain.tip_block());
        assert_eq!(old.height, Height(14));
        chain.fork(2);
        assert_eq!(chain.tip_block().height, Height(12));
        chain.mine_empty(1);
        chain.skip_slot();
        chain.mine_empty(above);
        let walk = ReorgWalker.walk(&chain, &trail).await.unwrap();
        let Walk::Forked { ancestor, orphaned } = walk else { panic!("{walk:?}") };
        assert_eq!((ancestor.height, orphaned), (Height(12), vec![old]));
    }
}

#[tokio::test]
async fn g10_a_fork_below_the_trail_is_too_deep_though_its_height_at_the_end_of_the_trail_is_empty() {
    let chain = chain(20);
    let trail = trail(&chain, 10).await;
    chain.fork(12);
    chain.mine_empty(1);
    chain.skip_slot();
    chain.mine_empty(13);
    assert!(matches!(ReorgWalker.walk(&chain, &trail).await.unwrap(), Walk::TooDeep { seen } if seen.height == Height(11)));
}

#[tokio::test]
async fn the_search_never_goes_below_a_sparse_jump() {
    let chain = chain(20);
    let mut state = ChainState { trail: trail(&chain, 2).await, ..ChainState::default() };
    chain.mine_empty(100);
    let jump = chain.header_at(Height(80)).await.unwrap().unwrap().block;
    let mut set = ChangeSet::new(chain.profile().chain.clone(), StateVersion(0));
    set.changes.push(Change::TrailJumped(jump));
    state.apply(&set);
    chain.fork(60);
    chain.mine_empty(70);
    assert!(matches!(ReorgWalker.walk(&chain, &state.trail).await.unwrap(), Walk::TooDeep { seen } if seen.height == Height(80)));
}

#[tokio::test]
async fn an_error_is_passed_on_and_decides_nothing() {
    let chain = chain(20);
    let trail = trail(&chain, 10).await;
    chain.fail_next([confirmd_testkit::scripted::THROTTLED]);
    assert!(ReorgWalker.walk(&chain, &trail).await.is_err());
    assert_eq!(ReorgWalker.walk(&chain, &trail).await.unwrap(), Walk::OnBestChain);
}
