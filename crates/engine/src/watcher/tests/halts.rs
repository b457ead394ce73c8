//! Chains that stop, and what an operator does.

use super::*;
use confirmd_core::{ChainId, DepositKey, HaltReason, SourceErrorKind};

async fn too_deep() -> Desk {
    let mut desk = Desk::new(1).await;
    desk.chain.mine([Pay::new("settled", "alice", 5)]);
    desk.chain.mine_empty(3);
    desk.chain.mine([Pay::new("reported", "alice", 5)]);
    desk.chain.mine_empty(4);
    desk.follow().await;
    assert!(desk.watcher.state().reported.get(&ScriptedChain::key("settled", 0)).is_none());
    desk.chain.fork(10);
    desk.chain.mine_empty(12);
    desk.tick().await;
    desk
}

fn resume(accept_reorg: bool, revert_settled: bool) -> Resume {
    Resume { accept_reorg, revert_settled }
}

async fn resumed(desk: &mut Desk, how: Resume) -> Result<ResumeReport, WatchError> {
    let (report, set) = desk.watcher.plan_resume(how).await?;
    desk.watcher.commit(set).await?;
    Ok(report)
}

#[tokio::test]
async fn g10_a_reorg_deeper_than_the_trail_halts_and_the_halt_survives_a_restart() {
    let mut desk = too_deep().await;
    assert!(matches!(desk.phase(), Phase::Halted { halt } if matches!(halt.reason, HaltReason::TooDeep { .. })));
    assert_eq!(desk.events().await, [confirmed("settled"), confirmed("reported")]);
    let chain = desk.chain.clone();
    desk = desk.restart(chain, &["alice"]).await;
    desk.tick().await;
    assert!(matches!(desk.phase(), Phase::Halted { .. }));
    assert_eq!(desk.events().await, []);
    assert!(resumed(&mut desk, resume(false, false)).await.unwrap_err().to_string().contains("--accept-reorg"));
}

#[tokio::test]
async fn e10_an_accepted_reorg_reverts_what_was_reported_and_lists_what_was_settled() {
    let mut desk = too_deep().await;
    desk.events().await;
    let report = resumed(&mut desk, resume(true, false)).await.unwrap();
    let key: DepositKey = ScriptedChain::key("settled", 0);
    assert_eq!(report.reverted, [ScriptedChain::key("reported", 0)]);
    assert_eq!(report.settled.iter().map(|s| (s.key.clone(), s.reverted)).collect::<Vec<_>>(), [(Some(key), false)]);
    desk.follow().await;
    assert_eq!(desk.events().await, [numbered("reported", 2)]);
    assert_eq!(desk.tip(), Some(desk.chain.tip_block()));
}

#[tokio::test]
async fn settled_deposits_are_reverted_only_when_asked_for_and_may_be_confirmed_again() {
    let mut desk = too_deep().await;
    desk.events().await;
    let report = resumed(&mut desk, resume(true, true)).await.unwrap();
    assert!(report.settled.iter().all(|settled| settled.reverted));
    desk.chain.mine([Pay::new("settled", "alice", 5)]);
    desk.follow().await;
    let mut events = desk.events().await;
    events.sort();
    assert_eq!(events, [numbered("reported", 2), numbered("settled", 2), numbered("settled", 3)]);
}

#[tokio::test]
async fn g3_an_accepted_reorg_reverts_nothing_in_a_block_that_still_stands_between_two_sparse_refs() {
    let mut desk = Desk::new(1).await;
    desk.chain.mine([Pay::new("stands", "alice", 5)]);
    desk.chain.mine([Pay::new("gone", "alice", 5)]);
    desk.chain.mine_empty(8);
    // One sparse jump over both payments.
    desk.tick().await;
    assert_eq!(desk.events().await, [confirmed("stands"), confirmed("gone")]);
    desk.chain.fork(9);
    desk.chain.mine_empty(12);
    desk.tick().await;
    assert!(matches!(desk.phase(), Phase::Halted { .. }), "{:?}", desk.phase());
    let report = resumed(&mut desk, resume(true, true)).await.unwrap();
    assert_eq!(report.reverted, [ScriptedChain::key("gone", 0)]);
    desk.follow().await;
    assert_eq!(desk.events().await, [numbered("gone", 2)]);
}

