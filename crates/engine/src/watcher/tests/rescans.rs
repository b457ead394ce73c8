//! Rescans beside the live watch.

use super::*;
use confirmd_core::{AssetId, HeightRange, Rescan, RescanId, RescanScope, RescanState, SourceErrorKind, WatchOrigin};

pub(super) fn since(text: &str, from: u64) -> NewWatch {
    let (address, from_height) = (ScriptedChain::address(text), Some(Height(from)));
    NewWatch { address, reference: None, origin: WatchOrigin::Command, from_height }
}

impl Desk {
    async fn add(&mut self, addresses: Vec<NewWatch>) -> Added {
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.watcher.carry_out(Command::Add(addresses, answer)).await.unwrap();
        answered.await.unwrap().unwrap()
    }

    async fn order(&mut self, id: u64, order: RescanOrder) -> Result<Rescan, WatchError> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.watcher.carry_out(Command::Order(RescanId(id), order, answer)).await.unwrap();
        answered.await.unwrap()
    }

    async fn start(&mut self, scope: RescanScope, from: u64) -> Result<Rescan, WatchError> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let new = NewRescan { scope, from: Height(from), to: None };
        self.watcher.carry_out(Command::Rescan(new, answer)).await.unwrap();
        answered.await.unwrap()
    }

    /// Steps until nothing is left to read, at most 200 times.
    async fn rescan(&mut self) {
        for _ in 0..200 {
            if !self.watcher.rescan_step().await.unwrap() {
                return;
            }
        }
        panic!("not done after 200 steps: {:?}", self.watcher.state().rescans);
    }

    fn rescan_of(&self, id: u64) -> Rescan {
        self.watcher.state().rescans[&RescanId(id)].clone()
    }
}

/// Blocks 1 to 60: bob is paid in every tenth, alice (who is watched from 21 on) in 15 and 45.
pub(super) async fn paid_for_long(span_max: u64) -> Desk {
    let mut profile = scripted_profile("desk", 3, 6);
    profile.span_max = std::num::NonZeroU64::new(span_max).unwrap();
    let chain = ScriptedChain::new(profile);
    for height in 1..=20_u64 {
        pay_at(&chain, height);
    }
    let directory = TempDir::new().unwrap();
    let store = open_store(&directory).await;
    let mut watcher = open_watcher(&store, &chain, &["alice"]).await;
    watcher.tick().await.unwrap();
    let mut desk = Desk { directory, store, chain, watcher };
    for height in 21..=60_u64 {
        pay_at(&desk.chain, height);
    }
    desk.follow().await;
    desk
}

pub(super) fn pay_at(chain: &ScriptedChain, height: u64) {
    let pays = match height {
        15 | 45 => vec![Pay::new(&format!("a{height}"), "alice", 5)],
        _ if height.is_multiple_of(10) => vec![Pay::new(&format!("b{height}"), "bob", 5)],
        _ => vec![],
    };
    chain.mine(pays);
}

