//! Commands to a running watcher. They are carried out between ticks, by the chain's only writer.

use super::rescan::{Asking, NewRescan, RescanOrder, order, start};
use super::resume::{Resume, ResumeReport};
use super::share::is_conflict;
use super::{ChainStatus, LastReorg, WatchError, Watcher, desired};
use confirmd_core::{Address, ChainState, Change, ChangeSet, Height, Rescan, RescanId, WatchOrigin, WatchState};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// Another instance may be faster; the command is then planned anew, so often.
const TRIES: u32 = 10;

/// An address to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWatch {
    /// The address.
    pub address: Address,
    /// The operator's label.
    pub reference: Option<Arc<str>>,
    /// Who asks for it.
    pub origin: WatchOrigin,
    /// Read again from this height on, if it is below what is covered.
    pub from_height: Option<Height>,
}

/// What an addition gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// The first height from which the live watch covers all of them.
    pub from: Height,
    /// What reads their history, where some was asked for and not covered yet.
    pub rescan: Option<RescanId>,
}

/// What a watcher can be told.
#[derive(Debug)]
pub(super) enum Command {
    Add(Vec<NewWatch>, oneshot::Sender<Result<Added, WatchError>>),
    Rescan(NewRescan, oneshot::Sender<Result<Rescan, WatchError>>),
    Order(RescanId, RescanOrder, oneshot::Sender<Result<Rescan, WatchError>>),
    Remove(Vec<Address>, oneshot::Sender<Result<u64, WatchError>>),
    Resume(Resume, oneshot::Sender<Result<ResumeReport, WatchError>>),
    Preview(Resume, oneshot::Sender<Result<ResumeReport, WatchError>>),
}

/// Talks to a running watcher; cheap to clone.
#[derive(Debug, Clone)]
pub struct WatcherHandle {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<ChainStatus>,
    pub(super) early: Arc<Notify>,
}

impl WatcherHandle {
    pub(super) fn new(commands: mpsc::Sender<Command>, status: watch::Receiver<ChainStatus>, early: Arc<Notify>) -> Self {
        Self { commands, status, early }
    }

    /// The latest status.
    pub fn status(&self) -> ChainStatus {
        self.status.borrow().clone()
    }

    /// Follows the status.
    pub fn subscribe(&self) -> watch::Receiver<ChainStatus> {
        self.status.clone()
    }

    /// Asks for a tick now. Never a statement about the chain: truth is always read.
    pub fn wake(&self) {
        self.early.notify_one();
    }

    /// Watches addresses, and reads the chain again for those that come with a height below what is covered. Durable when it returns.
    pub async fn add(&self, addresses: Vec<NewWatch>) -> Result<Added, WatchError> {
        self.ask(|answer| Command::Add(addresses, answer)).await
    }

    /// Reads the chain again for what is watched already. Durable when it returns.
    pub async fn rescan(&self, new: NewRescan) -> Result<Rescan, WatchError> {
        self.ask(|answer| Command::Rescan(new, answer)).await
    }

    /// Pauses, resumes or cancels a rescan. Durable when it returns.
    pub async fn order(&self, id: RescanId, order: RescanOrder) -> Result<Rescan, WatchError> {
        self.ask(|answer| Command::Order(id, order, answer)).await
    }

    /// Stops taking new deposits to addresses; returns how many of them were watched. What is held for them still ends.
    pub async fn remove(&self, addresses: Vec<Address>) -> Result<u64, WatchError> {
        self.ask(|answer| Command::Remove(addresses, answer)).await
    }

    /// Resumes a halted chain.
    pub async fn resume(&self, how: Resume) -> Result<ResumeReport, WatchError> {
        self.ask(|answer| Command::Resume(how, answer)).await
    }

    /// What resuming a halted chain would do. Changes nothing.
    pub async fn preview(&self, how: Resume) -> Result<ResumeReport, WatchError> {
        self.ask(|answer| Command::Preview(how, answer)).await
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<Result<T, WatchError>>) -> Command) -> Result<T, WatchError> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| WatchError::Stopped)?;
        answered.await.map_err(|_| WatchError::Stopped)?
    }
}

/// The change set that watches addresses, and the first height it covers. Refused before the chain's first block is known.
pub(super) fn addition(
    state: &ChainState,
    set: &mut ChangeSet,
    addresses: &[NewWatch],
    mut asking: Asking<'_>,
) -> Result<Added, WatchError> {
    let Some(tip) = state.trail.tip() else {
        let text = "the chain has no first block yet, so no height can be promised; wait until its node has answered once";
        return Err(WatchError::Refused(text.to_owned()));
    };
    let from = tip.height.next();
    for new in addresses {
        let found = state.watch.get(new.address.bytes());
        let history = asking.history(found.as_ref(), new.from_height, from);
        set.changes.extend(desired::put(found.as_ref(), &new.address, new.reference.clone(), new.origin, from, history));
    }
    let rescan = asking.finish();
    let id = rescan.as_ref().map(|rescan| rescan.id);
    set.changes.extend(rescan.map(Change::RescanPut));
    Ok(Added { from, rescan: id })
}

