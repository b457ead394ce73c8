//! How everything stands.

use super::{ChainSlot, LocalOperator};
use confirmd_api::view::{
    CatchUp, ChainDetail, ChainView, EndpointView, HaltView, PastReorg, Phase as View, ReorgView, RescanView, Status,
};
use confirmd_api::{Operator, OperatorError};
use confirmd_core::{BlockRef, ChainName, ChainState, Halt, HaltReason, ReorgRecord, with_causes};
use std::time::Duration;

/// How long a node is asked for.
const NODE_LIMIT: Duration = Duration::from_secs(5);
/// Past reorgs shown.
const REORGS_SHOWN: usize = 20;
use confirmd_engine::{ChainStatus, Phase};

impl LocalOperator {
    pub(super) async fn read_status(&self) -> Result<Status, OperatorError> {
        let mut chains = Vec::new();
        for slot in self.chains.iter() {
            chains.push(match slot.handle() {
                Some(handle) => of_status(&slot, handle.status()),
                None => {
                    let state = self.store(self.stores.state.load(slot.id()).await)?;
                    of_state(&slot, state.as_ref(), self.running())
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
            configuration: self.configuration.get().as_ref().clone(),
        })
    }
}

impl LocalOperator {
    async fn view_of(&self, slot: &ChainSlot) -> Result<ChainView, OperatorError> {
        if let Some(handle) = slot.handle() {
            return Ok(of_status(slot, handle.status()));
        }
        let state = self.store(self.stores.state.load(slot.id()).await)?;
        Ok(of_state(slot, state.as_ref(), self.running()))
    }

    /// Whether the operator named the reorg that halted the chain.
    pub(super) async fn acknowledged(&self, slot: &ChainSlot, named: Option<&BlockRef>) -> Result<(), OperatorError> {
        let halt = self.view_of(slot).await?.halt;
        // What did not halt on a reorg is refused with the reason by whoever resumes.
        let Some(seen) = halt.and_then(|halt| halt.reorg) else { return Ok(()) };
        match named {
            Some(named) if *named == seen => Ok(()),
            Some(named) => Err(OperatorError::conflict(format!(
                "the reorg that halted {} is named by block {seen}, not {named}; look at it again",
                slot.name
            ))),
            None => Err(OperatorError::invalid(format!(
                "a reorg below the floor is accepted by name: give `reorg` the block {seen}, after a look at the preview"
            ))),
        }
    }

    pub(super) async fn look_at_chain(&self, name: &ChainName) -> Result<ChainDetail, OperatorError> {
        let slot = self.chains.get(name)?;
        let chain = self.view_of(&slot).await?;
        let reorgs = self.store(self.stores.history.reorgs(slot.id(), REORGS_SHOWN).await)?;
        let source = &slot.source;
        let time = |block: Option<BlockRef>| async move {
            let header = source.header_at(block?.height).await.ok()??;
            header.time
        };
        let asked = async {
            let (ours, theirs) = (time(chain.tip.clone()), time(chain.source_tip.clone()));
            futures::join!(slot.source.inspect(), ours, theirs)
        };
        let (endpoints, endpoints_error, lag_seconds) = match tokio::time::timeout(NODE_LIMIT, asked).await {
            Ok((Ok(endpoints), ours, theirs)) => {
                let lag = ours.zip(theirs).map(|(ours, theirs)| theirs.since(ours).as_secs());
                (endpoints, None, lag)
            }
            Ok((Err(error), ..)) => (Vec::new(), Some(with_causes(&error)), None),
            Err(_) => (Vec::new(), Some(format!("its node gave no answer within {NODE_LIMIT:?}")), None),
        };
        let endpoints = endpoints.into_iter().map(|one| EndpointView { subject: one.subject, ok: one.ok, text: one.text });
        Ok(ChainDetail {
            chain,
            lag_seconds,
            reorgs: reorgs.into_iter().map(past).collect(),
            endpoints: endpoints.collect(),
            endpoints_error,
            connections: slot.source.connection(),
        })
    }
}

fn past(reorg: ReorgRecord) -> PastReorg {
    PastReorg {
        at: reorg.at.to_rfc3339(),
        ancestor: reorg.ancestor,
        depth: reorg.depth,
        orphaned: reorg.orphaned,
        reverted: reorg.reverted,
        dropped: reorg.dropped,
        accepted: reorg.accepted,
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

/// A halt with its parts.
fn halt_view(halt: &Halt, name: &str) -> HaltView {
    let (kind, reorg) = match &halt.reason {
        HaltReason::TooDeep { seen, .. } => ("too_deep", Some(seen.clone())),
        HaltReason::WrongNetwork { .. } => ("wrong_network", None),
        HaltReason::BrokenContract { .. } => ("broken_contract", None),
        HaltReason::Source { .. } => ("source", None),
    };
    HaltView {
        kind: kind.to_owned(),
        reason: halt.reason.to_string(),
        remedy: halt.reason.remedy().replace("CHAIN", name),
        at: halt.at.to_rfc3339(),
        reorg,
    }
}

fn of_status(slot: &ChainSlot, status: ChainStatus) -> ChainView {
    let lag_blocks = match (&status.trail_tip, &status.source_tip) {
        (Some(ours), Some(theirs)) => Some(theirs.height.0.saturating_sub(ours.height.0)),
        _ => None,
    };
    let catch_up = matches!(status.phase, Phase::CatchingUp).then(|| {
        let rate = slot.blocks_per_minute().unwrap_or(0);
        let seconds_left = lag_blocks.and_then(|lag| lag.saturating_mul(60).checked_div(rate));
        CatchUp { blocks_per_minute: rate, seconds_left }
    });
    let halt = match &status.phase {
        Phase::Halted { halt } => Some(halt_view(halt, status.name.as_str())),
        _ => None,
    };
    let (phase, detail, alarm) = phase_of(&status.phase, status.name.as_str());
    let open = status.rescans.iter().filter(|status| status.rescan.state.is_open());
    let rescans = open.map(|one| super::rescans::shown(one.rescan.clone(), std::slice::from_ref(one))).collect();
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
        halt,
        lag_blocks,
        catch_up,
        detail,
        alarm,
        tip: status.trail_tip,
        source_tip: status.source_tip,
        pending: count(status.pending),
        reported: count(status.reported),
        watched: count(status.watched),
        last_reorg: reorg,
        rescans,
        requests: Some(slot.requests()),
        updated_at: (status.changed_at.0 > 0).then(|| status.changed_at.to_rfc3339()),
    }
}

/// Rescans that are not done, read by nobody now.
fn open_rescans(state: &ChainState) -> Vec<RescanView> {
    state.rescans.values().filter(|rescan| rescan.state.is_open()).cloned().map(RescanView::new).collect()
}

/// A chain without a watcher: as its last commit left it.
fn of_state(slot: &ChainSlot, state: Option<&ChainState>, running: bool) -> ChainView {
    let view = state.and_then(|state| state.halt.as_ref()).map(|halt| halt_view(halt, slot.name.as_str()));
    let halt = state.and_then(|state| state.halt.as_ref()).map(|halt| halt_text(halt, slot.name.as_str()));
    let restarting = running.then(|| "its watcher is being started again; see the log".to_owned());
    ChainView {
        name: slot.name.clone(),
        chain: slot.id().clone(),
        phase: if halt.is_some() { View::Halted } else { View::Stopped },
        alarm: halt.as_ref().map(|text| format!("halted: {text}")).or(restarting),
        detail: halt,
        halt: view,
        lag_blocks: None,
        catch_up: None,
        tip: state.and_then(|state| state.trail.tip()),
        source_tip: None,
        floor: state.filter(|state| state.trail.tip().is_some()).map(|state| state.trail.floor()),
        pending: state.map_or(0, |state| count(state.pending.len())),
        reported: state.map_or(0, |state| count(state.reported.len())),
        watched: state.map_or(0, |state| count(state.watch.len())),
        last_reorg: None,
        rescans: state.map_or_else(Vec::new, open_rescans),
        requests: None,
        updated_at: None,
    }
}
