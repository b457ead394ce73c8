//! The decision: from a state and what was seen to a change set. Pure and synchronous, with no clock; its cost grows with what
//! changed, not with what is held.
//!
//! Order: undo (orphaned pending dropped, orphaned reported reverted, newest first), then add pending, then confirm (oldest
//! first), then settle. So a key's reverted event always precedes its next confirmed one (G2). Informative events follow from this and
//! change none of it: detected behind confirm, for what waits; settled behind settle.

mod draft;

use crate::contract::Breach;
use crate::due::{DueIndex, needed};
use confirmd_core::{
    Archived, BlockRef, ChainId, ChainName, ChainState, Change, ChangeSet, DepositKey, Epoch, Event, EventId, FinalityTag,
    Height, Notice, NoticeName, Orphaned, Pending, Reported, Sequence, Small, Timestamp, Transfer, WatchState, confirmations,
};
use draft::Draft;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

/// A block that enters the trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenBlock {
    /// Links to the block before it.
    Linked(BlockRef),
    /// Far below the source's tip, entered without a link.
    Jumped(BlockRef),
}

impl SeenBlock {
    /// Which block.
    pub fn block(&self) -> &BlockRef {
        match self {
            Self::Linked(block) | Self::Jumped(block) => block,
        }
    }
}

/// What one tick saw; checked against the source's contract before it comes here.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// The common ancestor's height, if blocks left the best chain.
    pub rollback_to: Option<Height>,
    /// New blocks, lowest first.
    pub blocks: Vec<SeenBlock>,
    /// The chain's own finality, no higher than the last of `blocks`.
    pub marks: Vec<(FinalityTag, Height)>,
    /// Payments in the new blocks, in order.
    pub transfers: Vec<Transfer>,
    /// Of those payments' keys, the ones the store has archived.
    pub archived: BTreeMap<DepositKey, Archived>,
    /// Stands in the events made from this.
    pub decided_at: Timestamp,
    /// The informative events that some consumer asks for; others are not made.
    pub notices: BTreeSet<Notice>,
}

/// What stays the same from tick to tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The chain.
    pub chain: ChainId,
    /// The operator's name for it.
    pub chain_name: ChainName,
    /// The state's epoch.
    pub epoch: Epoch,
    /// Blocks the floor stays below the trail's tip.
    pub reorg_depth: NonZeroU64,
}

impl Rules {
    /// The event that follows `last_sequence` for a transfer.
    pub(crate) fn event(
        &self,
        state: &ChainState,
        transfer: &Transfer,
        sequence: Sequence,
        confirmations: u64,
        decided_at: Timestamp,
    ) -> Event {
        let asset = state.watch.asset(&transfer.payment.asset);
        let asset = asset.expect("invariant: an asset stays listed while something is held for it").asset.clone();
        let entry = state.watch.get(transfer.payment.address.bytes());
        Event {
            id: EventId::derive(&self.chain, &transfer.key, self.epoch, sequence),
            chain: self.chain.clone(),
            chain_name: self.chain_name.clone(),
            epoch: self.epoch,
            sequence,
            transfer: transfer.clone(),
            asset,
            reference: entry.and_then(|entry| entry.reference),
            confirmations,
            decided_at,
            notice: None,
        }
    }

    /// The informative event of a transfer whose last decision was `sequence`.
    fn notice(
        &self,
        state: &ChainState,
        transfer: &Transfer,
        (sequence, notice): (Sequence, Notice),
        confirmations: u64,
        decided_at: Timestamp,
    ) -> Event {
        let (chain, key, epoch, base) = (&self.chain, &transfer.key, self.epoch, state.version);
        let id = EventId::of_notice(NoticeName { chain, key, epoch, sequence, notice, base });
        Event { id, notice: Some(notice), ..self.event(state, transfer, sequence, confirmations, decided_at) }
    }
}

