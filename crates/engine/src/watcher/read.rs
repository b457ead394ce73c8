//! The reading half of a tick: asks the source, changes nothing. Its future may be dropped at any await.

use super::span::Span;
use crate::DueIndex;
use crate::contract::{Breach, check_answer};
use crate::fold::{Observation, SeenBlock};
use crate::walker::{ReorgWalker, Walk};
use confirmd_core::{
    BlockHeader, BlockRef, ChainId, ChainSource, ChainState, DepositKey, FinalityTag, HaltReason, Height, SourceError,
    SourceErrorKind, StartAt, StateStore, StoreError, Timestamp, Transfer,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a tick read.
#[derive(Debug)]
pub(super) enum Reading {
    /// Nothing new.
    Idle { tip: BlockRef },
    /// The first blocks of a trail, lowest first; all below `StartAt`.
    Seed { tip: BlockRef, blocks: Vec<BlockRef>, floor: Height },
    /// The source's chain ends below our tip.
    Behind { tip: BlockRef },
    /// A fork not longer than our trail, still to be waited for.
    ShorterFork { tip: BlockRef, ancestor: BlockRef },
    /// Something to decide on.
    Seen { tip: BlockRef, seen: Observation, reorg: Option<(BlockRef, u64)>, next_span: u64 },
    /// The chain must stop.
    Halt(HaltReason),
}

/// Why a tick read nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How often a tick starts again at the walk when the source's branch changes under it.
const RESTARTS_MAX: u32 = 3;

/// What a reading needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) source: &'a dyn ChainSource,
    pub(super) store: &'a dyn StateStore,
    pub(super) state: &'a ChainState,
    pub(super) due: &'a DueIndex,
    /// The expected network was seen on this connection already.
    pub(super) identified: bool,
    /// A fork that is not longer than our trail has been waited for long enough.
    pub(super) fork_ripe: bool,
    /// Decide even if no block is new: policies may have changed.
    pub(super) refold: bool,
    /// Blocks to read far below the tip.
    pub(super) span: u64,
    pub(super) now: Timestamp,
}

