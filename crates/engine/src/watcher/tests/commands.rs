//! Commands to a running watcher, and to a state without one.

use super::*;
use confirmd_core::WatchOrigin;

fn new_watch(text: &str) -> NewWatch {
    NewWatch { address: ScriptedChain::address(text), reference: None, origin: WatchOrigin::Command, from_height: None }
}

/// Runs the watcher beside the test until the test is done with it.
struct Running {
    handle: WatcherHandle,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<Result<(), WatchError>>,
}

impl Running {
    fn start(watcher: Watcher) -> Self {
        let (stop, stopped) = watch::channel(false);
        Self { handle: watcher.handle(), task: tokio::spawn(watcher.run(stopped)), stop }
    }

    async fn until_at(&self, block: &BlockRef) {
        let mut status = self.handle.subscribe();
        self.handle.wake();
        status.wait_for(|status| status.trail_tip.as_ref() == Some(block)).await.unwrap();
    }

    async fn stop(self) {
        self.stop.send(true).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_address_is_covered_from_the_height_the_answer_names() {
    let Desk { directory, store, chain, watcher } = Desk::new(1).await;
    let running = Running::start(watcher);
    let from = running.handle.add(vec![new_watch("bob")]).await.unwrap().from;
    assert_eq!(from, Height(21));
    let tip = chain.mine([Pay::new("t", "bob", 5)]);
    running.until_at(&tip).await;
    assert_eq!(running.handle.remove(vec![ScriptedChain::address("bob"), ScriptedChain::address("carol")]).await.unwrap(), 1);
    let tip = chain.mine([Pay::new("u", "bob", 5)]);
    running.until_at(&tip).await;
    running.stop().await;
    let watcher = open_watcher(&store, &chain, &["alice"]).await;
    let desk = Desk { directory, store, chain, watcher };
    assert_eq!(desk.events().await, [confirmed("t")]);
}

#[tokio::test]
async fn the_same_commands_work_on_a_state_that_nobody_runs() {
    let desk = Desk::new(1).await;
    let chain_id = desk.watcher.rules.chain.clone();
    let store: Arc<dyn StateStore> = desk.store.clone();
    let from = offline::add(store.as_ref(), &chain_id, &[new_watch("bob")], Timestamp::default()).await.unwrap().from;
    assert_eq!(from, Height(21));
    assert_eq!(offline::remove(store.as_ref(), &chain_id, &[ScriptedChain::address("bob")]).await.unwrap(), 1);
    let refused = offline::resume(store.as_ref(), &desk.chain, &SystemClock, Resume::default()).await.unwrap_err();
    assert!(refused.to_string().contains("not halted"), "{refused}");
}

#[tokio::test]
async fn an_address_that_left_the_configuration_goes_and_one_added_by_command_stays() {
    let desk = Desk::new(1).await;
    let store: Arc<dyn StateStore> = desk.store.clone();
    offline::add(store.as_ref(), &desk.watcher.rules.chain.clone(), &[new_watch("bob")], Timestamp::default()).await.unwrap();
    let chain = desk.chain.clone();
    let mut desk = desk.restart(chain, &["carol"]).await;
    desk.tick().await;
    let watched = |text: &str| desk.watcher.state().watch.get(text.as_bytes()).is_some();
    assert_eq!((watched("alice"), watched("bob"), watched("carol")), (false, true, true));
}

#[tokio::test]
async fn a_command_for_an_address_that_the_configuration_has_just_dropped_counts_before_the_node_has_answered() {
    for running in [true, false] {
        let desk = Desk::new(1).await;
        let chain = desk.chain.clone();
        let mut desk = desk.restart(chain, &["carol"]).await;
        let add = vec![new_watch("alice")];
        if running {
            let (answer, answered) = tokio::sync::oneshot::channel();
            desk.watcher.carry_out(Command::Add(add, answer)).await.unwrap();
            assert_eq!(answered.await.unwrap().unwrap().from, Height(21));
        } else {
            let chain = desk.watcher.rules.chain.clone();
            offline::add(desk.store.as_ref(), &chain, &add, Timestamp::default()).await.unwrap();
            desk.watcher = open_watcher(&desk.store, &desk.chain, &["carol"]).await;
        }
        desk.chain.mine([Pay::new("t", "alice", 5)]);
        desk.follow().await;
        assert_eq!(desk.events().await, [confirmed("t")], "running: {running}");
    }
}

#[tokio::test]
async fn an_address_that_the_configuration_lists_again_goes_with_it() {
    let desk = Desk::new(1).await;
    let chain_id = desk.watcher.rules.chain.clone();
    offline::add(desk.store.as_ref(), &chain_id, &[new_watch("alice")], Timestamp::default()).await.unwrap();
    let lists: [(&[&str], bool); 2] = [(&["alice"], true), (&[], false)];
    for (watch, watched) in lists {
        let mut watcher = open_watcher(&desk.store, &desk.chain, watch).await;
        watcher.tick().await.unwrap();
        assert_eq!(watcher.state().watch.get(b"alice").is_some(), watched);
    }
}

#[tokio::test]
async fn an_address_is_refused_while_no_height_can_be_promised() {
    let chain = ScriptedChain::new(scripted_profile("desk", 1, 6));
    let directory = TempDir::new().unwrap();
    let store = open_store(&directory).await;
    let watcher = open_watcher(&store, &chain, &[]).await;
    let mut set = ChangeSet::new(watcher.rules.chain.clone(), watcher.state.version);
    let busy = std::collections::BTreeSet::new();
    let asking = rescan::Asking::by_command(watcher.state(), &busy, Timestamp(0));
    let refused = command::addition(watcher.state(), &mut set, &[new_watch("bob")], asking).unwrap_err();
    assert!(refused.to_string().contains("no first block yet"), "{refused}");
}

/// A source each of whose calls takes a while of (paused) time.
#[derive(Debug)]
struct Slow(ScriptedChain);

#[async_trait::async_trait]
impl ChainSource for Slow {
    fn profile(&self) -> &ChainProfile {
        self.0.profile()
    }
    async fn identify(&self) -> Result<confirmd_core::ChainId, confirmd_core::SourceError> {
        self.0.identify().await
    }
    async fn tip(&self) -> Result<BlockRef, confirmd_core::SourceError> {
        tokio::time::sleep(std::time::Duration::from_millis(800)).await;
        self.0.tip().await
    }
    async fn header_at(&self, height: Height) -> Result<Option<confirmd_core::BlockHeader>, confirmd_core::SourceError> {
        tokio::time::sleep(std::time::Duration::from_millis(800)).await;
        self.0.header_at(height).await
    }
    async fn headers(&self, from: Height, to: Height) -> Result<Vec<confirmd_core::BlockHeader>, confirmd_core::SourceError> {
        self.0.headers(from, to).await
    }
    async fn finalized(&self, tag: confirmd_core::FinalityTag) -> Result<Option<BlockRef>, confirmd_core::SourceError> {
        self.0.finalized(tag).await
    }
    async fn transfers(
        &self,
        from: Height,
        to: &BlockRef,
        watch: &confirmd_core::WatchSet,
    ) -> Result<Vec<confirmd_core::Transfer>, confirmd_core::SourceError> {
        self.0.transfers(from, to, watch).await
    }
    fn parse_address(&self, text: &str) -> Result<confirmd_core::Address, confirmd_core::AddressError> {
        self.0.parse_address(text)
    }
    async fn inspect(&self) -> Result<Vec<confirmd_core::EndpointStatus>, confirmd_core::SourceError> {
        self.0.inspect().await
    }
    async fn transaction(
        &self,
        tx_id: &str,
        height: Option<Height>,
    ) -> Result<Option<confirmd_core::ShownTransaction>, confirmd_core::SourceError> {
        self.0.transaction(tx_id, height).await
    }

    fn connection(&self) -> u64 {
        self.0.connection()
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_commands_does_not_keep_a_slow_node_from_being_followed() {
    let desk = Desk::new(1).await;
    let tip = desk.chain.mine_empty(3);
    let deps = WatcherDeps { source: Arc::new(Slow(desk.chain.clone())), ..desk.watcher.deps.clone() };
    let running = Running::start(Watcher::open(deps).await.unwrap());
    // Each tick takes longer than a command waits.
    for n in 0..20 {
        running.handle.add(vec![new_watch(&format!("c{n}"))]).await.unwrap();
        if running.handle.status().trail_tip.as_ref() == Some(&tip) {
            return running.stop().await;
        }
    }
    panic!("no tick was let through: {:?}", running.handle.status());
}

#[tokio::test]
async fn a_catch_up_does_not_keep_commands_waiting() {
    let mut profile = scripted_profile("desk", 1, 6);
    profile.start = confirmd_core::StartAt::Height(Height(1));
    profile.span_max = std::num::NonZeroU64::MIN;
    let chain = ScriptedChain::new(profile);
    chain.mine_empty(600);
    let directory = TempDir::new().unwrap();
    let store = open_store(&directory).await;
    let running = Running::start(open_watcher(&store, &chain, &["alice"]).await);
    running.handle.subscribe().wait_for(|status| status.trail_tip.is_some()).await.unwrap();
    let from = running.handle.add(vec![new_watch("bob")]).await.unwrap().from;
    assert!(from < Height(500), "answered only at {from}, after the catch-up");
    running.stop().await;
}