/// Decides. An `Err` is a broken source contract: one key, two payments while its block stands.
pub fn fold(state: &ChainState, due: &DueIndex, seen: &Observation, rules: &Rules) -> Result<ChangeSet, Breach> {
    let mut draft = Draft::new(state, rules);
    if let Some(ancestor) = seen.rollback_to {
        undo(&mut draft, ancestor, seen.decided_at);
    }
    disprove(&mut draft, seen);
    for block in &seen.blocks {
        draft.change(match block {
            SeenBlock::Linked(block) => Change::TrailPushed(block.clone()),
            SeenBlock::Jumped(block) => Change::TrailJumped(block.clone()),
        });
    }
    let added = add(&mut draft, seen)?;
    let marks = raise_marks(&mut draft, seen);
    let Some(tip) = seen.blocks.last().map(|block| block.block().height).or_else(|| state.trail.tip().map(|tip| tip.height))
    else {
        return Ok(draft.finish());
    };
    confirm(&mut draft, due, &added, tip, &marks, seen.decided_at);
    if seen.notices.contains(&Notice::Detected) {
        detect(&mut draft, seen, &added, tip);
    }
    let mut settled = settle(&mut draft, floor(state, rules, tip, &marks));
    if seen.notices.contains(&Notice::Settled) {
        settled.sort_by_key(|settled| place(&settled.transfer));
        for Reported { transfer, sequence } in settled {
            draft.notice(&transfer, (sequence, Notice::Settled), confirmations(tip, transfer.block.height), seen.decided_at);
        }
    }
    Ok(draft.finish())
}

/// Drops what was pending and reverts what was reported in blocks above the ancestor, newest first.
pub(crate) fn undo(draft: &mut Draft<'_>, ancestor: Height, decided_at: Timestamp) {
    draft.change(Change::TrailCut(ancestor));
    if let Some(hash) = draft.state.trail.hash_at(ancestor) {
        let block = BlockRef { height: ancestor, hash: hash.clone() };
        let cut = draft.state.rescans.values().filter_map(|rescan| {
            let mut cut = rescan.clone();
            cut.cut(&block);
            (cut != *rescan).then_some(Change::RescanPut(cut))
        });
        cut.collect::<Vec<_>>().into_iter().for_each(|change| draft.change(change));
    }
    // What lies above the recorded tip was taken over from a consumer's books: no block of the trail carries it.
    let tip = draft.state.trail.tip().map_or(ancestor, |tip| tip.height);
    let recorded = |height: Height| height <= tip;
    let pending = draft.state.pending.above(ancestor).filter(|held| recorded(held.transfer.block.height)).cloned().collect();
    let reported = draft.state.reported.above(ancestor).filter(|held| recorded(held.transfer.block.height)).cloned().collect();
    take_back(draft, pending, reported, decided_at);
}

/// Drops pending and reverts reported deposits, newest first.
fn take_back(draft: &mut Draft<'_>, pending: Vec<Pending>, mut reported: Vec<Reported>, decided_at: Timestamp) {
    for Pending { transfer, last_sequence } in pending {
        draft.pending.drop(&transfer.key);
        draft.orphaned.put(Orphaned { transfer, last_sequence });
    }
    reported.sort_by_key(|reported| std::cmp::Reverse(place(&reported.transfer)));
    for Reported { transfer, sequence } in reported {
        let last_sequence = sequence.next();
        draft.event(&transfer, last_sequence, 0, decided_at);
        draft.reported.drop(&transfer.key);
        draft.orphaned.put(Orphaned { transfer, last_sequence });
    }
}

/// What was taken over from a consumer's books may name blocks that the trail has yet to reach. Once another block stands at such a height,
/// or a linked one passes it, the deposit is off the best chain (G3).
fn disprove(draft: &mut Draft<'_>, seen: &Observation) {
    let Some(tip) = draft.state.trail.tip().map(|tip| tip.height) else { return };
    let gone = |held: &Transfer| {
        let reached = seen.blocks.iter().find(|block| block.block().height >= held.block.height);
        reached.is_some_and(|block| match block {
            _ if block.block().height == held.block.height => block.block().hash != held.block.hash,
            SeenBlock::Linked(_) => true,
            SeenBlock::Jumped(_) => false,
        })
    };
    let pending: Vec<_> = draft.state.pending.above(tip).filter(|held| gone(&held.transfer)).cloned().collect();
    let reported: Vec<_> = draft.state.reported.above(tip).filter(|held| gone(&held.transfer)).cloned().collect();
    take_back(draft, pending, reported, seen.decided_at);
}

