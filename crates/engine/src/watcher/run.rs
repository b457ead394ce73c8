//! The watcher's loop: a tick, then a wait, commands in between.

use super::command::Command;
use super::read::{ReadError, Reader, Reading};
use super::rescan::Asking;
use super::share::{Standing, is_conflict};
use super::{LastReorg, Phase, WatchError, Watcher, desired};
use crate::fold::{Observation, fold};
use crate::shutdown::stopped;
use confirmd_core::{
    BlockRef, Change, ChangeSet, EventKind, Halt, HaltReason, Height, SourceError, SourceErrorKind, with_causes,
};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// What to do after a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// More is to be read.
    AtOnce,
    /// A command broke a read off: the next one is not broken off again.
    Uninterrupted,
    /// Look again at the next poll; not before this, if the source asked for it.
    Wait(Option<Duration>),
    /// Another instance reads the node, for so long at least.
    TheirTurn(Duration),
}

/// At a moment, or never.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// A command waits at most so long for a read that is under way; then the read is dropped and begun again. The one after it is
/// let through, however many commands come, so that a slow node is still followed.
const COMMAND_WAIT: Duration = Duration::from_secs(1);

impl Watcher {
    /// Watches until told to stop, or until the store fails. State changes only in commits, so it may be stopped anywhere.
    pub async fn run(mut self, mut shutdown: watch::Receiver<bool>) -> Result<(), WatchError> {
        let Some(mut commands) = self.commands.take() else { return Err(WatchError::Stopped) };
        let early = self.handle.early.clone();
        let mut patience = Some(COMMAND_WAIT);
        loop {
            // Also while ticks follow each other without a wait.
            while let Ok(command) = commands.try_recv() {
                self.carry_out(command).await?;
            }
            let next = tokio::select! {
                biased;
                () = stopped(&mut shutdown) => return Ok(()),
                next = self.tick_or_command(&mut commands, patience) => next?,
            };
            patience = (next != Next::Uninterrupted).then_some(COMMAND_WAIT);
            let delay = match next {
                Next::AtOnce | Next::Uninterrupted => continue,
                Next::Wait(at_least) => self.deps.source.profile().poll_interval.max(at_least.unwrap_or_default()),
                Next::TheirTurn(left) => left,
            };
            // Others read the node now: they read its history, too.
            let rescans = !matches!(next, Next::TheirTurn(_));
            let until = Instant::now() + delay;
            loop {
                if rescans {
                    self.begin_rescan_step(false);
                }
                let others = Self::others(self.heard_by());
                let due = self.rescan_due_at().filter(|_| rescans);
                tokio::select! {
                    biased;
                    () = stopped(&mut shutdown) => return Ok(()),
                    Some(command) = commands.recv() => self.carry_out(command).await?,
                    () = early.notified() => {}
                    () = others => self.is_stale(),
                    () = sleep_until(until) => {}
                    end = self.rescans.ended() => {
                        self.take_rescan_step(end).await?;
                        continue;
                    }
                    () = at(due) => continue,
                }
                break;
            }
        }
    }

    /// One tick, whether or not anything is new; for tests and for whoever drives the time themselves.
    pub async fn tick(&mut self) -> Result<(), WatchError> {
        if self.state.halt.is_none() {
            let connection = self.deps.source.connection();
            let read = self.reader(connection).read().await;
            self.take_or_discard(read, connection).await?;
        }
        Ok(())
    }

    /// A command breaks the tick's read off after `patience`; never without one.
    async fn tick_or_command(
        &mut self,
        commands: &mut mpsc::Receiver<Command>,
        patience: Option<Duration>,
    ) -> Result<Next, WatchError> {
        let standing = self.wait_for_turn().await?;
        if let Standing::Theirs(left) = standing {
            return Ok(Next::TheirTurn(left));
        }
        if self.state.halt.is_some() {
            return Ok(Next::Wait(None));
        }
        let impatient = async {
            match patience {
                Some(patience) => sleep(patience).await,
                None => std::future::pending().await,
            }
            commands.recv().await
        };
        let connection = self.deps.source.connection();
        let reader = self.reader(connection);
        let read = tokio::select! {
            biased;
            read = reader.read() => Ok(read),
            Some(command) = impatient => Err(command),
        };
        match read {
            Ok(read) => {
                if let Standing::Look(left) = standing {
                    let more = self.look(read, connection).await?;
                    return Ok(if more { Next::AtOnce } else { Next::TheirTurn(left) });
                }
                let next = self.take_or_discard(read, connection).await;
                self.keep_or_pass_turn().await?;
                next
            }
            Err(command) => self.carry_out(command).await.map(|()| Next::Uninterrupted),
        }
    }