pub(super) fn names(events: &[(String, u64)]) -> Vec<&str> {
    let mut names: Vec<&str> = events.iter().map(|(tx, _)| tx.as_str()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn an_address_is_read_from_the_height_it_was_asked_from() {
    for span_max in [1, 7, 1000] {
        let mut desk = paid_for_long(span_max).await;
        assert_eq!(desk.events().await, [confirmed("a45")]);
        let added = desk.add(vec![since("bob", 20)]).await;
        assert_eq!((added.from, added.rescan), (Height(61), Some(RescanId(1))));
        desk.rescan().await;
        let events = desk.events().await;
        // 60 is the trail's tip: one confirmation of three.
        assert_eq!(names(&events), ["b20", "b30", "b40", "b50"], "span {span_max}");
        assert_eq!(desk.watcher.state().pending.len(), 1, "what is not deep enough is pending, as ever");
        let done = desk.rescan_of(1);
        assert_eq!((done.state, done.found, done.from, done.to), (RescanState::Done, 5, Height(20), Height(60)));
        assert_eq!(done.read_to, Some(desk.chain.best_block(Height(60)).unwrap()));
        desk.chain.mine_empty(2);
        desk.follow().await;
        assert_eq!(desk.events().await, [confirmed("b60")]);
    }
}

#[tokio::test]
async fn what_is_below_the_floor_is_confirmed_and_settled_in_one_commit_and_never_again() {
    let mut desk = paid_for_long(1000).await;
    desk.add(vec![since("bob", 1)]).await;
    desk.rescan().await;
    let settled = desk.store.settled_above(&desk.watcher.rules.chain, Height(0)).await.unwrap();
    assert_eq!(settled.iter().filter(|one| one.archived.height <= Height(54)).count(), 6);
    assert_eq!(names(&desk.events().await), ["a45", "b10", "b20", "b30", "b40", "b50"]);
    // Everything is read again, by another rescan, after a restart, and for everybody.
    let chain = desk.chain.clone();
    let mut desk = desk.restart(chain, &["alice"]).await;
    desk.tick().await;
    let rescan = desk.start(RescanScope::Everything, 1).await.unwrap();
    assert_eq!(rescan.id, RescanId(2));
    desk.rescan().await;
    assert_eq!(desk.events().await, [confirmed("a15")], "only what was missing");
    assert_eq!(desk.rescan_of(2).found, 1);
}

#[tokio::test]
async fn many_additions_are_read_in_one_pass_each_from_its_own_height() {
    let mut desk = paid_for_long(1000).await;
    desk.chain.mine([Pay::new("c", "carol", 1), Pay::new("d", "dave", 1)]);
    desk.chain.mine_empty(20);
    desk.follow().await;
    desk.events().await;
    for (name, from) in [("bob", 30), ("carol", 61), ("dave", 62)] {
        assert_eq!(desk.add(vec![since(name, from)]).await.rescan, Some(RescanId(1)));
    }
    assert_eq!(desk.rescan_of(1).addresses, 3);
    let before = desk.chain.requests();
    desk.rescan().await;
    assert!(desk.chain.requests() - before <= 8, "{} requests for one pass over 52 blocks", desk.chain.requests() - before);
    assert_eq!(names(&desk.events().await), ["b30", "b40", "b50", "b60", "c"]);
}

#[tokio::test]
async fn an_address_that_comes_while_a_rescan_is_read_gets_its_whole_range_in_the_same_pass() {
    let mut desk = paid_for_long(10).await;
    desk.events().await;
    desk.add(vec![since("bob", 1)]).await;
    desk.watcher.rescan_step().await.unwrap();
    desk.watcher.rescan_step().await.unwrap();
    desk.chain.mine([]);
    desk.follow().await;
    let second = desk.add(vec![since("alice", 1)]).await;
    assert_eq!(second.rescan, Some(RescanId(2)), "one that is being read takes no more addresses");
    desk.rescan().await;
    assert_eq!(names(&desk.events().await), ["a15", "b10", "b20", "b30", "b40", "b50"]);
    assert_eq!((desk.rescan_of(1).state, desk.rescan_of(2).state), (RescanState::Done, RescanState::Done));
}

#[tokio::test]
async fn nothing_is_read_again_for_what_is_covered() {
    let mut desk = paid_for_long(1000).await;
    assert_eq!(desk.add(vec![since("bob", 61)]).await.rescan, None, "the live watch covers it");
    assert_eq!(desk.add(vec![since("alice", 30)]).await.rescan, None, "watched since 21");
    assert_eq!(desk.add(vec![since("bob", 20)]).await.rescan, Some(RescanId(1)));
    assert_eq!(desk.add(vec![since("bob", 30)]).await.rescan, None, "asked for already");
    assert_eq!(desk.add(vec![NewWatch { from_height: None, ..since("bob", 1) }]).await.rescan, None);
    desk.rescan().await;
    assert_eq!(desk.add(vec![since("bob", 20)]).await.rescan, None, "read already");
    assert_eq!(desk.add(vec![since("bob", 10)]).await.rescan, Some(RescanId(2)));
    desk.rescan().await;
    assert_eq!(names(&desk.events().await), ["a45", "b10", "b20", "b30", "b40", "b50"]);
}

#[tokio::test]
async fn a_restart_amid_a_rescan_goes_on_where_it_was() {
    let mut desk = paid_for_long(10).await;
    desk.events().await;
    desk.add(vec![since("bob", 1)]).await;
    for _ in 0..3 {
        desk.watcher.rescan_step().await.unwrap();
    }
    assert_eq!(desk.rescan_of(1).left, [HeightRange { from: Height(31), to: Height(60) }]);
    let chain = desk.chain.clone();
    let mut desk = desk.restart(chain, &["alice"]).await;
    assert!(!desk.watcher.rescan_step().await.unwrap(), "nobody knows yet which network the node serves");
    desk.tick().await;
    desk.rescan().await;
    assert_eq!(names(&desk.events().await), ["b10", "b20", "b30", "b40", "b50"]);
}

#[tokio::test]
async fn a_step_that_was_read_but_not_committed_leaves_nothing() {
    let mut desk = paid_for_long(10).await;
    desk.events().await;
    desk.add(vec![since("bob", 1)]).await;
    assert!(desk.watcher.begin_rescan_step(true));
    let read = desk.watcher.rescans.ended().await;
    assert!(read.0.is_ok());
    let chain = desk.chain.clone();
    let mut desk = desk.restart(chain, &["alice"]).await;
    desk.tick().await;
    assert_eq!(desk.rescan_of(1).heights_left(), 60);
    desk.rescan().await;
    assert_eq!(names(&desk.events().await), ["b10", "b20", "b30", "b40", "b50"]);
}

#[tokio::test]
async fn a_reorg_between_a_steps_read_and_its_commit_discards_it() {
    let mut desk = paid_for_long(1000).await;
    desk.chain.mine([Pay::new("c", "carol", 1)]);
    desk.chain.mine_empty(3);
    desk.follow().await;
    desk.events().await;
    desk.add(vec![since("carol", 55)]).await;
    assert!(desk.watcher.begin_rescan_step(true));
    let read = desk.watcher.rescans.ended().await;
    assert_eq!(read.0.as_ref().unwrap().transfers.len(), 1, "it stands in block 61 of the old branch");
    desk.chain.fork(4);
    desk.chain.mine_empty(4);
    desk.chain.mine([Pay::new("c2", "carol", 1)]);
    desk.follow().await;
    desk.watcher.take_rescan_step(read).await.unwrap();
    assert_eq!(desk.events().await, [], "the payment left with its branch");
    let cut = desk.rescan_of(1);
    assert_eq!((cut.to, cut.state), (Height(60), RescanState::Running), "the live watch read what replaced the rest");
    desk.rescan().await;
    desk.chain.mine_empty(2);
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("c2")]);
}

