//! When a payment is deep enough.

use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// A chain's own statement of finality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinalityTag {
    /// Unlikely to be reorganised.
    Safe,
    /// Final by the chain's own rule.
    Finalized,
}

impl FinalityTag {
    /// As configurations and nodes spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Finalized => "finalized",
        }
    }
}

/// A payment is deep enough with at least `at_least` confirmations and, with a tag, in a block at or below that tag's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// Confirmations; the block itself counts, so 1 is "in a block".
    pub at_least: NonZeroU32,
    /// The chain's own finality, where the operator asks for it. Its absence is never read as zero: the payment waits.
    pub tag: Option<FinalityTag>,
}

impl Requirement {
    /// A number of confirmations alone.
    pub fn confirmations(at_least: NonZeroU32) -> Self {
        Self { at_least, tag: None }
    }
}
