//! How many blocks one commit takes: cut so that it holds a bounded number of deposits.

use crate::fold::SeenBlock;
use confirmd_core::{ChainSource, Height, SourceError, Transfer};

/// Deposits in one commit; measured: beyond 200 the store's rate is flat and its latency grows, but each span costs the node six
/// requests besides its payments' own.
const DEPOSITS_MAX: usize = 500;

/// Below this many the next span grows.
const DEPOSITS_FEW: usize = 250;

/// One tick's span of blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) base: Height,
    /// Blocks wanted this time.
    pub(super) target: u64,
    /// The most that may be wanted.
    pub(super) span_max: u64,
}

impl Span {
    /// Cuts blocks and transfers after the last height whose transfers still fit (never below the first block with any).
    /// Returns how many blocks to want next time.
    pub(super) async fn cut(
        self,
        source: &dyn ChainSource,
        blocks: &mut Vec<SeenBlock>,
        transfers: &mut Vec<Transfer>,
    ) -> Result<u64, SourceError> {
        if transfers.len() <= DEPOSITS_MAX {
            let grow = if transfers.len() < DEPOSITS_FEW { self.target.saturating_mul(2) } else { self.target };
            return Ok(grow.min(self.span_max));
        }
        let heights = transfers.iter().map(|transfer| transfer.block.height);
        let over = heights.clone().nth(DEPOSITS_MAX).unwrap_or_default();
        let first = heights.clone().next().unwrap_or_default();
        let last = heights.take_while(|height| *height < over).last().unwrap_or(first);
        if blocks.last().is_some_and(|block| block.block().height <= last) {
            return Ok(self.target);
        }
        match blocks.last() {
            Some(SeenBlock::Jumped(to)) => {
                // The payments' own block stands in for the sparse ref; it must be on the branch that was read.
                let on_branch = transfers.iter().rev().find(|transfer| transfer.block.height == last).map(|t| t.block.clone());
                let header = source.header_at(last).await?.map(|header| header.block);
                if header.is_none() || header != on_branch {
                    return Err(SourceError::orphaned(format!("the branch of {to} has changed at height {last}")));
                }
                *blocks = header.map(SeenBlock::Jumped).into_iter().collect();
            }
            _ => blocks.retain(|block| block.block().height <= last),
        }
        transfers.retain(|transfer| transfer.block.height <= last);
        Ok(last.since(self.base).max(1).min(self.span_max))
    }
}
