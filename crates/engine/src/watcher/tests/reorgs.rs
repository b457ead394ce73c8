//! Chains that take blocks back.

use super::*;
use confirmd_testkit::scripted::THROTTLED;
use std::time::Duration;

#[tokio::test]
async fn a01_a_reported_deposit_whose_block_is_replaced_is_reverted_once() {
    let mut desk = Desk::new(1).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.follow().await;
    desk.chain.fork(1);
    desk.chain.mine_empty(2);
    desk.follow().await;
    desk.chain.mine_empty(1);
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("t"), numbered("t", 2)]);
    assert_eq!(desk.watcher.handle().status().last_reorg.unwrap().reverted, 1);
}

#[tokio::test]
async fn a04_a_deposit_mined_again_elsewhere_is_reverted_and_confirmed_when_deep_enough_again() {
    let mut desk = Desk::new(2).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.chain.mine_empty(1);
    desk.follow().await;
    desk.chain.fork(2);
    desk.chain.mine_empty(2);
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("t"), numbered("t", 2)]);
    desk.chain.mine_empty(1);
    desk.follow().await;
    assert_eq!(desk.events().await, [numbered("t", 3)]);
}

#[tokio::test]
async fn a08_a_return_to_the_first_branch_confirms_again() {
    let mut desk = Desk::new(1).await;
    let first = desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.follow().await;
    desk.chain.fork(1);
    desk.chain.mine_empty(2);
    desk.follow().await;
    desk.chain.return_to(&first);
    desk.chain.mine_empty(3);
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("t"), numbered("t", 2), numbered("t", 3)]);
}

#[tokio::test(start_paused = true)]
async fn g3_a_lower_tip_never_becomes_a_rollback_by_waiting_and_raises_an_alarm() {
    let mut desk = Desk::new(1).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.follow().await;
    desk.chain.lag(4);
    for _ in 0..20 {
        desk.tick().await;
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    assert!(matches!(desk.phase(), Phase::Behind { alarm: true, .. }), "{:?}", desk.phase());
    desk.chain.lag(0);
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("t")]);
}

#[tokio::test(start_paused = true)]
async fn a_shorter_fork_is_waited_for_and_nothing_is_confirmed_meanwhile() {
    let mut desk = Desk::new(3).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.chain.mine_empty(2);
    desk.follow().await;
    desk.chain.fork(3);
    desk.chain.mine([Pay::new("u", "alice", 5)]);
    desk.tick().await;
    assert!(matches!(desk.phase(), Phase::WaitingForFork { .. }), "{:?}", desk.phase());
    tokio::time::advance(Duration::from_secs(59)).await;
    desk.tick().await;
    assert_eq!(desk.events().await, [confirmed("t")]);
    tokio::time::advance(Duration::from_secs(2)).await;
    desk.tick().await;
    assert_eq!(desk.events().await, [numbered("t", 2)]);
    assert_eq!(desk.tip(), Some(desk.chain.tip_block()));
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_equal_length_is_waited_for_only_with_several_endpoints() {
    for several in [false, true] {
        let mut profile = scripted_profile("desk", 1, 6);
        profile.several_endpoints = several;
        let mut desk = Desk::with(profile).await;
        desk.chain.mine([Pay::new("t", "alice", 5)]);
        desk.follow().await;
        desk.chain.fork(1);
        desk.chain.mine_empty(1);
        desk.tick().await;
        assert_eq!(matches!(desk.phase(), Phase::WaitingForFork { .. }), several);
        assert_eq!(desk.events().await.len(), if several { 1 } else { 2 });
    }
}

#[tokio::test]
async fn g4_a_branch_that_changes_between_the_reads_of_a_tick_is_read_again() {
    let mut desk = Desk::new(1).await;
    desk.chain.mine_empty(1);
    desk.follow().await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.chain.fork_before("transfers", 1, 2);
    desk.tick().await;
    desk.follow().await;
    assert_eq!(desk.events().await, [], "the block with the payment never entered the trail");
    assert_eq!(desk.tip(), Some(desk.chain.tip_block()));
}

#[tokio::test]
async fn g4_a_longer_branch_that_comes_after_the_walk_is_never_jumped_onto() {
    for length in [8, 12, 100] {
        let mut desk = Desk::new(5).await;
        desk.chain.mine([Pay::new("t", "alice", 5)]);
        desk.follow().await;
        desk.chain.fork_before("tip", 1, length);
        desk.follow().await;
        desk.chain.mine_empty(20);
        desk.follow().await;
        assert_eq!(desk.events().await, [], "the payment's block left with a branch of {length} blocks");
    }
}

#[tokio::test]
async fn g3_an_error_while_a_reorg_is_looked_at_reverts_nothing() {
    let mut desk = Desk::new(1).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.follow().await;
    let first = desk.chain.tip_block();
    desk.chain.fork(1);
    desk.chain.mine_empty(2);
    desk.chain.fail_next([THROTTLED]);
    desk.tick().await;
    desk.chain.return_to(&first);
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("t")]);
}

#[tokio::test]
async fn g1_deep_reorgs_up_to_the_trail_leave_the_chains_own_truth() {
    for depth in 1..=6 {
        let mut desk = Desk::new(1).await;
        for n in 0..6 {
            desk.chain.mine([Pay::new(&format!("t{n}"), "alice", 5)]);
        }
        desk.follow().await;
        desk.chain.fork(depth);
        let kept = 6 - depth;
        for n in kept..6 {
            desk.chain.mine([Pay::new(&format!("t{n}"), "alice", 5)]);
        }
        desk.chain.mine_empty(1);
        desk.follow().await;
        let events = desk.events().await;
        for n in 0..6 {
            let last = events.iter().filter(|(tx, _)| *tx == format!("t{n}")).map(|(_, sequence)| *sequence).collect::<Vec<_>>();
            assert_eq!(last, if n < kept { vec![1] } else { vec![1, 2, 3] }, "depth {depth}, t{n}");
            assert!(Sequence(*last.last().unwrap()).stands());
        }
    }
}

#[tokio::test]
async fn empty_slots_around_our_tip_hide_no_reorg_however_many_they_are() {
    // 9 empty slots more than the walk itself looks past.
    let mut desk = Desk::new(1).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.follow().await;
    desk.chain.fork(1);
    (0..10).for_each(|_| desk.chain.skip_slot());
    desk.chain.mine_empty(3);
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("t"), numbered("t", 2)]);
    // Empty both at our tip and where the trail ends: what is between was replaced, from below the trail on.
    let mut desk = Desk::new(1).await;
    desk.chain.fork(8);
    desk.chain.mine_empty(1);
    desk.chain.skip_slot();
    desk.chain.mine_empty(5);
    desk.chain.skip_slot();
    desk.chain.mine_empty(3);
    desk.tick().await;
    let Phase::Halted { halt } = desk.phase() else { panic!("{:?}", desk.phase()) };
    assert!(matches!(halt.reason, confirmd_core::HaltReason::TooDeep { .. }), "{}", halt.reason);
}