    /// Of two ticks from one state only one is committed: the other one is as if it had never been.
    pub(super) async fn take_or_discard(
        &mut self,
        read: Result<Reading, ReadError>,
        connection: u64,
    ) -> Result<Next, WatchError> {
        match self.take(read, connection).await {
            Err(error) if is_conflict(&error) => {
                tracing::debug!(chain = %self.rules.chain_name, error = %error, "the tick is discarded");
                self.catch_up().await?;
                Ok(Next::AtOnce)
            }
            taken => taken,
        }
    }

    pub(super) fn reader(&self, connection: u64) -> Reader<'_> {
        Reader {
            source: self.deps.source.as_ref(),
            store: self.deps.store.as_ref(),
            state: &self.state,
            due: &self.due,
            identified: self.identified == Some(connection),
            fork_ripe: self.fork_since.is_some_and(|(since, _)| since.elapsed() >= self.deps.source.profile().fork_grace),
            refold: self.refold,
            span: self.span,
            now: self.deps.clock.now(),
        }
    }

    /// The deciding half of a tick that was read while the source stood at `connection`.
    async fn take(&mut self, read: Result<Reading, ReadError>, connection: u64) -> Result<Next, WatchError> {
        let reading = match read {
            Ok(reading) => reading,
            Err(ReadError::Store(error)) => return Err(error.into()),
            Err(ReadError::Source(error)) => return self.no_answer(error).await,
        };
        self.unreachable_since = None;
        if self.deps.source.connection() != connection {
            // Part of it may come from a node whose network nobody has looked at yet (S1).
            return Ok(Next::AtOnce);
        }
        if !matches!(reading, Reading::Halt(_)) {
            self.identified = Some(connection);
        }
        if !matches!(reading, Reading::ShorterFork { .. }) {
            self.fork_since = None;
        }
        if !matches!(reading, Reading::Behind { .. }) {
            self.behind_since = None;
        }
        match reading {
            Reading::Halt(reason) => self.halt(reason).await,
            Reading::Seed { tip, blocks, floor } => self.seed(tip, blocks, floor).await,
            Reading::Behind { tip } => Ok(self.behind(tip)),
            Reading::ShorterFork { tip, ancestor } => Ok(self.wait_for_fork(tip, ancestor)),
            Reading::Idle { tip } => {
                self.keep_in_step().await?;
                self.publish_phase(tip, Phase::Following);
                // A changed policy is decided on at once.
                Ok(if self.refold { Next::AtOnce } else { Next::Wait(None) })
            }
            Reading::Seen { tip, seen, reorg, next_span } => {
                if self.keep_in_step().await? {
                    // What was read was read for other addresses and assets.
                    return Ok(Next::AtOnce);
                }
                self.span = next_span;
                self.decide(tip, seen, reorg).await
            }
        }
    }

    async fn seed(&mut self, tip: BlockRef, blocks: Vec<BlockRef>, floor: Height) -> Result<Next, WatchError> {
        let first = blocks.last().map(|block| block.height.next()).unwrap_or_default();
        let mut set = ChangeSet::new(self.rules.chain.clone(), self.state.version);
        set.changes.extend(blocks.into_iter().map(Change::TrailPushed));
        set.changes.push(Change::FloorRaised(floor));
        set.changes.extend(self.desired(first));
        self.commit(set).await?;
        self.in_step = true;
        tracing::info!(chain = %self.rules.chain_name, height = first.0, watched = self.state.watch.len(), "watching begins");
        self.publish_phase(tip, Phase::CatchingUp);
        Ok(Next::AtOnce)
    }

    fn desired(&self, from: Height) -> Vec<Change> {
        let busy = self.rescans.busy();
        let asking = Asking::by_config(&self.state, &busy, self.deps.clock.now());
        desired::changes(&self.state, self.deps.source.profile(), &self.deps.config_watch, from, asking)
    }

    /// Brings the state in step with the configuration, once. Returns whether that changed anything.
    async fn keep_in_step(&mut self) -> Result<bool, WatchError> {
        if self.in_step {
            return Ok(false);
        }
        let from = self.state.trail.tip().map(|tip| tip.height.next()).unwrap_or_default();
        let mut set = ChangeSet::new(self.rules.chain.clone(), self.state.version);
        set.changes = self.desired(from);
        let changed = !set.is_empty();
        self.commit(set).await?;
        self.in_step = true;
        Ok(changed)
    }

    async fn decide(&mut self, tip: BlockRef, seen: Observation, reorg: Option<(BlockRef, u64)>) -> Result<Next, WatchError> {
        let seen = Observation { notices: self.notices.of(&self.rules.chain), ..seen };
        let set = match fold(&self.state, &self.due, &seen, &self.rules) {
            Ok(set) => set,
            Err(breach) => return self.halt(HaltReason::BrokenContract { detail: breach.to_string() }).await,
        };
        let reverted = set.decisions().filter(|event| event.kind() == EventKind::Reverted).count();
        self.commit(set).await?;
        self.refold = false;
        if let Some((ancestor, orphaned)) = reorg {
            tracing::warn!(chain = %self.rules.chain_name, height = ancestor.height.0, block = %ancestor.hash, orphaned, reverted,
                "blocks left the best chain");
            let reverted = u64::try_from(reverted).unwrap_or(u64::MAX);
            let last = LastReorg { ancestor, orphaned, reverted, at: self.deps.clock.now() };
            self.publish(|status| status.last_reorg = Some(last));
        }
        let read_to = self.state.trail.tip().map(|tip| tip.height).unwrap_or_default();
        tracing::debug!(chain = %self.rules.chain_name, height = read_to.0, tip = tip.height.0, "tick");
        if read_to < tip.height {
            let near = tip.height.since(read_to) <= self.rules.reorg_depth.get();
            self.publish_phase(tip, if near { Phase::Following } else { Phase::CatchingUp });
            return Ok(Next::AtOnce);
        }
        self.publish_phase(tip, Phase::Following);
        Ok(Next::Wait(None))
    }

    async fn halt(&mut self, reason: HaltReason) -> Result<Next, WatchError> {
        let halt = Halt { reason, at: self.deps.clock.now() };
        let mut set = ChangeSet::new(self.rules.chain.clone(), self.state.version);
        set.changes.push(Change::Halted(halt.clone()));
        self.commit(set).await?;
        self.publish(|status| status.phase = Phase::Halted { halt: halt.clone() });
        tracing::error!(chain = %self.rules.chain_name, error = %halt.reason, remedy = halt.reason.remedy(), "chain halted");
        Ok(Next::Wait(None))
    }

    /// A lower tip is never a rollback, however long it lasts.
    fn behind(&mut self, tip: BlockRef) -> Next {
        let (began, since) = *self.behind_since.get_or_insert_with(|| (Instant::now(), self.deps.clock.now()));
        let alarm = began.elapsed() >= self.deps.source.profile().behind_alarm;
        self.publish_phase(tip, Phase::Behind { since, alarm });
        Next::Wait(None)
    }

    fn wait_for_fork(&mut self, tip: BlockRef, ancestor: BlockRef) -> Next {
        let (_, since) = *self.fork_since.get_or_insert_with(|| (Instant::now(), self.deps.clock.now()));
        self.publish_phase(tip, Phase::WaitingForFork { ancestor, since });
        Next::Wait(None)
    }

    async fn no_answer(&mut self, error: SourceError) -> Result<Next, WatchError> {
        let text = with_causes(&error);
        let SourceErrorKind::Transient { retry_after } = error.kind else {
            return self.halt(HaltReason::Source { detail: text }).await;
        };
        self.unreachable(text, "the source gives no answer");
        Ok(Next::Wait(retry_after))
    }

    /// Publishes that the node is of no use now, and since when; one line in the log where that begins.
    pub(super) fn unreachable(&mut self, error: String, line: &'static str) {
        if self.unreachable_since.is_none() {
            tracing::warn!(chain = %self.rules.chain_name, error, "{line}");
        }
        let since = *self.unreachable_since.get_or_insert_with(|| self.deps.clock.now());
        self.publish(|status| status.phase = Phase::Unreachable { since, error });
    }

    /// Publishes what the chain does; a change of phase is one line in the log.
    pub(super) fn publish_phase(&self, tip: BlockRef, phase: Phase) {
        let before = self.status.borrow().phase.clone();
        if std::mem::discriminant(&before) != std::mem::discriminant(&phase) {
            tracing::info!(chain = %self.rules.chain_name, height = tip.height.0, phase = phase.as_str(), "chain phase");
        }
        if let Phase::Behind { alarm: true, .. } = &phase
            && !matches!(before, Phase::Behind { alarm: true, .. })
        {
            tracing::error!(chain = %self.rules.chain_name, height = tip.height.0,
                "the node has stayed behind our trail; nothing is rolled back, check the node");
        }
        self.publish(|status| {
            status.source_tip = Some(tip);
            status.phase = phase;
        });
    }
}