#[tokio::test]
async fn a_reorg_that_the_watcher_has_not_seen_yet_stops_the_rescan_until_it_has() {
    let mut desk = paid_for_long(1000).await;
    desk.events().await;
    desk.add(vec![since("bob", 1)]).await;
    desk.chain.fork(3);
    desk.chain.mine_empty(5);
    assert!(desk.watcher.rescan_step().await.unwrap());
    assert_eq!(desk.events().await, [], "nothing is decided on a branch that is left");
    assert_eq!(desk.rescan_of(1).heights_left(), 60);
    desk.follow().await;
    desk.rescan().await;
    assert_eq!(names(&desk.events().await), ["b10", "b20", "b30", "b40", "b50"]);
    assert_eq!(desk.rescan_of(1).to, Height(57));
}

#[tokio::test]
async fn a_deposit_that_a_rescan_found_is_reverted_like_any_other() {
    let mut desk = paid_for_long(1000).await;
    desk.chain.mine([Pay::new("c", "carol", 1)]);
    desk.chain.mine_empty(3);
    desk.follow().await;
    desk.events().await;
    desk.add(vec![since("carol", 55)]).await;
    desk.rescan().await;
    assert_eq!(desk.events().await, [confirmed("c")]);
    desk.chain.fork(4);
    desk.chain.mine_empty(2);
    desk.chain.mine([Pay::new("c", "carol", 1)]);
    desk.chain.mine_empty(3);
    desk.follow().await;
    assert_eq!(desk.events().await, [numbered("c", 2), numbered("c", 3)]);
    assert_eq!(desk.rescan_of(1).read_to.unwrap().height, Height(60), "the ledger keeps to what is on the branch");
}

