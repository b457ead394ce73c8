//! The reading half of a rescan's step: asks the source, changes nothing. Runs as a task of its own, beside the live watch.

use crate::contract::{Breach, check_answer};
use confirmd_core::{BlockRef, ChainSource, Height, HeightRange, SourceError, Transfer, WatchSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deposits in one commit, as in a live tick.
const DEPOSITS_MAX: usize = 500;

/// Heights looked at for a block where a slot is empty.
const PROBES_MAX: u64 = 16;

/// What a step reads, and against what.
#[derive(Debug)]
pub(in crate::watcher) struct StepReader {
    pub(super) source: Arc<dyn ChainSource>,
    pub(super) watch: Arc<WatchSet>,
    pub(super) range: HeightRange,
    /// The trail's refs from the range's beginning to the trail's tip, which is the last of them.
    pub(super) known: BTreeMap<Height, BlockRef>,
    /// At and above it the trail has every block.
    pub(super) dense_from: Height,
    pub(super) connection: u64,
}

/// What a step read: complete for its heights, and on the branch of the trail's tip of that time.
#[derive(Debug)]
pub(in crate::watcher) struct StepRead {
    pub(super) tip: BlockRef,
    pub(super) range: HeightRange,
    /// The block that ends the range.
    pub(super) to: BlockRef,
    pub(in crate::watcher) transfers: Vec<Transfer>,
    /// The range was cut: next time ask for less.
    pub(super) cut: bool,
}

/// Why a step read nothing.
#[derive(Debug, thiserror::Error)]
pub(in crate::watcher) enum StepError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("the source broke its contract: {0}")]
    Breach(Breach),
}

impl StepReader {
    pub(super) async fn read(self) -> Result<StepRead, StepError> {
        let Some((_, tip)) = self.known.last_key_value().map(|(height, tip)| (*height, tip.clone())) else {
            return Err(SourceError::transient("there is no trail to read beside").into());
        };
        let to = self.end().await?;
        let from = self.range.from;
        let mut transfers = self.source.transfers(from, &to, &self.watch).await?;
        check_answer(&transfers, from, &to, &self.watch, |height| self.known.get(&height)).map_err(StepError::Breach)?;
        self.one_branch(&tip, &to).await?;
        let whole = HeightRange { from, to: to.height };
        let Some(last) = cut(&transfers) else { return Ok(StepRead { tip, range: whole, to, transfers, cut: false }) };
        transfers.retain(|transfer| transfer.block.height <= last);
        let to = transfers.last().map_or(to, |transfer| transfer.block.clone());
        Ok(StepRead { tip, range: HeightRange { from, to: last }, to, transfers, cut: true })
    }

    /// The block that ends the range, at its end or behind empty slots: the trail's own, where the trail has every block.
    async fn end(&self) -> Result<BlockRef, SourceError> {
        let wanted = self.range.to;
        let recorded = self.known.range(wanted..).next().map(|(_, block)| block.clone());
        let near = wanted >= self.dense_from;
        if let Some(block) = recorded.clone().filter(|block| near || block.height == wanted) {
            return Ok(block);
        }
        for height in (wanted.0..).take(usize::try_from(PROBES_MAX).unwrap_or(1)).map(Height) {
            if recorded.as_ref().is_some_and(|recorded| recorded.height <= height) {
                break;
            }
            if let Some(header) = self.source.header_at(height).await? {
                return Ok(header.block);
            }
        }
        recorded.ok_or_else(|| SourceError::transient(format!("no block at or above {wanted}, though the trail goes further")))
    }

    /// What was read lies on one branch with our trail: both ends are on the best chain now, and one node said all of it.
    async fn one_branch(&self, tip: &BlockRef, to: &BlockRef) -> Result<(), SourceError> {
        for block in [tip, to] {
            if self.source.header_at(block.height).await?.is_none_or(|now| now.block != *block) {
                return Err(SourceError::orphaned(format!("{block} is not on the best chain while history is read")));
            }
        }
        if self.source.connection() != self.connection {
            return Err(SourceError::orphaned("the connection changed while history was read"));
        }
        Ok(())
    }
}

/// The last height that may be taken so that a commit stays bounded; never below the first block with any payment. `None` if all of it.
fn cut(transfers: &[Transfer]) -> Option<Height> {
    let over = transfers.get(DEPOSITS_MAX)?.block.height;
    let first = transfers.first()?.block.height;
    let last = transfers.iter().map(|transfer| transfer.block.height).take_while(|height| *height < over).last();
    let last = last.unwrap_or(first);
    transfers.last().is_some_and(|end| end.block.height > last).then_some(last)
}
