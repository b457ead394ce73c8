//! Blocks: heights, hashes, and the one definition of confirmations.

use crate::Timestamp;
use crate::text_id::{is_token, text_id};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A block's height (on a chain with slots: the slot). Heights may have gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Height(pub u64);

impl Height {
    /// The next height. Saturates at the end of 64 bits, which no chain reaches.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// `self - blocks`, or zero.
    pub fn minus(self, blocks: u64) -> Self {
        Self(self.0.saturating_sub(blocks))
    }

    /// `self + blocks`.
    pub fn plus(self, blocks: u64) -> Self {
        Self(self.0.saturating_add(blocks))
    }

    /// `self - lower` in blocks, or zero.
    pub fn since(self, lower: Self) -> u64 {
        self.0.saturating_sub(lower.0)
    }
}

impl fmt::Display for Height {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

text_id!(
    /// A block's hash as the chain's own tools print it. Opaque here.
    BlockHash, "a block hash", "1 to 128 printable characters", |text| is_token(text, 128)
);

/// A block: `(height, hash)`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockRef {
    /// Where.
    pub height: Height,
    /// Which.
    pub hash: BlockHash,
}

impl fmt::Display for BlockRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.height, self.hash)
    }
}

/// A block and what it builds on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockHeader {
    /// The block.
    pub block: BlockRef,
    /// The hash of the block before it; of genesis, whatever the chain says.
    pub parent: BlockHash,
    /// The block's own time; some chains have none.
    pub time: Option<Timestamp>,
}

/// `tip - height + 1`: the block itself counts. Zero for a block above the tip. This is the only definition.
pub fn confirmations(tip: Height, height: Height) -> u64 {
    if height > tip { 0 } else { tip.since(height).saturating_add(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_itself_counts_as_one_confirmation() {
        assert_eq!(confirmations(Height(100), Height(100)), 1);
        assert_eq!(confirmations(Height(102), Height(100)), 3);
        assert_eq!(confirmations(Height(99), Height(100)), 0);
    }
}