#[tokio::test]
async fn a_rescan_is_paused_resumed_and_cancelled() {
    let mut desk = paid_for_long(10).await;
    desk.events().await;
    desk.add(vec![since("bob", 1)]).await;
    desk.watcher.rescan_step().await.unwrap();
    assert_eq!(desk.order(1, RescanOrder::Pause).await.unwrap().state, RescanState::Paused);
    assert!(!desk.watcher.rescan_step().await.unwrap());
    let chain = desk.chain.clone();
    let mut desk = desk.restart(chain, &["alice"]).await;
    desk.tick().await;
    assert!(!desk.watcher.rescan_step().await.unwrap(), "a pause survives a restart");
    assert_eq!(desk.order(1, RescanOrder::Resume).await.unwrap().state, RescanState::Running);
    desk.watcher.rescan_step().await.unwrap();
    assert_eq!(desk.rescan_of(1).heights_left(), 40);
    assert_eq!(desk.order(1, RescanOrder::Cancel).await.unwrap().state, RescanState::Cancelled);
    assert!(!desk.watcher.rescan_step().await.unwrap());
    assert_eq!(names(&desk.events().await), ["b10", "b20"], "what was found stays");
    let refused = desk.order(1, RescanOrder::Resume).await.unwrap_err().to_string();
    assert!(refused.contains("rescan 1 is cancelled"), "{refused}");
    let refused = desk.order(7, RescanOrder::Pause).await.unwrap_err().to_string();
    assert!(refused.contains("no rescan 7"), "{refused}");
    // Whoever asks again gets it anew.
    assert_eq!(desk.add(vec![since("bob", 1)]).await.rescan, Some(RescanId(2)));
    desk.rescan().await;
    assert_eq!(names(&desk.events().await), ["b30", "b40", "b50"]);
}

#[tokio::test]
async fn a_step_is_discarded_if_its_rescan_was_paused_while_it_was_read() {
    let mut desk = paid_for_long(1000).await;
    desk.events().await;
    desk.add(vec![since("bob", 1)]).await;
    assert!(desk.watcher.begin_rescan_step(true));
    let read = desk.watcher.rescans.ended().await;
    desk.order(1, RescanOrder::Pause).await.unwrap();
    desk.watcher.take_rescan_step(read).await.unwrap();
    assert_eq!((desk.events().await, desk.rescan_of(1).heights_left()), (vec![], 60));
}

#[tokio::test]
async fn a_removed_address_is_not_read_for() {
    let mut desk = paid_for_long(10).await;
    desk.events().await;
    desk.add(vec![since("bob", 1)]).await;
    desk.watcher.rescan_step().await.unwrap();
    let (answer, answered) = tokio::sync::oneshot::channel();
    desk.watcher.carry_out(Command::Remove(vec![ScriptedChain::address("bob")], answer)).await.unwrap();
    assert_eq!(answered.await.unwrap().unwrap(), 1);
    desk.rescan().await;
    assert_eq!(names(&desk.events().await), ["b10"]);
}

#[tokio::test]
async fn a_node_that_can_not_give_history_fails_the_rescan_and_not_the_chain() {
    let mut desk = paid_for_long(1000).await;
    desk.events().await;
    desk.add(vec![since("bob", 1)]).await;
    desk.chain.fail_next([SourceErrorKind::Transient { retry_after: None }]);
    desk.watcher.rescan_step().await.unwrap();
    assert_eq!(desk.rescan_of(1).state, RescanState::Running, "tried again later");
    desk.chain.fail_next([SourceErrorKind::Fatal]);
    desk.watcher.rescan_step().await.unwrap();
    assert!(matches!(desk.rescan_of(1).state, RescanState::Failed(why) if why.contains("scripted failure")));
    assert!(!desk.watcher.rescan_step().await.unwrap());
    desk.chain.mine([Pay::new("t", "alice", 1)]);
    desk.chain.mine_empty(2);
    desk.follow().await;
    assert_eq!(desk.events().await, [confirmed("t")], "the live watch goes on");
    desk.order(1, RescanOrder::Resume).await.unwrap();
    desk.rescan().await;
    assert_eq!(names(&desk.events().await), ["b10", "b20", "b30", "b40", "b50", "b60"]);
}

