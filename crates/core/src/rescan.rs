//! A rescan: a durable job that reads closed ranges of past blocks beside the live watch, which it never moves.

use crate::{AssetId, BlockRef, Height, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A rescan's number within its chain, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RescanId(pub u64);

impl fmt::Display for RescanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What an address was last asked to be read again for: from this height on, by this rescan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedHistory {
    /// The first height that is read for it.
    pub from: Height,
    /// Which rescan reads up to where the live watch began.
    pub rescan: RescanId,
}

/// Heights `from..=to`; never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeightRange {
    /// The lowest.
    pub from: Height,
    /// The highest, included.
    pub to: Height,
}

impl HeightRange {
    /// `None` if it would be empty.
    pub fn new(from: Height, to: Height) -> Option<Self> {
        (from <= to).then_some(Self { from, to })
    }

    /// How many heights.
    pub fn len(&self) -> u64 {
        self.to.since(self.from).saturating_add(1)
    }

    /// Always false.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether a height lies in it.
    pub fn contains(&self, height: Height) -> bool {
        self.from <= height && height <= self.to
    }

    /// Whether they share a height.
    pub fn meets(&self, other: &Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }

    /// What is left of it without another range: nothing, one part or two.
    fn without(self, taken: &Self) -> impl Iterator<Item = Self> {
        let below = taken.from.0.checked_sub(1).and_then(|end| Self::new(self.from, self.to.min(Height(end))));
        let above = taken.to.0.checked_add(1).and_then(|start| Self::new(self.from.max(Height(start)), self.to));
        let whole = if self.meets(taken) { None } else { Some(self) };
        let parts = if whole.is_some() { [whole, None] } else { [below, above] };
        parts.into_iter().flatten()
    }
}

/// For whom a rescan reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RescanScope {
    /// The addresses whose entry names it ([`AskedHistory`]), each from its own height on.
    Asked,
    /// Every watched address, in every listed asset.
    Everything,
    /// Every watched address, in one asset that was listed later.
    Asset(AssetId),
}

/// Where a rescan is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RescanState {
    /// It is read, or waits for its turn.
    Running,
    /// An operator stopped it for a while.
    Paused,
    /// The node can't give what it needs; an operator may resume it.
    Failed(String),
    /// An operator gave it up. What was read stays.
    Cancelled,
    /// Everything was read.
    Done,
}

impl RescanState {
    /// Whether there is still something to be done for it.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Running | Self::Paused | Self::Failed(_))
    }

    /// One word, for lists and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
            Self::Done => "done",
        }
    }
}

/// A rescan's record. It is kept when it has ended: with the addresses that name it, it tells which heights were read for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rescan {
    /// Its number.
    pub id: RescanId,
    /// For whom.
    pub scope: RescanScope,
    /// The lowest height asked for.
    pub from: Height,
    /// The highest; above it the live watch covers what the rescan is for.
    pub to: Height,
    /// What was not read yet, lowest first, apart from each other.
    pub left: Vec<HeightRange>,
    /// Where it is in its life.
    pub state: RescanState,
    /// Addresses that were added to it; grows while nothing was read.
    pub addresses: u64,
    /// Deposits it found that were not known.
    pub found: u64,
    /// The highest block it read: on the branch of this block everything it read lies.
    pub read_to: Option<BlockRef>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
}

impl Rescan {
    /// A rescan of which nothing was read.
    pub fn new(id: RescanId, scope: RescanScope, range: HeightRange, now: Timestamp) -> Self {
        Self {
            id,
            scope,
            from: range.from,
            to: range.to,
            left: vec![range],
            state: RescanState::Running,
            addresses: 0,
            found: 0,
            read_to: None,
            created_at: now,
            changed_at: now,
        }
    }

    /// Whether nothing of it was read.
    pub fn is_untouched(&self) -> bool {
        self.read_to.is_none() && self.left.as_slice() == HeightRange::new(self.from, self.to).as_slice()
    }

    /// Takes another range in. Only for a rescan of which nothing was read.
    pub fn widen(&mut self, range: HeightRange) {
        self.from = self.from.min(range.from);
        self.to = self.to.max(range.to);
        self.left = HeightRange::new(self.from, self.to).into_iter().collect();
    }

    /// These heights were read. A running rescan of which nothing is left is done.
    pub fn read(&mut self, range: &HeightRange) {
        self.left = self.left.iter().flat_map(|left| left.without(range)).collect();
        self.end_if_read();
    }

