//! The trail: our recorded suffix of the best chain.

use crate::{BlockHash, BlockRef, Height};
use std::collections::BTreeMap;

/// Recorded block refs: dense (linked one to the next) from [`Trail::dense_from`] to the tip, sparse below.
/// Blocks above the floor may still change; at or below it they are final.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trail {
    refs: BTreeMap<Height, BlockHash>,
    floor: Height,
    linked_from: Height,
}

impl Trail {
    /// The highest recorded block.
    pub fn tip(&self) -> Option<BlockRef> {
        self.refs.last_key_value().map(|(height, hash)| BlockRef { height: *height, hash: hash.clone() })
    }

    /// Persisted, never lowered.
    pub fn floor(&self) -> Height {
        self.floor
    }

    /// The lowest height an ancestor is searched at: the floor, or the last sparse jump above it.
    pub fn dense_from(&self) -> Height {
        self.floor.max(self.linked_from)
    }

    /// The hash recorded at a height.
    pub fn hash_at(&self, height: Height) -> Option<&BlockHash> {
        self.refs.get(&height)
    }

    /// Recorded refs, highest first.
    pub fn newest_first(&self) -> impl Iterator<Item = BlockRef> + '_ {
        self.refs.iter().rev().map(|(height, hash)| BlockRef { height: *height, hash: hash.clone() })
    }

    /// Recorded refs above a height, highest first.
    pub fn above(&self, height: Height) -> impl Iterator<Item = BlockRef> + '_ {
        self.newest_first().take_while(move |block| block.height > height)
    }

    /// How many refs are held.
    pub fn len(&self) -> usize {
        self.refs.len()
    }

    /// Whether nothing is recorded yet.
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty()
    }

    /// A block that links to the tip (or the first one).
    pub(crate) fn push(&mut self, block: &BlockRef) {
        if self.refs.is_empty() {
            self.linked_from = block.height;
        }
        self.refs.insert(block.height, block.hash.clone());
    }

    /// A block far below the source's tip, entered without a link.
    pub(crate) fn jump(&mut self, block: &BlockRef) {
        self.refs.insert(block.height, block.hash.clone());
        self.linked_from = block.height;
    }

    /// Forgets everything above a height.
    pub(crate) fn cut(&mut self, above: Height) {
        self.refs.split_off(&above.next());
        self.linked_from = self.linked_from.min(above);
    }

    pub(crate) fn forget(&mut self, height: Height) {
        self.refs.remove(&height);
    }

    pub(crate) fn raise_floor(&mut self, floor: Height) {
        self.floor = self.floor.max(floor);
    }

    /// For a re-anchoring the operator asked for, and for a store that loads.
    pub(crate) fn set_floor(&mut self, floor: Height, linked_from: Height) {
        self.floor = floor;
        self.linked_from = linked_from;
    }

    /// Rebuilds a trail from what a store holds.
    pub fn restore(refs: impl IntoIterator<Item = BlockRef>, floor: Height, linked_from: Height) -> Self {
        let refs = refs.into_iter().map(|block| (block.height, block.hash)).collect();
        Self { refs, floor, linked_from }
    }

    /// Where the linked part begins, as a store must keep it beside the floor.
    pub fn linked_from(&self) -> Height {
        self.linked_from
    }

    /// Heights of refs below `floor` that may be forgotten, so that what is kept grows with the logarithm of the chain:
    /// within each doubling of the distance below the floor some [`SPARSE_PER_DOUBLING`] refs stay.
    pub fn superfluous(&self, floor: Height) -> Vec<Height> {
        let mut last_kept = None;
        let mut superfluous = Vec::new();
        // Of each bucket the lowest stays. Buckets double with the distance, so a wider one keeps what a narrower one kept.
        for height in self.refs.range(..floor).map(|(height, _)| height.0) {
            let step = (floor.0.saturating_sub(height) / SPARSE_PER_DOUBLING).max(1).next_power_of_two();
            let bucket = (step, height / step);
            if last_kept == Some(bucket) {
                superfluous.push(Height(height));
            }
            last_kept = Some(bucket);
        }
        superfluous
    }
}

/// Refs kept per doubling of the distance below the floor; they only serve to anchor again after a too deep reorg.
const SPARSE_PER_DOUBLING: u64 = 8;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn block(height: u64) -> BlockRef {
        BlockRef { height: Height(height), hash: BlockHash::new(format!("h{height}")).unwrap() }
    }

    #[test]
    fn the_floor_is_never_lowered() {
        let mut trail = Trail::default();
        trail.raise_floor(Height(10));
        trail.raise_floor(Height(5));
        assert_eq!(trail.floor(), Height(10));
    }

    #[test]
    fn an_ancestor_is_never_searched_below_a_sparse_jump() {
        let mut trail = Trail::default();
        (1..=5).for_each(|h| trail.push(&block(h)));
        trail.jump(&block(1000));
        trail.push(&block(1001));
        assert_eq!(trail.dense_from(), Height(1000));
    }

    #[test]
    fn sparse_refs_grow_with_the_logarithm_of_the_chain() {
        let mut trail = Trail::default();
        for height in 1..=100_000 {
            trail.push(&block(height));
            let floor = Height(height.saturating_sub(24));
            trail.raise_floor(floor);
            for gone in trail.superfluous(floor) {
                trail.forget(gone);
            }
        }
        assert!(trail.len() < 300, "{} refs kept", trail.len());
        assert!(trail.hash_at(Height(100_000 - 24)).is_some());
        // Every doubling of the distance still has an anchor.
        let below: Vec<_> = trail.newest_first().map(|b| 100_000 - b.height.0).collect();
        for power in 6..16 {
            assert!(below.iter().any(|d| (1 << power..2 << power).contains(d)), "no ref at distance 2^{power}");
        }
    }
}