#[tokio::test]
async fn an_asset_that_is_listed_later_is_read_from_a_height_on() {
    let mut profile = scripted_profile("desk", 1, 6);
    let later = AssetId::native(&profile.chain, 2).unwrap();
    let mut token = profile.assets[0].clone();
    (token.asset.id, token.asset.symbol) = (later.clone(), "LATER".to_owned());
    let before = profile.clone();
    profile.assets.push(token);
    let chain = ScriptedChain::new(profile);
    chain.mine_empty(20);
    let directory = TempDir::new().unwrap();
    let store = open_store(&directory).await;
    let mut watcher = open_watcher(&store, &chain.with_profile(before), &["alice"]).await;
    watcher.tick().await.unwrap();
    let mut desk = Desk { directory, store, chain: chain.clone(), watcher };
    for height in 21..=40 {
        desk.chain
            .mine([Pay { asset: 1, ..Pay::new(&format!("t{height}"), "alice", 1) }, Pay::new(&format!("c{height}"), "alice", 1)]);
    }
    desk.follow().await;
    assert_eq!(desk.events().await.len(), 20, "the token is not listed");
    let refused = desk.start(RescanScope::Asset(later.clone()), 30).await.unwrap_err().to_string();
    assert!(refused.contains("not listed"), "{refused}");
    let mut desk = desk.restart(chain, &["alice"]).await;
    desk.tick().await;
    desk.start(RescanScope::Asset(later), 35).await.unwrap();
    desk.rescan().await;
    assert_eq!(names(&desk.events().await), ["t35", "t36", "t37", "t38", "t39", "t40"]);
    assert_eq!(desk.rescan_of(1).found, 6);
}

#[tokio::test]
async fn a_block_with_very_many_deposits_is_a_commit_of_its_own() {
    let mut desk = Desk::new(1).await;
    desk.chain.mine((0..700).map(|n| Pay { output_index: n, ..Pay::new("many", "bob", 1) }));
    desk.chain.mine((0..300).map(|n| Pay { output_index: n, ..Pay::new("some", "bob", 1) }));
    desk.chain.mine((0..300).map(|n| Pay { output_index: n, ..Pay::new("more", "bob", 1) }));
    desk.chain.mine_empty(3);
    desk.follow().await;
    desk.add(vec![since("bob", 1)]).await;
    desk.rescan().await;
    assert_eq!((desk.events().await.len(), desk.rescan_of(1).found), (1300, 1300));
}

#[tokio::test]
async fn an_empty_slot_at_a_steps_end_is_read_past() {
    let mut profile = scripted_profile("desk", 1, 6);
    profile.span_max = std::num::NonZeroU64::new(5).unwrap();
    let chain = ScriptedChain::new(profile);
    for height in 1..=60_u64 {
        if height.is_multiple_of(5) {
            chain.skip_slot();
        } else {
            chain.mine([Pay::new(&format!("t{height}"), "bob", 1)]);
        }
    }
    chain.mine_empty(1);
    let directory = TempDir::new().unwrap();
    let store = open_store(&directory).await;
    let mut watcher = open_watcher(&store, &chain, &["alice"]).await;
    watcher.tick().await.unwrap();
    let mut desk = Desk { directory, store, chain, watcher };
    desk.follow().await;
    desk.add(vec![since("bob", 1)]).await;
    desk.rescan().await;
    assert_eq!(desk.events().await.len(), 48);
}

