//! Where our trail and the source's best chain part. Generic: reads only `header_at`, knows no payments, writes nothing.

use confirmd_core::{BlockHash, BlockHeader, BlockRef, ChainSource, Height, SourceError, Trail};

/// What a walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Walk {
    /// The trail's tip is on the best chain (or there is no trail yet).
    OnBestChain,
    /// The source's chain ends below our tip and contradicts nothing: wait. Never a rollback.
    Behind,
    /// The trail's blocks above the ancestor left the best chain.
    Forked {
        /// The highest recorded block that is still on the best chain.
        ancestor: BlockRef,
        /// Recorded blocks above it, highest first.
        orphaned: Vec<BlockRef>,
    },
    /// The contradiction reaches to where the trail is no longer dense.
    TooDeep {
        /// The source's block there.
        seen: BlockRef,
    },
}

/// Heights looked at above our tip when a slot that we recorded is empty now: a later header proves whether it was left out.
const PROBES_ABOVE_TIP: u64 = 8;

/// Heights looked at below what an ancestor is searched in, for a block that a header links to past empty slots.
const PROBES_MAX: usize = 8;

/// Finds the common ancestor of a trail and a source.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReorgWalker;

/// What the source has at a recorded height.
enum Answer {
    Same,
    Other(BlockHeader),
    /// Above its tip, or an empty slot: proves nothing by itself.
    Nothing,
}

impl ReorgWalker {
    /// Compares the trail with the source's best chain: one read while nothing has changed, at most depth + 2 after a reorg
    /// of a chain without empty slots. Errors are the source's; a source that contradicts itself gives `Orphaned`.
    pub async fn walk(self, source: &dyn ChainSource, trail: &Trail) -> Result<Walk, SourceError> {
        let Some(tip) = trail.tip() else { return Ok(Walk::OnBestChain) };
        let lowest_other = match ask(source, &tip).await? {
            Answer::Same => return Ok(Walk::OnBestChain),
            Answer::Other(header) => Some(header),
            Answer::Nothing => None,
        };
        if lowest_other.is_none() {
            // A source far behind must not cost a walk through the whole trail: look at its lowest dense ref first.
            let lowest = trail.newest_first().take_while(|block| block.height >= trail.dense_from()).last();
            match lowest {
                Some(lowest) if lowest != tip => match ask(source, &lowest).await? {
                    Answer::Nothing => return Ok(Walk::Behind),
                    Answer::Other(header) => return Ok(Walk::TooDeep { seen: header.block }),
                    Answer::Same => {}
                },
                _ => return Ok(Walk::Behind),
            }
        }
        search(source, trail, &tip, lowest_other, 1).await
    }

    /// The same when nothing is known of our tip's height but the first header above it: what lies above the ancestor was left
    /// out if that header links past it.
    pub async fn walk_below(self, source: &dyn ChainSource, trail: &Trail, above: BlockHeader) -> Result<Walk, SourceError> {
        let Some(tip) = trail.tip() else { return Ok(Walk::OnBestChain) };
        match search(source, trail, &tip, Some(above), 0).await? {
            Walk::Forked { orphaned, .. } if orphaned.is_empty() => Ok(Walk::OnBestChain),
            found => Ok(found),
        }
    }
}

/// From our `skipped`-th newest block downwards. `lowest_other` is the source's lowest header known to be none of ours.
async fn search(
    source: &dyn ChainSource,
    trail: &Trail,
    tip: &BlockRef,
    mut lowest_other: Option<BlockHeader>,
    skipped: usize,
) -> Result<Walk, SourceError> {
    // Between that header and the height looked at there was none.
    let mut skipped_below_other = skipped == 0;
    for block in trail.newest_first().skip(skipped).take_while(|block| block.height >= trail.dense_from()) {
        match ask(source, &block).await? {
            Answer::Same => return judge(source, trail, tip, block, lowest_other, skipped_below_other).await,
            Answer::Other(header) => {
                lowest_other = Some(header);
                skipped_below_other = false;
            }
            Answer::Nothing => skipped_below_other = lowest_other.is_some(),
        }
    }
    match lowest_other {
        Some(header) if skipped_below_other && !links_below(source, trail, &header).await? => {
            Err(contradiction("it has other blocks above an empty height at the end of our trail"))
        }
        Some(header) => Ok(Walk::TooDeep { seen: header.block }),
        None => Ok(Walk::Behind),
    }
}

/// The parent of the lowest block above `below` that a header's links lead to; None if what the source has in between is not so linked.
/// The source may have blocks where our chain had empty slots.
async fn parent_below(source: &dyn ChainSource, header: &BlockHeader, below: Height) -> Result<Option<BlockHash>, SourceError> {
    let mut parent = header.parent.clone();
    for height in (below.next().0..header.block.height.0).rev() {
        match source.header_at(Height(height)).await? {
            Some(found) if found.block.hash == parent => parent = found.parent,
            Some(_) => return Ok(None),
            None => {}
        }
    }
    Ok(Some(parent))
}

/// Whether a header's links lead to the ancestor.
async fn descends(source: &dyn ChainSource, header: &BlockHeader, ancestor: &BlockRef) -> Result<bool, SourceError> {
    Ok(parent_below(source, header, ancestor.height).await?.is_some_and(|parent| parent == ancestor.hash))
}

/// Whether a header's links lead below everything that an ancestor is searched in.
async fn links_below(source: &dyn ChainSource, trail: &Trail, header: &BlockHeader) -> Result<bool, SourceError> {
    let below = trail.dense_from();
    let Some(parent) = parent_below(source, header, below.minus(1)).await? else { return Ok(false) };
    for height in (0..below.0).rev().take(PROBES_MAX) {
        if let Some(found) = source.header_at(Height(height)).await? {
            return Ok(found.block.hash == parent);
        }
    }
    Ok(false)
}

async fn ask(source: &dyn ChainSource, block: &BlockRef) -> Result<Answer, SourceError> {
    Ok(match source.header_at(block.height).await? {
        None => Answer::Nothing,
        Some(header) if header.block == *block => Answer::Same,
        Some(header) if header.block.height == block.height => Answer::Other(header),
        Some(_) => return Err(contradiction("it answered for another height than the one asked for")),
    })
}

/// An ancestor is found; decides whether what lies above it is proven to have left the best chain (G3).
async fn judge(
    source: &dyn ChainSource,
    trail: &Trail,
    tip: &BlockRef,
    ancestor: BlockRef,
    lowest_other: Option<BlockHeader>,
    skipped_below_other: bool,
) -> Result<Walk, SourceError> {
    let forked = |ancestor: BlockRef| {
        let orphaned = trail.above(ancestor.height).collect();
        Ok(Walk::Forked { ancestor, orphaned })
    };
    match lowest_other {
        // A height that is empty now was left out only if the headers above link past it.
        Some(header) if skipped_below_other => match descends(source, &header, &ancestor).await? {
            true => forked(ancestor),
            false => Err(contradiction("its headers do not link past a height that is empty now")),
        },
        Some(_) => forked(ancestor),
        None => {
            for above in 1..=PROBES_ABOVE_TIP {
                if let Some(header) = source.header_at(tip.height.plus(above)).await? {
                    return if descends(source, &header, &ancestor).await? { forked(ancestor) } else { Ok(Walk::Behind) };
                }
            }
            Ok(Walk::Behind)
        }
    }
}

fn contradiction(what: &str) -> SourceError {
    SourceError::orphaned(format!("the source contradicts itself while the trail is compared: {what}"))
}

#[cfg(test)]
mod tests;
