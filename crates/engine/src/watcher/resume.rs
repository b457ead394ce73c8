//! What an operator may tell a halted chain to do.

use super::{WatchError, Watcher};
use crate::Rules;
use crate::fold::{ChangeDraft, undo};
use crate::walker::{ReorgWalker, Walk};
use confirmd_core::{
    BlockRef, ChainSource, ChainState, Change, ChangeSet, DepositKey, EventId, HaltReason, Height, StateStore, Timestamp,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How to resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resume {
    /// Take the node's chain for the right one although the reorg is deeper than the trail.
    pub accept_reorg: bool,
    /// Revert settled deposits above the ancestor, too.
    pub revert_settled: bool,
}

/// A settled deposit above the ancestor of an accepted reorg.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledAbove {
    /// The height of the block that carried it.
    pub height: Height,
    /// Its key; `None` once history no longer holds its event.
    pub key: Option<DepositKey>,
    /// Its confirmed event; `None` once history no longer holds it.
    pub event: Option<EventId>,
    /// Whether it was reverted now.
    pub reverted: bool,
}

/// What resuming did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResumeReport {
    /// Where the trail was anchored again, if a reorg was accepted.
    pub ancestor: Option<BlockRef>,
    /// Reported deposits that were reverted.
    pub reverted: Vec<DepositKey>,
    /// Pending deposits that were dropped.
    pub dropped: Vec<DepositKey>,
    /// Settled deposits above the ancestor: not looked at again unless they were reverted.
    pub settled: Vec<SettledAbove>,
}

impl Watcher {
    pub(super) async fn plan_resume(&self, how: Resume) -> Result<(ResumeReport, ChangeSet), WatchError> {
        let now = self.deps.clock.now();
        plan(&self.state, &self.rules, self.deps.source.as_ref(), self.deps.store.as_ref(), how, now).await
    }
}

/// The change set that resumes a halted chain, and what it does. Commits nothing.
pub(super) async fn plan(
    state: &ChainState,
    rules: &Rules,
    source: &dyn ChainSource,
    store: &dyn StateStore,
    how: Resume,
    now: Timestamp,
) -> Result<(ResumeReport, ChangeSet), WatchError> {
    let Some(halt) = &state.halt else {
        return Err(WatchError::Refused(format!("chain {} is not halted", rules.chain_name)));
    };
    let too_deep = matches!(halt.reason, HaltReason::TooDeep { .. });
    let mut draft = ChangeDraft::new(state, rules);
    let mut report = ResumeReport::default();
    if too_deep {
        let connection = source.connection();
        right_network(source, rules).await?;
        // A node that is right again needs no acceptance: the next walk decides as ever.
        match (ReorgWalker.walk(source, &state.trail).await?, how.accept_reorg) {
            (Walk::TooDeep { .. }, true) => accept(&mut draft, &mut report, source, store, how.revert_settled, now).await?,
            (Walk::TooDeep { seen }, false) => {
                let text = format!("{}; the node still has {seen}; {}", halt.reason, halt.reason.remedy());
                return Err(WatchError::Refused(text));
            }
            _ => {}
        }
        if source.connection() != connection {
            let text = format!("the connection to chain {} changed while its blocks were compared; try again", rules.chain_name);
            return Err(WatchError::Refused(text));
        }
    } else if how.accept_reorg {
        let text =
            format!("chain {} did not halt on a reorg ({}); resume it without --accept-reorg", rules.chain_name, halt.reason);
        return Err(WatchError::Refused(text));
    }
    draft.change(Change::Resumed);
    Ok((report, draft.finish()))
}

/// Networks may share blocks, so an ancestor alone does not prove that the node is ours (S1).
async fn right_network(source: &dyn ChainSource, rules: &Rules) -> Result<(), WatchError> {
    let found = source.identify().await?;
    if found == rules.chain {
        return Ok(());
    }
    let text = format!(
        "the node of chain {} serves {found}, not {}; nothing was changed, check the node",
        rules.chain_name, rules.chain
    );
    Err(WatchError::Refused(text))
}