/// Takes new payments in as pending, and writes down those below their asset's minimum. Returns the keys of the former.
fn add(draft: &mut Draft<'_>, seen: &Observation) -> Result<BTreeSet<DepositKey>, Breach> {
    let mut added = BTreeSet::new();
    for transfer in &seen.transfers {
        let key = &transfer.key;
        let standing = draft.pending.get(key).map(|p| &p.transfer).or_else(|| draft.reported.get(key).map(|r| &r.transfer));
        if let Some(standing) = standing {
            if standing.payment != transfer.payment {
                let detail = format!(
                    "{key} paid {:?} in block {}, and {:?} in block {}",
                    standing.payment, standing.block, transfer.payment, transfer.block
                );
                return Err(Breach::new("S8", detail));
            }
            continue;
        }
        let archived = seen.archived.get(key);
        if archived.is_some_and(|archived| archived.sequence.stands()) {
            continue;
        }
        let last_sequence = match (draft.orphaned.get(key), archived) {
            (Some(orphaned), _) => orphaned.last_sequence,
            (None, _) if !takes_new(draft.state, transfer) => continue,
            (None, Some(archived)) => archived.sequence,
            (None, None) => Sequence::NONE,
        };
        if let Some(minimum) = draft.state.watch.minimum_above(&transfer.payment) {
            // What was told of the key before stays where it is.
            draft.small(Small { transfer: transfer.clone(), minimum, last_sequence });
            continue;
        }
        draft.orphaned.drop(key);
        draft.pending.put(Pending { transfer: transfer.clone(), last_sequence });
        added.insert(key.clone());
    }
    Ok(added)
}

/// A removed address and a delisted asset take no new keys.
fn takes_new(state: &ChainState, transfer: &Transfer) -> bool {
    let watching = state.watch.get(transfer.payment.address.bytes()).is_some_and(|entry| entry.state == WatchState::Watching);
    let listed = state.watch.asset(&transfer.payment.asset).is_some_and(|asset| !asset.delisted);
    watching && listed
}

/// The chain's own finality rises, and falls only to the ancestor of a branch that is left (S18): what was called final on it
/// says nothing of the next one. Returns the marks from here on.
fn raise_marks(draft: &mut Draft<'_>, seen: &Observation) -> BTreeMap<FinalityTag, Height> {
    let mut marks = draft.state.marks.clone();
    if let Some(ancestor) = seen.rollback_to {
        marks.values_mut().for_each(|mark| *mark = ancestor.min(*mark));
    }
    for (tag, height) in &seen.marks {
        if marks.get(tag).is_none_or(|mark| mark < height) {
            marks.insert(*tag, *height);
            draft.change(Change::MarkRaised(*tag, *height));
        }
    }
    marks
}