#[tokio::test]
async fn g3_a_height_without_an_answer_proves_nothing_when_a_reorg_is_accepted() {
    let mut desk = Desk::new(1).await;
    let stands = desk.chain.mine([Pay::new("stands", "alice", 5)]);
    desk.chain.mine([Pay::new("gone", "alice", 5)]);
    desk.chain.mine_empty(8);
    // One sparse jump over both payments.
    desk.tick().await;
    desk.events().await;
    desk.chain.fork(9);
    desk.chain.mine_empty(12);
    desk.tick().await;
    desk.chain.withhold(Some(stands.height));
    let refused = resumed(&mut desk, resume(true, true)).await.unwrap_err().to_string();
    assert!(refused.contains(&stands.to_string()), "{refused}");
    desk.chain.withhold(None);
    let report = resumed(&mut desk, resume(true, true)).await.unwrap();
    assert_eq!(report.reverted, [ScriptedChain::key("gone", 0)]);
}

#[tokio::test]
async fn g3_a_settled_deposit_is_not_reverted_while_its_height_has_no_answer() {
    let mut desk = too_deep().await;
    let settled = desk.watcher.deps.store.settled_above(&desk.watcher.rules.chain, Height(0)).await.unwrap();
    desk.chain.withhold(Some(settled[0].archived.height));
    assert!(resumed(&mut desk, resume(true, true)).await.is_err());
    desk.chain.withhold(None);
    assert!(resumed(&mut desk, resume(true, true)).await.unwrap().settled.iter().all(|settled| settled.reverted));
}

#[tokio::test]
async fn e06_a_node_of_another_network_halts_before_anything_is_read() {
    let mut desk = Desk::new(1).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    let right = desk.watcher.rules.chain.clone();
    desk.chain.change_network(ChainId::new("scripted:other").unwrap());
    desk.tick().await;
    let Phase::Halted { halt } = desk.phase() else { panic!("{:?}", desk.phase()) };
    assert!(matches!(halt.reason, HaltReason::WrongNetwork { .. }));
    assert_eq!(desk.events().await, []);
    desk.chain.change_network(right);
    resumed(&mut desk, resume(false, false)).await.unwrap();
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("t")]);
}

#[tokio::test]
async fn a_fatal_error_halts_and_names_what_was_tried() {
    let mut desk = Desk::new(1).await;
    desk.chain.fail_next([SourceErrorKind::Fatal]);
    desk.tick().await;
    let Phase::Halted { halt } = desk.phase() else { panic!("{:?}", desk.phase()) };
    assert!(halt.reason.to_string().contains("scripted failure of header_at"), "{}", halt.reason);
}

#[tokio::test]
async fn a_key_that_changes_its_payment_while_its_block_stands_halts_the_chain() {
    let mut desk = Desk::new(3).await;
    desk.chain.mine([Pay::new("t", "alice", 5)]);
    desk.follow().await;
    desk.chain.mine([Pay::new("t", "alice", 6)]);
    desk.tick().await;
    let Phase::Halted { halt } = desk.phase() else { panic!("{:?}", desk.phase()) };
    assert!(matches!(halt.reason, HaltReason::BrokenContract { .. }), "{}", halt.reason);
    assert_eq!(desk.events().await, []);
}

#[tokio::test]
async fn a_node_that_is_right_again_needs_no_acceptance_and_keeps_the_floor() {
    let mut desk = too_deep().await;
    desk.events().await;
    let (before, ours) = (desk.watcher.state().clone(), desk.tip().unwrap());
    desk.chain.return_to(&ours);
    for accept_reorg in [false, true] {
        let report = resumed(&mut desk, resume(accept_reorg, false)).await.unwrap();
        assert_eq!(report, ResumeReport::default());
        let state = desk.watcher.state();
        assert_eq!((&state.trail, &state.reported, &state.halt), (&before.trail, &before.reported, &None));
        let halt = before.halt.clone().unwrap();
        let mut set = ChangeSet::new(desk.watcher.rules.chain.clone(), state.version);
        set.changes.push(Change::Halted(halt));
        desk.watcher.commit(set).await.unwrap();
    }
}

#[tokio::test]
async fn a_reorg_is_not_accepted_from_a_node_of_another_network_however_much_of_the_chain_it_shares() {
    let mut desk = too_deep().await;
    desk.events().await;
    let before = desk.watcher.state().clone();
    let right = desk.watcher.rules.chain.clone();
    desk.chain.change_network(ChainId::new("scripted:other").unwrap());
    for how in [resume(true, true), resume(true, false), resume(false, false)] {
        let refused = resumed(&mut desk, how).await.unwrap_err().to_string();
        assert!(refused.contains("scripted:other"), "{refused}");
    }
    assert_eq!(*desk.watcher.state(), before);
    desk.chain.change_network(right);
    resumed(&mut desk, resume(true, false)).await.unwrap();
    desk.follow().await;
    assert_eq!(desk.events().await, [numbered("reported", 2)]);
}