/// Anchors the trail at the highest recorded block that the node still has, and undoes what lies above it.
async fn accept(
    draft: &mut ChangeDraft<'_>,
    report: &mut ResumeReport,
    source: &dyn ChainSource,
    store: &dyn StateStore,
    revert_settled: bool,
    now: Timestamp,
) -> Result<(), WatchError> {
    let (state, rules) = (draft.state, draft.rules);
    let ancestor = ancestor(state, source).await?;
    report.dropped = state.pending.above(ancestor.height).map(|held| held.transfer.key.clone()).collect();
    report.reverted = state.reported.above(ancestor.height).map(|held| held.transfer.key.clone()).collect();
    undo(draft, ancestor.height, now);
    for settled in store.settled_above(&rules.chain, ancestor.height).await? {
        let confirmed = settled.event.map(|record| record.event);
        if let Some(event) = &confirmed
            && stands(&event.transfer.block, source).await?
        {
            // The recorded ancestor may lie below the real one: what the node still has was not touched by the reorg (G3).
            continue;
        }
        let mut above = SettledAbove {
            height: settled.archived.height,
            key: confirmed.as_ref().map(|event| event.transfer.key.clone()),
            event: confirmed.as_ref().map(|event| event.id.clone()),
            reverted: false,
        };
        if let Some(confirmed) = confirmed.filter(|_| revert_settled) {
            let sequence = settled.archived.sequence.next();
            let id = EventId::derive(&rules.chain, &confirmed.transfer.key, rules.epoch, sequence);
            let reverted =
                confirmd_core::Event { id, sequence, confirmations: 0, decided_at: now, epoch: rules.epoch, ..confirmed };
            draft.archive_event(reverted);
            above.reverted = true;
        }
        report.settled.push(above);
    }
    draft.change(Change::Reanchored(ancestor.clone()));
    report.ancestor = Some(ancestor);
    Ok(())
}

/// The highest recorded block that is on the node's best chain: of the trail, sparse refs included, or one that carries what is held
/// between two of them, which must not be taken back while its block stands (G3).
async fn ancestor(state: &ChainState, source: &dyn ChainSource) -> Result<BlockRef, WatchError> {
    let tip = state.trail.tip().map(|tip| tip.height).unwrap_or_default();
    let pending = state.pending.iter().map(|held| &held.transfer.block);
    let reported = state.reported.iter().map(|held| &held.transfer.block);
    let held = pending.chain(reported).filter(|block| block.height <= tip).cloned();
    let recorded: BTreeMap<Height, BlockRef> =
        held.chain(state.trail.newest_first()).map(|block| (block.height, block)).collect();
    let mut unanswered = None;
    for block in recorded.into_values().rev() {
        match source.header_at(block.height).await? {
            Some(header) if header.block == block => {
                // What lies above is gone if the lowest of it is: all of it descends from that.
                if let Some(lowest) = unanswered {
                    require_left_out(&lowest, source).await?;
                }
                return Ok(block);
            }
            Some(_) => unanswered = None,
            None => unanswered = Some(block),
        }
    }
    let text = "no recorded block is on the node's chain: this is another chain, or the trail does not reach back far enough. \
                Nothing was changed; check the node";
    Err(WatchError::Refused(text.to_owned()))
}

/// Whether the node has this block on its best chain. Refused if it has nothing at its height and does not prove that to be an empty slot.
async fn stands(block: &BlockRef, source: &dyn ChainSource) -> Result<bool, WatchError> {
    match source.header_at(block.height).await? {
        Some(header) => Ok(header.block == *block),
        None => require_left_out(block, source).await.map(|()| false),
    }
}

/// Heights looked at on either side of one without an answer.
const PROBES_MAX: u64 = 8;

/// No answer at a height proves nothing (G3), unless the next header above links past it.
async fn require_left_out(block: &BlockRef, source: &dyn ChainSource) -> Result<(), WatchError> {
    let (mut above, mut below) = (None, None);
    for distance in 1..=PROBES_MAX {
        if above.is_none() {
            above = source.header_at(block.height.plus(distance)).await?;
        }
        if below.is_none() && block.height.0 >= distance {
            below = source.header_at(block.height.minus(distance)).await?;
        }
    }
    if above.zip(below).is_some_and(|(above, below)| above.parent == below.block.hash) {
        return Ok(());
    }
    let text = format!(
        "the node has no block at height {} where we recorded {block}, which proves nothing; nothing was changed, try again",
        block.height
    );
    Err(WatchError::Refused(text))
}
