//! One watcher per chain, each on its own: what happens to one changes nothing for another (G9).

use super::heads;
use super::tasks::{Part, Tasks};
use super::traces::{TracedSource, Traces};
use crate::config::ChainConfig;
use crate::operator::{ChainSlot, LocalOperator};
use crate::stop::Stop;
use confirmd_core::{ChainSource, Clock, NewHeads, NoticesWanted, Sharing, StateStore, StoreError, with_causes};
use confirmd_engine::{ConfigWatch, WatchError, Watcher, WatcherDeps};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Before a watcher that failed is started again from what is on disk.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Starts the watcher of a slot that was made of this configuration.
pub(super) fn spawn(
    slot: &Arc<ChainSlot>,
    chain: &ChainConfig,
    operator: &Arc<LocalOperator>,
    traces: &Arc<Traces>,
    tasks: &Tasks,
) -> Part {
    let (slot, config_watch, rescan_share) = (slot.clone(), config_watch(chain), chain.rescan_share);
    let new_heads = chain.new_heads.clone();
    let (store, clock, wake) = (operator.stores.state.clone(), operator.clock.clone(), operator.wake.clone());
    let sharing = operator.stores.sharing.clone();
    let notices = operator.notices.clone();
    let source = TracedSource::around(slot.source.clone(), traces.clone());
    let supervised = |stop| {
        Supervised {
            slot: slot.clone(),
            source,
            config_watch,
            rescan_share,
            new_heads,
            store,
            sharing,
            notices,
            clock,
            wake,
            stop,
        }
        .run()
    };
    tasks.spawn_part(format!("chain {}", slot.name), supervised)
}

fn config_watch(chain: &ChainConfig) -> Vec<ConfigWatch> {
    let copy = |one: &crate::config::ConfiguredAddress| ConfigWatch {
        address: one.address.clone(),
        reference: one.reference.clone(),
        from_height: one.from_height,
    };
    chain.watch.iter().map(copy).collect()
}

struct Supervised {
    slot: Arc<ChainSlot>,
    source: Arc<dyn ChainSource>,
    config_watch: Vec<ConfigWatch>,
    rescan_share: u32,
    new_heads: Option<Arc<dyn NewHeads>>,
    store: Arc<dyn StateStore>,
    sharing: Option<Arc<dyn Sharing>>,
    notices: Arc<NoticesWanted>,
    clock: Arc<dyn Clock>,
    wake: Arc<Notify>,
    stop: Stop,
}

/// What to do with a watcher that ended.
enum Ended {
    /// As it should.
    Stopped,
    /// The store can't be trusted any more.
    Fatal(String),
    /// Only this chain: from what is on disk, again.
    Again(String),
}

impl Supervised {
    async fn run(self) {
        while !self.stop.is_stopped() {
            let ended = self.once().await;
            self.slot.set(None);
            let why = match ended {
                Ended::Stopped => return,
                Ended::Fatal(why) => return self.stop.fail(format!("chain {}: {why}", self.slot.name)),
                Ended::Again(why) => why,
            };
            tracing::error!(chain = %self.slot.name, error = why, "the watcher failed and is started again from the state on disk");
            tokio::select! {
                biased;
                () = self.stop.stopped() => return,
                () = tokio::time::sleep(AGAIN_AFTER) => {}
            }
        }
    }

    async fn once(&self) -> Ended {
        let deps = WatcherDeps {
            source: self.source.clone(),
            store: self.store.clone(),
            clock: self.clock.clone(),
            wake: self.wake.clone(),
            config_watch: self.config_watch.clone(),
        };
        let watcher = match Watcher::open(deps).await {
            Ok(watcher) => watcher.rescan_share(self.rescan_share).notices(self.notices.clone()),
            Err(error) => return ended(&error),
        };
        let watcher = match &self.sharing {
            Some(sharing) => watcher.sharing(sharing.clone()),
            None => watcher,
        };
        let handle = watcher.handle();
        self.slot.set(Some(handle.clone()));
        // A task of its own: a panic ends the watcher, not its supervision. Dropped with us, it is aborted.
        let mut task = tokio::task::JoinSet::new();
        task.spawn(watcher.run(self.stop.receiver()));
        if let Some(new_heads) = self.new_heads.clone() {
            let chain = self.slot.name.clone();
            task.spawn(async move {
                heads::follow(&chain, new_heads.as_ref(), || handle.wake()).await;
                Ok(())
            });
        }
        match task.join_next().await {
            None | Some(Ok(Ok(()))) => Ended::Stopped,
            Some(Ok(Err(error))) => ended(&error),
            Some(Err(panic)) => Ended::Again(panic.to_string()),
        }
    }
}

fn ended(error: &WatchError) -> Ended {
    let text = with_causes(error);
    match error {
        WatchError::Store(StoreError::Unknown { .. } | StoreError::Refused { .. }) => Ended::Fatal(text),
        _ => Ended::Again(text),
    }
}