/// The changes that stop watching addresses, and how many of them were watched.
pub(super) fn removals(state: &ChainState, addresses: &[Address]) -> (Vec<Change>, u64) {
    let entries = addresses.iter().filter_map(|address| state.watch.get(address.bytes()));
    let watching = entries.filter(|entry| entry.state == WatchState::Watching);
    let changes: Vec<Change> = watching.map(|entry| desired::removal(state, &entry)).collect();
    let count = u64::try_from(changes.len()).unwrap_or(u64::MAX);
    (changes, count)
}

impl Watcher {
    /// Carries a command out. An `Err` is a store failure, on which the watcher must stop; the caller is told either way.
    pub(super) async fn carry_out(&mut self, command: Command) -> Result<(), WatchError> {
        // What another instance committed is part of what the command is about.
        self.is_stale();
        self.follow().await?;
        match command {
            Command::Add(addresses, answer) => {
                let (busy, now) = (self.rescans.busy(), self.deps.clock.now());
                let plan = |state: &ChainState, set: &mut ChangeSet| {
                    addition(state, set, &addresses, Asking::by_command(state, &busy, now))
                };
                let planned = self.planned(plan).await;
                self.answer(planned, answer)
            }
            Command::Rescan(new, answer) => {
                let now = self.deps.clock.now();
                let planned = self.planned(|state, set| start(state, set, &new, now)).await;
                self.answer(planned, answer)
            }
            Command::Order(id, told, answer) => {
                let now = self.deps.clock.now();
                let planned = self.planned(|state, set| order(state, set, id, told, now)).await;
                self.answer(planned, answer)
            }
            Command::Remove(addresses, answer) => {
                let planned = self.planned(|state, set| {
                    let (changes, count) = removals(state, &addresses);
                    set.changes = changes;
                    Ok(count)
                });
                let planned = planned.await;
                self.answer(planned, answer)
            }
            Command::Preview(how, answer) => {
                let _ = answer.send(self.plan_resume(how).await.map(|(report, _)| report));
                Ok(())
            }
            Command::Resume(how, answer) => {
                let resumed = self.resume(how).await;
                self.answer(resumed, answer)
            }
        }
    }

    /// Plans a change and commits it; anew, where another instance was faster. The outer error is the store's.
    async fn planned<T>(
        &mut self,
        plan: impl Fn(&ChainState, &mut ChangeSet) -> Result<T, WatchError>,
    ) -> Result<Result<T, WatchError>, WatchError> {
        for last in (0..TRIES).map(|tried| tried + 1 == TRIES) {
            let mut set = ChangeSet::new(self.rules.chain.clone(), self.state.version);
            let value = match plan(&self.state, &mut set) {
                Ok(value) => value,
                Err(refused) => return Ok(Err(refused)),
            };
            match self.commit(set).await {
                Err(error) if is_conflict(&error) && !last => self.catch_up().await?,
                done => return done.map(|()| Ok(value)),
            }
        }
        Err(WatchError::Stopped)
    }

    async fn resume(&mut self, how: Resume) -> Result<Result<ResumeReport, WatchError>, WatchError> {
        for last in (0..TRIES).map(|tried| tried + 1 == TRIES) {
            let (report, set) = match self.plan_resume(how).await {
                Ok(planned) => planned,
                Err(refused) => return Ok(Err(refused)),
            };
            self.identified = None;
            self.refold = true;
            let accepted = report.ancestor.clone().map(|ancestor| LastReorg {
                orphaned: u64::try_from(self.state.trail.above(ancestor.height).count()).unwrap_or(u64::MAX),
                ancestor,
                reverted: u64::try_from(set.events.len()).unwrap_or(u64::MAX),
                at: self.deps.clock.now(),
            });
            match self.commit(set).await {
                Err(error) if is_conflict(&error) && !last => self.catch_up().await?,
                Err(error) => return Err(error),
                Ok(()) => {
                    if let Some(accepted) = accepted {
                        self.publish(|status| status.last_reorg = Some(accepted));
                    }
                    return Ok(Ok(report));
                }
            }
        }
        Err(WatchError::Stopped)
    }

    fn answer<T>(
        &self,
        outcome: Result<Result<T, WatchError>, WatchError>,
        answer: oneshot::Sender<Result<T, WatchError>>,
    ) -> Result<(), WatchError> {
        match outcome {
            Ok(Ok(value)) => {
                self.publish(|_| {});
                let _ = answer.send(Ok(value));
                Ok(())
            }
            Ok(Err(refused)) => {
                let _ = answer.send(Err(refused));
                Ok(())
            }
            Err(error) => {
                let _ = answer.send(Err(WatchError::Refused(format!("not recorded: {error}"))));
                Err(error)
            }
        }
    }
}
