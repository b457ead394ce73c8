//! The watcher of one chain: reads, decides, commits. The only writer of that chain's state.

mod command;
mod desired;
mod error;
mod look;
pub mod offline;
mod read;
mod rescan;
mod resume;
mod run;
mod share;
mod span;
mod status;
mod take_over;

pub use command::{Added, NewWatch, WatcherHandle};
pub use desired::ConfigWatch;
pub use error::WatchError;
pub use rescan::{NewRescan, RescanOrder, RescanStatus};
pub use resume::{Resume, ResumeReport, SettledAbove};
pub use status::{ChainStatus, LastReorg, Phase};
pub use take_over::{TakenOver, take_over};

use crate::{DueIndex, Rules};
use command::Command;
use confirmd_core::{ChainSource, ChainState, Change, ChangeSet, Clock, EventKind, NoticesWanted, StateStore, Timestamp};
use rescan::Rescans;
use share::Shared;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

/// What a watcher is made of.
#[derive(Debug, Clone)]
pub struct WatcherDeps {
    /// The chain.
    pub source: Arc<dyn ChainSource>,
    /// Where its state is written down.
    pub store: Arc<dyn StateStore>,
    /// Stands in events; decides nothing.
    pub clock: Arc<dyn Clock>,
    /// Told after a commit with events.
    pub wake: Arc<Notify>,
    /// The addresses of the configuration file.
    pub config_watch: Vec<ConfigWatch>,
}

/// Watches one chain. Make it with [`Watcher::open`], let it run with [`Watcher::run`].
#[derive(Debug)]
pub struct Watcher {
    deps: WatcherDeps,
    rules: Rules,
    state: ChainState,
    due: DueIndex,
    /// The connection count at which the network was last found right.
    identified: Option<u64>,
    /// Configuration and state agree on name, assets and configured addresses.
    in_step: bool,
    /// The next tick decides even if no block is new.
    refold: bool,
    fork_since: Option<(Instant, Timestamp)>,
    behind_since: Option<(Instant, Timestamp)>,
    unreachable_since: Option<Timestamp>,
    span: u64,
    status: watch::Sender<ChainStatus>,
    /// Taken by `run`.
    commands: Option<mpsc::Receiver<Command>>,
    handle: WatcherHandle,
    /// Other instances decide on the same state.
    shared: Option<Shared>,
    rescans: Rescans,
    /// What consumers ask for beside confirmed and reverted.
    notices: Arc<NoticesWanted>,
}

/// Blocks wanted in the first span; grows while few deposits are found.
const FIRST_SPAN: u64 = 100;

/// Commands waiting for the watcher; more callers wait.
const COMMANDS_MAX: usize = 64;

impl Watcher {
    /// Loads the chain's state. Asks the source nothing: a node that is down must not keep others from starting.
    pub async fn open(deps: WatcherDeps) -> Result<Self, WatchError> {
        let profile = deps.source.profile();
        let state = deps.store.load(&profile.chain).await?.unwrap_or_default();
        let rules = Rules {
            chain: profile.chain.clone(),
            chain_name: profile.name.clone(),
            epoch: deps.store.epoch(),
            reorg_depth: profile.reorg_depth,
        };
        let mut first = ChainStatus::new(profile.name.clone(), profile.chain.clone());
        first.take(&state);
        if let Some(halt) = &state.halt {
            first.phase = Phase::Halted { halt: halt.clone() };
        }
        let (status, status_rx) = watch::channel(first);
        let (sender, commands) = mpsc::channel(COMMANDS_MAX);
        let handle = WatcherHandle::new(sender, status_rx, Arc::new(Notify::new()));
        let span = FIRST_SPAN.min(profile.span_max.get());
        Ok(Self {
            due: DueIndex::of(&state),
            rescans: Rescans::new(&state),
            rules,
            state,
            identified: None,
            in_step: false,
            refold: true,
            fork_since: None,
            behind_since: None,
            unreachable_since: None,
            span,
            status,
            commands: Some(commands),
            handle,
            shared: None,
            notices: Arc::default(),
            deps,
        })
    }

    /// Makes the informative events that are asked for here, as it is at each decision. Without it none.
    #[must_use]
    pub fn notices(self, notices: Arc<NoticesWanted>) -> Self {
        Self { notices, ..self }
    }

    /// Talks to this watcher while it runs.
    pub fn handle(&self) -> WatcherHandle {
        self.handle.clone()
    }

    /// The state as of the last commit.
    pub fn state(&self) -> &ChainState {
        &self.state
    }

    /// Commits, then takes the change over: state, due index, pumps, log. A failed commit leaves everything as it was, and its
    /// outcome unknown: the caller must stop (T12).
    async fn commit(&mut self, set: ChangeSet) -> Result<(), WatchError> {
        if set.is_empty() {
            return Ok(());
        }
        self.deps.store.commit(set.clone()).await?;
        self.apply(&set);
        self.announce(&set);
        Ok(())
    }

    /// Takes a committed change set over in memory.
    fn apply(&mut self, set: &ChangeSet) {
        self.state.apply(set);
        if set.changes.iter().any(|change| matches!(change, Change::AssetPut(_))) {
            self.due = DueIndex::of(&self.state);
            self.refold = true;
        } else {
            set.changes.iter().for_each(|change| self.due.apply(change, &self.state.watch));
        }
        self.rescans.apply(&set.changes, &self.state);
        debug_assert_eq!(self.due, DueIndex::of(&self.state), "the due index follows the state");
    }

    /// One line a fact, and a wake-up for the pumps.
    fn announce(&self, set: &ChangeSet) {
        if set.events.is_empty() {
            return;
        }
        for (event, _) in &set.events {
            let (transfer, payment) = (&event.transfer, &event.transfer.payment);
            let line = match event.kind() {
                EventKind::Confirmed => "deposit confirmed",
                EventKind::Reverted => "deposit reverted",
                EventKind::Detected => "deposit detected",
                EventKind::Settled => "deposit settled",
            };
            tracing::info!(chain = %event.chain_name, height = transfer.block.height.0, block = %transfer.block.hash,
                tx = %transfer.key.tx_id, output_index = transfer.key.output_index, address = %payment.address,
                asset = %event.asset.symbol, amount = %payment.amount, sequence = event.sequence.0, event = %event.id, "{line}");
        }
        self.deps.wake.notify_waiters();
    }

    fn publish(&self, change: impl FnOnce(&mut ChainStatus)) {
        let (now, rescans) = (self.deps.clock.now(), self.rescan_status());
        self.status.send_modify(|status| {
            status.take(&self.state);
            status.rescans = rescans;
            change(status);
            status.changed_at = now;
        });
    }
}

#[cfg(test)]
mod tests;
