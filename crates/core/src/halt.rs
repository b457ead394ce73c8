//! A halted chain: why, since when, and what the operator can do.

use crate::{BlockRef, Height, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a chain stopped. Nothing is guessed from here on; an operator decides (G10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum HaltReason {
    /// The common ancestor lies below the floor.
    TooDeep {
        /// The floor when it happened.
        floor: Height,
        /// Our recorded tip.
        recorded: BlockRef,
        /// The first block of the source that contradicts the trail at or below the floor.
        seen: BlockRef,
    },
    /// The node serves another network than the configuration or the state says.
    WrongNetwork {
        /// What was expected.
        expected: String,
        /// What the node serves.
        found: String,
    },
    /// The source broke its contract; the text names the rule.
    BrokenContract {
        /// What it answered and which rule that breaks.
        detail: String,
    },
    /// The source can't go on without an operator: bad credentials, pruned history, an answer that can't be decoded.
    Source {
        /// What was tried and what came back.
        detail: String,
    },
}

/// A durable halt of one chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// Why.
    pub reason: HaltReason,
    /// Since when.
    pub at: Timestamp,
}

impl HaltReason {
    /// What the operator can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::TooDeep { .. } => {
                "check the node; if its chain is the right one, `confirmd chain resume CHAIN --accept-reorg` anchors again below the reorg"
            }
            Self::WrongNetwork { .. } => "point the endpoint at the right network, then `confirmd chain resume CHAIN`",
            Self::BrokenContract { .. } => "keep the node's answer and report it; then `confirmd chain resume CHAIN` tries again",
            Self::Source { .. } => "mend what the text names, then `confirmd chain resume CHAIN`",
        }
    }
}

impl fmt::Display for HaltReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep { floor, recorded, seen } => {
                write!(f, "a reorg reaches below the floor at height {floor}: recorded tip {recorded}, the node has {seen}")
            }
            Self::WrongNetwork { expected, found } => write!(f, "the node serves {found}, expected {expected}"),
            Self::BrokenContract { detail } => write!(f, "the source broke its contract: {detail}"),
            Self::Source { detail } => f.write_str(detail),
        }
    }
}