/// Confirms what is deep enough now and reaches its asset's minimum, oldest first.
fn confirm(
    draft: &mut Draft<'_>,
    due: &DueIndex,
    added: &BTreeSet<DepositKey>,
    tip: Height,
    marks: &BTreeMap<FinalityTag, Height>,
    decided_at: Timestamp,
) {
    let candidates: BTreeSet<&DepositKey> = due.candidates(tip, marks).chain(added).collect();
    let pending = candidates.into_iter().filter_map(|key| draft.pending.get(key));
    let mut deep: Vec<Pending> = pending.filter(|pending| is_deep_enough(pending, draft.state, tip, marks)).cloned().collect();
    deep.sort_by_key(|pending| place(&pending.transfer));
    for Pending { transfer, last_sequence } in deep {
        draft.pending.drop(&transfer.key);
        if let Some(minimum) = draft.state.watch.minimum_above(&transfer.payment) {
            // The minimum was raised while it waited. What was told of the key before is kept as that of an orphaned one.
            if last_sequence > Sequence::NONE {
                draft.orphaned.put(Orphaned { transfer: transfer.clone(), last_sequence });
            }
            draft.small(Small { transfer, minimum, last_sequence });
            continue;
        }
        let sequence = last_sequence.next();
        debug_assert!(sequence.stands(), "a confirmed event's sequence is odd");
        draft.event(&transfer, sequence, confirmations(tip, transfer.block.height), decided_at);
        draft.reported.put(Reported { transfer, sequence });
    }
}

/// Says of what was taken in and waits that it was seen. What is deep enough at once is only confirmed.
fn detect(draft: &mut Draft<'_>, seen: &Observation, added: &BTreeSet<DepositKey>, tip: Height) {
    for transfer in seen.transfers.iter().filter(|transfer| added.contains(&transfer.key)) {
        let waits = draft.pending.get(&transfer.key).filter(|pending| pending.transfer.block == transfer.block);
        let Some(last_sequence) = waits.map(|pending| pending.last_sequence) else { continue };
        let confirmations = confirmations(tip, transfer.block.height);
        draft.notice(transfer, (last_sequence, Notice::Detected), confirmations, seen.decided_at);
    }
}

fn is_deep_enough(pending: &Pending, state: &ChainState, tip: Height, marks: &BTreeMap<FinalityTag, Height>) -> bool {
    let height = pending.transfer.block.height;
    needed(pending, &state.watch).is_some_and(|(needed, tag)| {
        confirmations(tip, height) >= needed && tag.is_none_or(|tag| marks.get(&tag).is_some_and(|mark| height <= *mark))
    })
}

/// `reorg_depth` below the tip, never lowered, and never above the finality that a listed asset's policy asks for.
fn floor(state: &ChainState, rules: &Rules, tip: Height, marks: &BTreeMap<FinalityTag, Height>) -> Height {
    let tags = state.watch.assets().filter_map(|asset| asset.requirement.tag);
    let final_to = tags.map(|tag| marks.get(&tag).copied().unwrap_or_default()).min();
    let wanted = tip.minus(rules.reorg_depth.get());
    state.trail.floor().max(final_to.map_or(wanted, |final_to| wanted.min(final_to)))
}

/// Raises the floor; what was reported at or below it is settled, what was orphaned there keeps its sequence for ever. Returns what was
/// settled.
fn settle(draft: &mut Draft<'_>, floor: Height) -> Vec<Reported> {
    if floor <= draft.state.trail.floor() {
        // Even under an unchanged floor, an old pending deposit may just have been confirmed below it.
        return archive(draft, floor);
    }
    draft.change(Change::FloorRaised(floor));
    let superfluous = draft.state.trail.superfluous(floor);
    superfluous.into_iter().for_each(|height| draft.change(Change::TrailForgot(height)));
    archive(draft, floor)
}

fn archive(draft: &mut Draft<'_>, floor: Height) -> Vec<Reported> {
    let settled = draft.reported.at_or_below(floor);
    for Reported { transfer, sequence } in &settled {
        draft.archive(transfer, *sequence);
        draft.reported.drop(&transfer.key);
    }
    for Orphaned { transfer, last_sequence } in draft.orphaned.at_or_below(floor) {
        if last_sequence > Sequence::NONE {
            draft.archive(&transfer, last_sequence);
        }
        draft.orphaned.drop(&transfer.key);
    }
    settled
}

/// Order on the chain: height, position in the block, output index.
fn place(transfer: &Transfer) -> (Height, u32, u32) {
    (transfer.block.height, transfer.position, transfer.key.output_index)
}

pub(crate) use draft::Draft as ChangeDraft;

#[cfg(test)]
mod tests;
