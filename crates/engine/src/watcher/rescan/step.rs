//! One step of the rescans of a chain: begun beside the live watch, decided and committed between its ticks.

use super::read::{StepError, StepRead, StepReader};
use super::status::{RescanStatus, shown};
use crate::fold::{Observation, fold};
use crate::watcher::share::is_conflict;
use crate::watcher::{Phase, WatchError, Watcher};
use confirmd_core::{
    Change, ChangeSet, DepositKey, Rescan, RescanId, RescanScope, RescanState, SourceErrorKind, Transfer, with_causes,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;

/// What a step ended with, and for whom it was read.
pub(in crate::watcher) type StepEnd = (Result<StepRead, StepError>, BTreeMap<RescanId, u64>);

impl Watcher {
    /// Percent of the time that may be spent reading history; the rest is the live watch's alone. 50 if not said.
    #[must_use]
    pub fn rescan_share(mut self, percent: u32) -> Self {
        self.rescans.set_share(percent);
        self
    }

    /// One step of the chain's rescans, whatever the pace; for tests and for whoever drives the time themselves. Whether one was made.
    pub async fn rescan_step(&mut self) -> Result<bool, WatchError> {
        if !self.begin_rescan_step(true) {
            return Ok(false);
        }
        let end = self.rescans.ended().await;
        self.take_rescan_step(end).await?;
        Ok(true)
    }

    /// Begins a step if there is something to read and it is time. Only while the live watch follows its node.
    pub(in crate::watcher) fn begin_rescan_step(&mut self, force: bool) -> bool {
        let due = force || self.rescan_due_at().is_some_and(|at| at <= Instant::now());
        let Some(connection) = self.decidable().filter(|_| due) else { return false };
        self.rescans.board(&self.state, force);
        self.rescans.limit_span(self.deps.source.profile().span_max.get());
        let Some(tip) = self.state.trail.tip() else { return false };
        let Some((range, of)) = self.rescans.choose(&self.state, tip.height) else { return false };
        self.rescans.align_assets(&self.state);
        let known = self.state.trail.newest_first().take_while(|block| block.height >= range.from);
        let reader = StepReader {
            source: Arc::clone(&self.deps.source),
            watch: Arc::clone(&self.rescans.watch),
            range,
            known: known.map(|block| (block.height, block)).collect(),
            dense_from: self.state.trail.dense_from(),
            connection,
        };
        self.rescans.begin(tokio::spawn(reader.read()), of);
        true
    }

    /// When a step may begin; never, if there is nothing to read.
    pub(in crate::watcher) fn rescan_due_at(&self) -> Option<Instant> {
        let follows = matches!(self.status.borrow().phase, Phase::Following);
        self.rescans.next_at(&self.state).filter(|_| follows && self.decidable().is_some())
    }

    /// The connection to read on, if it is known to serve this network and anything may be decided.
    fn decidable(&self) -> Option<u64> {
        let connection = self.deps.source.connection();
        (self.state.halt.is_none() && self.identified == Some(connection)).then_some(connection)
    }

    /// The deciding half of a step. What does not fit the state of this moment is discarded, as if it had never been read.
    pub(in crate::watcher) async fn take_rescan_step(&mut self, (read, of): StepEnd) -> Result<(), WatchError> {
        match self.decide_rescan_step(read, &of).await {
            Err(error) if is_conflict(&error) => {
                tracing::debug!(chain = %self.rules.chain_name, error = %error, "a rescan's step is discarded");
                self.catch_up().await?;
            }
            decided => decided?,
        }
        self.publish(|_| {});
        Ok(())
    }

    async fn decide_rescan_step(
        &mut self,
        read: Result<StepRead, StepError>,
        of: &BTreeMap<RescanId, u64>,
    ) -> Result<(), WatchError> {
        let read = match read {
            Ok(read) => read,
            Err(StepError::Breach(breach)) => return self.fail_rescans(of, &breach.to_string()).await,
            Err(StepError::Source(error)) => {
                let retry_after = match error.kind {
                    SourceErrorKind::Fatal => return self.fail_rescans(of, &with_causes(&error)).await,
                    SourceErrorKind::Orphaned => None,
                    SourceErrorKind::Transient { retry_after } => {
                        tracing::debug!(chain = %self.rules.chain_name, error = %error, "a rescan's step gave nothing");
                        retry_after
                    }
                };
                self.rescans.stumbled(with_causes(&error), retry_after);
                return Ok(());
            }
        };
        // A reorg since then took the tip off the trail: what was read may not be on its branch.
        if self.state.halt.is_some() || self.state.trail.hash_at(read.tip.height) != Some(&read.tip.hash) {
            return Ok(());
        }
        let running = |rescan: &&Rescan| rescan.state == RescanState::Running && of.get(&rescan.id) == Some(&rescan.addresses);
        let mut rescans: Vec<Rescan> = self.state.rescans.values().filter(running).cloned().collect();
        if rescans.is_empty() {
            return Ok(());
        }
        let mut transfers = read.transfers;
        transfers.retain(|transfer| rescans.iter().any(|rescan| self.is_for(rescan, transfer)));
        // Asked for now: a live tick may have settled a deposit since the step was read.
        let archived = self.reader(0).archived(&transfers).await?;
        let now = self.deps.clock.now();
        let notices = self.notices.of(&self.rules.chain);
        let seen = Observation { transfers, archived, decided_at: now, notices, ..Observation::default() };
        let mut set = match fold(&self.state, &self.due, &seen, &self.rules) {
            Ok(set) => set,
            Err(breach) => return self.fail_rescans(of, &breach.to_string()).await,
        };
        let new = new_keys(&set);
        for rescan in &mut rescans {
            let own =
                seen.transfers.iter().filter(|transfer| new.contains(&transfer.key) && self.is_for(rescan, transfer)).count();
            rescan.found = rescan.found.saturating_add(u64::try_from(own).unwrap_or(u64::MAX));
            rescan.read(&read.range);
            if rescan.read_to.as_ref().is_none_or(|before| before.height < read.to.height) {
                rescan.read_to = Some(read.to.clone());
            }
            rescan.changed_at = now;
        }
        set.changes.extend(rescans.iter().cloned().map(Change::RescanPut));
        self.commit(set).await?;
        self.rescans.went_on(&read.range, read.cut);
        self.log_rescans(&rescans);
        Ok(())
    }

    /// Whether a rescan was asked to find this payment.
    fn is_for(&self, rescan: &Rescan, transfer: &Transfer) -> bool {
        match &rescan.scope {
            RescanScope::Everything => true,
            RescanScope::Asset(id) => transfer.payment.asset == *id,
            RescanScope::Asked => {
                let history = self.state.watch.get(transfer.payment.address.bytes()).and_then(|entry| entry.history);
                history.is_some_and(|asked| asked.rescan == rescan.id && asked.from <= transfer.block.height)
            }
        }
    }

    /// The node can't give what a rescan needs: the rescan stops, the live watch goes on.
    async fn fail_rescans(&mut self, of: &BTreeMap<RescanId, u64>, why: &str) -> Result<(), WatchError> {
        self.rescans.stumbled(why.to_owned(), None);
        let mut set = ChangeSet::new(self.rules.chain.clone(), self.state.version);
        let running = self.state.rescans.values().filter(|rescan| rescan.state == RescanState::Running);
        for rescan in running.filter(|rescan| of.contains_key(&rescan.id)) {
            let mut rescan = rescan.clone();
            rescan.state = RescanState::Failed(why.to_owned());
            rescan.changed_at = self.deps.clock.now();
            tracing::error!(chain = %self.rules.chain_name, rescan = rescan.id.0, error = why,
                "a rescan failed; mend what the text names, then resume it");
            set.changes.push(Change::RescanPut(rescan));
        }
        self.commit(set).await
    }

    fn log_rescans(&self, rescans: &[Rescan]) {
        for rescan in rescans {
            match rescan.state {
                RescanState::Done => tracing::info!(chain = %self.rules.chain_name, rescan = rescan.id.0, from = rescan.from.0,
                    to = rescan.to.0, found = rescan.found, "a rescan is done"),
                _ => tracing::debug!(chain = %self.rules.chain_name, rescan = rescan.id.0, left = rescan.heights_left(),
                    found = rescan.found, "a rescan went on"),
            }
        }
    }

    /// Rescans as a status shows them.
    pub(in crate::watcher) fn rescan_status(&self) -> Vec<RescanStatus> {
        let shown = shown(&self.state).map(|rescan| {
            let speed = self.rescans.speed(rescan);
            RescanStatus {
                rescan: rescan.clone(),
                heights_per_second: speed.map(|(rate, _)| rate),
                seconds_left: speed.map(|(_, left)| left.as_secs()),
                trouble: self.rescans.trouble.clone().filter(|_| rescan.state == RescanState::Running),
            }
        });
        shown.collect()
    }
}

/// Keys that a change set takes in: pending from now on, or confirmed at once.
fn new_keys(set: &ChangeSet) -> BTreeSet<&DepositKey> {
    let pending = set.changes.iter().filter_map(|change| match change {
        Change::PendingPut(pending) => Some(&pending.transfer.key),
        _ => None,
    });
    pending.chain(set.decisions().map(|event| &event.transfer.key)).collect()
}