#[tokio::test]
async fn the_configuration_asks_once_for_an_addresss_history() {
    let desk = paid_for_long(1000).await;
    desk.events().await;
    let configured = |from: u64| {
        let (address, reference) = (ScriptedChain::address("bob"), None);
        vec![ConfigWatch { address, reference, from_height: Some(Height(from)) }]
    };
    let mut desk = desk;
    for round in 0..2 {
        let deps = WatcherDeps { config_watch: configured(20), ..desk.watcher.deps.clone() };
        desk.watcher = Watcher::open(deps).await.unwrap();
        desk.tick().await;
        desk.rescan().await;
        assert_eq!(desk.watcher.state().rescans.len(), 1, "round {round}");
    }
    assert_eq!(names(&desk.events().await), ["b20", "b30", "b40", "b50"]);
    let deps = WatcherDeps { config_watch: configured(5), ..desk.watcher.deps.clone() };
    desk.watcher = Watcher::open(deps).await.unwrap();
    desk.tick().await;
    desk.order(2, RescanOrder::Cancel).await.unwrap();
    let deps = WatcherDeps { config_watch: configured(5), ..desk.watcher.deps.clone() };
    desk.watcher = Watcher::open(deps).await.unwrap();
    desk.tick().await;
    assert_eq!(desk.watcher.state().rescans.len(), 2, "an operator's cancel outlives a start");
}

#[tokio::test]
async fn of_two_instances_that_read_the_same_history_one_is_discarded() {
    let mut desk = paid_for_long(1000).await;
    desk.events().await;
    desk.add(vec![since("bob", 1)]).await;
    let mut other = open_watcher(&desk.store, &desk.chain, &["alice"]).await;
    other.tick().await.unwrap();
    assert!(other.begin_rescan_step(true));
    let read = other.rescans.ended().await;
    desk.rescan().await;
    other.take_rescan_step(read).await.unwrap();
    assert_eq!(other.state().rescans[&RescanId(1)].state, RescanState::Done, "it caught up");
    assert_eq!(names(&desk.events().await), ["b10", "b20", "b30", "b40", "b50"]);
}

#[tokio::test]
async fn a_deposit_that_was_settled_while_a_step_was_read_is_not_told_again() {
    let mut desk = paid_for_long(1000).await;
    desk.chain.mine([Pay::new("x", "alice", 1)]);
    desk.follow().await;
    desk.start(RescanScope::Everything, 55).await.unwrap();
    assert!(desk.watcher.begin_rescan_step(true));
    let read = desk.watcher.rescans.ended().await;
    // Six more, one by one: the tip the step was read under stays on the trail, and the deposit is settled.
    for _ in 0..6 {
        desk.chain.mine([]);
        desk.follow().await;
    }
    assert!(desk.watcher.state().reported.is_empty());
    desk.watcher.take_rescan_step(read).await.unwrap();
    assert_eq!(names(&desk.events().await), ["a45", "x"]);
}

#[tokio::test]
async fn a_command_on_a_state_that_nobody_runs_is_read_by_the_next_watcher() {
    let desk = paid_for_long(1000).await;
    desk.events().await;
    let (chain_id, now) = (desk.watcher.rules.chain.clone(), SystemClock.now());
    let store: Arc<dyn StateStore> = desk.store.clone();
    let added = offline::add(store.as_ref(), &chain_id, &[since("bob", 30)], now).await.unwrap();
    assert_eq!(added.rescan, Some(RescanId(1)));
    let paused = offline::order_rescan(store.as_ref(), &chain_id, RescanId(1), RescanOrder::Pause, now).await.unwrap();
    assert_eq!(paused.state, RescanState::Paused);
    offline::order_rescan(store.as_ref(), &chain_id, RescanId(1), RescanOrder::Resume, now).await.unwrap();
    let everything = NewRescan { scope: RescanScope::Everything, from: Height(1), to: Some(Height(16)) };
    offline::rescan(store.as_ref(), &chain_id, &everything, now).await.unwrap();
    let chain = desk.chain.clone();
    let mut desk = desk.restart(chain, &["alice"]).await;
    desk.tick().await;
    desk.rescan().await;
    assert_eq!(names(&desk.events().await), ["a15", "b10", "b30", "b40", "b50"]);
}
