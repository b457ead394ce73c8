//! How everything stands.

use super::{ChainSlot, LocalOperator};
use confirmd_api::view::{ChainView, Phase as View, ReorgView, Status};
use confirmd_api::{Operator, OperatorError};
use confirmd_core::{ChainState, Halt};
use confirmd_engine::{ChainStatus, Phase};

impl LocalOperator {
    pub(super) async fn read_status(&self) -> Result<Status, OperatorError> {
        let mut chains = Vec::new();
        for slot in self.chains.iter() {
            chains.push(match slot.handle() {
                Some(handle) => of_status(handle.status()),
                None => {
                    let state = self.store(self.stores.state.load(slot.id()).await)?;
                    of_state(slot, state.as_ref(), self.running())
                }
            });
        }
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: env!("CONFIRMD_REVISION").to_owned(),
            running: self.running(),
            started_at: self.started_at.map(|at| at.to_rfc3339()),
            state: self.state_path.display().to_string(),
            epoch: self.stores.state.epoch().0,
            chains,
            consumers: self.consumers().await?,
        })
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Why a chain stands still, and what to do, with its name in the command.
fn halt_text(halt: &Halt, name: &str) -> String {
    format!("{}; {}", halt.reason, halt.reason.remedy().replace("CHAIN", name))
}

/// Phase, detail and alarm.
fn phase_of(phase: &Phase, name: &str) -> (View, Option<String>, Option<String>) {
    match phase {
        Phase::Starting => (View::Starting, None, Some("its node has not answered yet".to_owned())),
        Phase::CatchingUp => (View::CatchingUp, None, None),
        Phase::Following => (View::Following, None, None),
        Phase::Behind { since, alarm } => {
            let text = format!("the node's chain has ended below ours since {since}; nothing is rolled back, check the node");
            (View::Behind, Some(text.clone()), alarm.then_some(text))
        }
        Phase::WaitingForFork { ancestor, since } => {
            let text = format!("a fork from block {ancestor} is not longer than our trail yet; waiting since {since}");
            (View::WaitingForFork, Some(text), None)
        }
        Phase::Halted { halt } => {
            let text = halt_text(halt, name);
            (View::Halted, Some(format!("since {}: {text}", halt.at)), Some(format!("halted: {text}")))
        }
        Phase::Unreachable { since, error } => {
            let text = format!("the node gives no answer since {since}: {error}");
            (View::Unreachable, Some(text.clone()), Some(text))
        }
    }
}

fn of_status(status: ChainStatus) -> ChainView {
    let (phase, detail, alarm) = phase_of(&status.phase, status.name.as_str());
    let reorg = status.last_reorg.map(|reorg| ReorgView {
        ancestor: reorg.ancestor,
        orphaned: reorg.orphaned,
        reverted: reorg.reverted,
        at: reorg.at.to_rfc3339(),
    });
    ChainView {
        floor: status.trail_tip.is_some().then_some(status.floor),
        name: status.name,
        chain: status.chain,
        phase,
        detail,
        alarm,
        tip: status.trail_tip,
        source_tip: status.source_tip,
        pending: count(status.pending),
        reported: count(status.reported),
        watched: count(status.watched),
        last_reorg: reorg,
        updated_at: (status.changed_at.0 > 0).then(|| status.changed_at.to_rfc3339()),
    }
}

/// A chain without a watcher: as its last commit left it.
fn of_state(slot: &ChainSlot, state: Option<&ChainState>, running: bool) -> ChainView {
    let halt = state.and_then(|state| state.halt.as_ref()).map(|halt| halt_text(halt, slot.name.as_str()));
    let restarting = running.then(|| "its watcher is being started again; see the log".to_owned());
    ChainView {
        name: slot.name.clone(),
        chain: slot.id().clone(),
        phase: if halt.is_some() { View::Halted } else { View::Stopped },
        alarm: halt.as_ref().map(|text| format!("halted: {text}")).or(restarting),
        detail: halt,
        tip: state.and_then(|state| state.trail.tip()),
        source_tip: None,
        floor: state.filter(|state| state.trail.tip().is_some()).map(|state| state.trail.floor()),
        pending: state.map_or(0, |state| count(state.pending.len())),
        reported: state.map_or(0, |state| count(state.reported.len())),
        watched: state.map_or(0, |state| count(state.watch.len())),
        last_reorg: None,
        updated_at: None,
    }
}