impl Reader<'_> {
    /// Steps 1 to 7 of a tick.
    pub(super) async fn read(&self) -> Result<Reading, ReadError> {
        let mut restarts = 0;
        loop {
            match self.read_once().await {
                Err(ReadError::Source(error)) if error.kind == SourceErrorKind::Orphaned => {
                    restarts += 1;
                    if restarts > RESTARTS_MAX {
                        let context = format!("the source's branch changed {restarts} times within one tick");
                        return Err(SourceError::transient(context).with_source(error).into());
                    }
                    tracing::debug!(chain = %self.source.profile().name, error = %error, "tick restarted at the walk");
                }
                other => return other,
            }
        }
    }

    async fn read_once(&self) -> Result<Reading, ReadError> {
        if let Some(reason) = self.wrong_network().await? {
            return Ok(Reading::Halt(reason));
        }
        let mut walk = ReorgWalker.walk(self.source, &self.state.trail).await?;
        let tip = self.source.tip().await?;
        let Some(recorded) = self.state.trail.tip() else { return Ok(self.seed(tip).await?) };
        if walk == Walk::Behind && tip.height > recorded.height {
            // It has nothing where our tip is and goes on above: empty slots, however many.
            let to = tip.height.min(recorded.height.plus(LINKED_MAX));
            let above = self.source.headers(recorded.height.next(), to).await?.into_iter().next();
            if let Some(above) = above {
                walk = ReorgWalker.walk_below(self.source, &self.state.trail, above).await?;
            }
        }
        let (base, reorg) = match walk {
            Walk::OnBestChain => (recorded, None),
            Walk::Behind => return Ok(Reading::Behind { tip }),
            Walk::TooDeep { seen } => {
                let floor = self.state.trail.dense_from();
                return Ok(Reading::Halt(HaltReason::TooDeep { floor, recorded, seen }));
            }
            Walk::Forked { ancestor, orphaned } => {
                let several = self.source.profile().several_endpoints;
                let short = tip.height < recorded.height || (several && tip.height == recorded.height);
                if short && !self.fork_ripe {
                    return Ok(Reading::ShorterFork { tip, ancestor });
                }
                let count = u64::try_from(orphaned.len()).unwrap_or(u64::MAX);
                (ancestor.clone(), Some((ancestor, count)))
            }
        };
        self.read_above(base, tip, reorg).await
    }

    async fn wrong_network(&self) -> Result<Option<HaltReason>, SourceError> {
        if self.identified {
            return Ok(None);
        }
        let found = self.source.identify().await?;
        let expected: &ChainId = &self.source.profile().chain;
        let wrong = HaltReason::WrongNetwork { expected: expected.to_string(), found: found.to_string() };
        Ok((found != *expected).then_some(wrong))
    }

    /// The trail's first blocks: everything up to the one before the start, as far down as a reorg may reach.
    async fn seed(&self, tip: BlockRef) -> Result<Reading, SourceError> {
        let profile = self.source.profile();
        let base = match profile.start {
            StartAt::Tip => tip.height,
            StartAt::Height(height) => height.minus(1),
        };
        if base > tip.height {
            return Ok(Reading::Behind { tip });
        }
        let depth = profile.reorg_depth.get();
        let near = tip.height.since(base) < depth;
        let from = if near { base.minus(depth) } else { base };
        let headers = self.source.headers(from, base).await?;
        let blocks = linked(None, headers)?;
        // Up to the base itself; only a chain with empty slots may lack it, and then only near the tip.
        if blocks.last().is_none_or(|last| last.height != base && !near) {
            return Err(SourceError::transient(format!("no header at the start height {base}, though the tip is {tip}")));
        }
        Ok(Reading::Seed { tip, blocks, floor: if near { base.minus(depth) } else { base } })
    }

    async fn read_above(&self, base: BlockRef, tip: BlockRef, reorg: Option<(BlockRef, u64)>) -> Result<Reading, ReadError> {
        let marked = self.marked(tip.height > base.height).await?;
        // Nothing above what a policy calls final may enter the trail without a link.
        let final_to = marked.iter().map(|(_, block)| block.as_ref().map_or(Height::default(), |block| block.height)).min();
        let far = tip.height.minus(self.source.profile().reorg_depth.get());
        let far = final_to.map_or(far, |final_to| far.min(final_to));
        let mut blocks = Vec::new();
        if tip.height > base.height {
            blocks =
                if reorg.is_none() && far > base.height { self.jump(&base, far).await? } else { self.link(&base, &tip).await? };
        }
        let recorded = |block: &SeenBlock| self.state.trail.hash_at(block.block().height) == Some(&block.block().hash);
        if reorg.is_some() && blocks.iter().any(recorded) {
            // What the walk saw leave is back: nothing of it may be reverted by this tick (G3).
            return Err(SourceError::orphaned(format!("blocks above {base} left the best chain and came back to it")).into());
        }
        if blocks.is_empty() && reorg.is_some() {
            // The branch we forked to has vanished between two reads.
            return Err(SourceError::orphaned(format!("no block above the common ancestor {base}")).into());
        }
        let marks = self.marks(&base, &blocks, marked)?;
        if blocks.is_empty() && !self.refold && marks.is_empty() {
            return Ok(Reading::Idle { tip });
        }
        let mut transfers = Vec::new();
        let mut next_span = self.span;
        if let Some(to) = blocks.last().map(|block| block.block().clone()) {
            let from = base.height.next();
            transfers = self.source.transfers(from, &to, &self.state.watch).await?;
            if let Err(breach) = self.check(&transfers, from, &to, &blocks) {
                return Ok(Reading::Halt(HaltReason::BrokenContract { detail: breach.to_string() }));
            }
            let span = Span { base: base.height, target: self.span, span_max: self.source.profile().span_max.get() };
            next_span = span.cut(self.source, &mut blocks, &mut transfers).await?;
        }
        let archived = self.archived(&transfers).await?;
        let rollback_to = reorg.as_ref().map(|(ancestor, _)| ancestor.height);
        let seen =
            Observation { rollback_to, blocks, marks, transfers, archived, decided_at: self.now, notices: BTreeSet::new() };
        Ok(Reading::Seen { tip, seen, reorg, next_span })
    }

    /// One sparse block, as far up as the span allows and no higher than where reorgs can't reach.
    async fn jump(&self, base: &BlockRef, far: Height) -> Result<Vec<SeenBlock>, SourceError> {
        // Not past a deposit that was taken over from a consumer's books: whether its block stands is seen at its height.
        let pending = self.state.pending.above(base.height).next().map(|held| held.transfer.block.height);
        let reported = self.state.reported.above(base.height).next().map(|held| held.transfer.block.height);
        let held = pending.into_iter().chain(reported).min().unwrap_or(far);
        let wanted = base.height.plus(self.span).min(far).min(held);
        // An empty slot is answered by the next block; near `far` only linked blocks may follow.
        let headers = match self.source.header_at(wanted).await? {
            Some(header) => vec![header],
            None => self.source.headers(wanted, far).await?,
        };
        let Some(header) = headers.into_iter().next() else {
            return Err(SourceError::transient(format!("no header between {wanted} and {far}, though the tip is far above")));
        };
        // The tip may be another branch's than the walk saw: our last block must be on it (G4).
        if self.source.header_at(base.height).await?.is_none_or(|now| now.block != *base) {
            return Err(SourceError::orphaned(format!("{base} left the best chain after the walk")));
        }
        Ok(vec![SeenBlock::Jumped(header.block)])
    }

    /// Linked blocks above `base`, as many as one commit takes.
    async fn link(&self, base: &BlockRef, tip: &BlockRef) -> Result<Vec<SeenBlock>, SourceError> {
        let to = tip.height.min(base.height.plus(LINKED_MAX));
        let headers = self.source.headers(base.height.next(), to).await?;
        Ok(linked(Some(base), headers)?.into_iter().map(SeenBlock::Linked).collect())
    }

    /// What the chain itself calls final, where a policy asks for it and there is something to decide by it.
    async fn marked(&self, new_blocks: bool) -> Result<Vec<(FinalityTag, Option<BlockRef>)>, SourceError> {
        let tags: BTreeSet<FinalityTag> = self.state.watch.assets().filter_map(|asset| asset.requirement.tag).collect();
        let mut marked = Vec::new();
        for tag in tags.into_iter().filter(|tag| new_blocks || self.due.waits_for(*tag)) {
            marked.push((tag, self.source.finalized(tag).await?));
        }
        Ok(marked)
    }

    /// Of that, what is on our branch, and no higher than its tip.
    fn marks(
        &self,
        base: &BlockRef,
        blocks: &[SeenBlock],
        marked: Vec<(FinalityTag, Option<BlockRef>)>,
    ) -> Result<Vec<(FinalityTag, Height)>, SourceError> {
        let top = blocks.last().map_or(base.height, |block| block.block().height);
        let mut marks = Vec::new();
        for (tag, marked) in marked {
            let Some(marked) = marked else { continue };
            let known = blocks.iter().map(SeenBlock::block).find(|block| block.height == marked.height).map(|block| &block.hash);
            let known = known.or_else(|| self.state.trail.hash_at(marked.height).filter(|_| marked.height <= base.height));
            if known.is_some_and(|hash| *hash != marked.hash) {
                return Err(SourceError::orphaned(format!(
                    "the {} block {marked} is not on the branch being read",
                    tag.as_str()
                )));
            }
            let height = marked.height.min(top);
            // What was called final on a branch that is left now says nothing of the next.
            match self.state.marks.get(&tag).map(|mark| *mark.min(&base.height)) {
                Some(mark) if height < mark => {
                    tracing::warn!(chain = %self.source.profile().name, tag = tag.as_str(), height = height.0, mark = mark.0,
                        "the node's finality went back; ours stays");
                }
                Some(mark) if height == mark => {}
                _ => marks.push((tag, height)),
            }
        }
        Ok(marks)
    }

    fn check(&self, transfers: &[Transfer], from: Height, to: &BlockRef, blocks: &[SeenBlock]) -> Result<(), Breach> {
        let recorded: BTreeMap<Height, &BlockRef> = blocks.iter().map(|block| (block.block().height, block.block())).collect();
        check_answer(transfers, from, to, &self.state.watch, |height| recorded.get(&height).copied())
    }

    /// Of these payments' keys, those that are not held and that the store has archived.
    pub(super) async fn archived(
        &self,
        transfers: &[Transfer],
    ) -> Result<BTreeMap<DepositKey, confirmd_core::Archived>, StoreError> {
        let held = |key: &DepositKey| self.state.pending.get(key).is_some() || self.state.reported.get(key).is_some();
        let keys: Vec<DepositKey> = transfers.iter().map(|transfer| transfer.key.clone()).filter(|key| !held(key)).collect();
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        self.store.settled_among(&self.source.profile().chain, &keys).await
    }
}

/// Blocks linked in one tick near the tip.
const LINKED_MAX: u64 = 128;

/// Checks that headers link from `base` on; the rest of the tick reads the branch that they prove (G4, S4).
fn linked(base: Option<&BlockRef>, headers: Vec<BlockHeader>) -> Result<Vec<BlockRef>, SourceError> {
    let mut last: Option<BlockRef> = base.cloned();
    let mut blocks = Vec::with_capacity(headers.len());
    for header in headers {
        if let Some(last) = last.as_ref().filter(|last| header.parent != last.hash || header.block.height <= last.height) {
            return Err(SourceError::orphaned(format!("block {} does not link to {last}", header.block)));
        }
        last = Some(header.block.clone());
        blocks.push(header.block);
    }
    Ok(blocks)
}