    /// Blocks above the ancestor left the best chain: what replaces them is read by the live watch, which has all addresses.
    pub fn cut(&mut self, ancestor: &BlockRef) {
        if self.read_to.as_ref().is_some_and(|read| read.height > ancestor.height) {
            self.read_to = Some(ancestor.clone());
        }
        if self.to <= ancestor.height {
            return;
        }
        self.to = ancestor.height;
        let above = HeightRange { from: ancestor.height.next(), to: Height(u64::MAX) };
        self.left = self.left.iter().flat_map(|left| left.without(&above)).collect();
        self.end_if_read();
    }

    fn end_if_read(&mut self) {
        if self.left.is_empty() && self.state.is_open() {
            self.state = RescanState::Done;
        }
    }

    /// Heights not read yet.
    pub fn heights_left(&self) -> u64 {
        self.left.iter().map(HeightRange::len).fold(0, u64::saturating_add)
    }

    /// Heights asked for.
    pub fn heights(&self) -> u64 {
        HeightRange::new(self.from, self.to).map_or(0, |range| range.len())
    }

    /// Whether a height was read.
    pub fn has_read(&self, height: Height) -> bool {
        self.from <= height && height <= self.to && !self.left.iter().any(|left| left.contains(height))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::BlockHash;
    use proptest::prelude::*;

    fn range(from: u64, to: u64) -> HeightRange {
        HeightRange::new(Height(from), Height(to)).unwrap()
    }

    fn rescan(from: u64, to: u64) -> Rescan {
        Rescan::new(RescanId(1), RescanScope::Asked, range(from, to), Timestamp(0))
    }

    fn block(height: u64) -> BlockRef {
        BlockRef { height: Height(height), hash: BlockHash::new(format!("b{height}")).unwrap() }
    }

    #[test]
    fn a_rescan_is_done_when_everything_was_read_in_any_order() {
        let mut rescan = rescan(1, 10);
        assert!(rescan.is_untouched());
        rescan.read(&range(4, 6));
        assert_eq!(rescan.left, [range(1, 3), range(7, 10)]);
        assert!(!rescan.is_untouched());
        rescan.read(&range(7, 12));
        assert_eq!((rescan.heights_left(), rescan.heights()), (3, 10));
        rescan.read(&range(1, 3));
        assert_eq!(rescan.state, RescanState::Done);
    }

    #[test]
    fn what_a_reorg_replaces_is_left_to_the_live_watch() {
        let mut rescan = rescan(1, 10);
        rescan.read(&range(1, 9));
        rescan.read_to = Some(block(9));
        rescan.cut(&block(7));
        assert_eq!((rescan.to, rescan.read_to.clone(), rescan.state.clone()), (Height(7), Some(block(7)), RescanState::Done));
        let mut above = self::rescan(9, 10);
        above.cut(&block(7));
        assert_eq!((above.heights(), above.state, above.left.len()), (0, RescanState::Done, 0));
    }

    #[test]
    fn a_paused_rescan_that_a_reorg_leaves_nothing_of_is_done_and_a_cancelled_one_stays_cancelled() {
        let mut rescan = rescan(9, 10);
        rescan.state = RescanState::Cancelled;
        rescan.cut(&block(7));
        assert_eq!(rescan.state, RescanState::Cancelled);
    }

    proptest! {
        #[test]
        fn what_is_left_is_what_was_asked_for_and_never_read(
            from in 0_u64..30, len in 0_u64..30, reads in prop::collection::vec((0_u64..70, 0_u64..9), 0..12),
        ) {
            let mut rescan = rescan(from, from + len);
            let mut read = std::collections::BTreeSet::new();
            for (start, more) in reads {
                rescan.read(&range(start, start + more));
                read.extend(start..=start + more);
            }
            let wanted: Vec<u64> = (from..=from + len).filter(|height| !read.contains(height)).collect();
            let left: Vec<u64> = rescan.left.iter().flat_map(|range| range.from.0..=range.to.0).collect();
            prop_assert_eq!(&left, &wanted);
            prop_assert_eq!(rescan.heights_left(), u64::try_from(wanted.len()).unwrap());
            prop_assert_eq!(rescan.state == RescanState::Done, wanted.is_empty());
            for height in 0..80 {
                let inside = (from..=from + len).contains(&height);
                prop_assert_eq!(rescan.has_read(Height(height)), inside && read.contains(&height));
            }
        }
    }
}
