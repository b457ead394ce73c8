//! A chain as an operator sees it.

use crate::schema::{BlockRefSchema, DepositKeySchema};
use confirmd_core::{BlockRef, ChainId, ChainName, DepositKey, EventId, Height};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a chain's watcher is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No instance runs; the numbers are those of the last commit.
    Stopped,
    /// Has not heard from its node yet.
    Starting,
    /// Reads history up to the tip.
    CatchingUp,
    /// At the tip.
    Following,
    /// The node's tip is below ours.
    Behind,
    /// Waits for a fork to overtake our trail.
    WaitingForFork,
    /// Stands still until an operator acts.
    Halted,
    /// The node does not answer.
    Unreachable,
}

impl Phase {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::CatchingUp => "catching up",
            Self::Following => "following",
            Self::Behind => "behind",
            Self::WaitingForFork => "waiting for fork",
            Self::Halted => "halted",
            Self::Unreachable => "unreachable",
        }
    }
}

/// A reorg that was followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReorgView {
    /// The last common block.
    #[schema(value_type = BlockRefSchema)]
    pub ancestor: BlockRef,
    /// Blocks of the trail that were replaced.
    pub orphaned: u64,
    /// Reverted events it caused.
    pub reverted: u64,
    /// When.
    pub at: String,
}

/// One chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChainView {
    /// The operator's name.
    #[schema(value_type = String)]
    pub name: ChainName,
    /// CAIP-2.
    #[schema(value_type = String)]
    pub chain: ChainId,
    /// What its watcher is doing.
    pub phase: Phase,
    /// Why, where that needs words: the halt with its remedy, the node's error.
    pub detail: Option<String>,
    /// Why the instance is not ready because of it; `None` when all is well.
    pub alarm: Option<String>,
    /// The trail's tip.
    #[schema(value_type = Option<BlockRefSchema>)]
    pub tip: Option<BlockRef>,
    /// The node's tip.
    #[schema(value_type = Option<BlockRefSchema>)]
    pub source_tip: Option<BlockRef>,
    /// At or below it everything is final.
    #[schema(value_type = Option<u64>)]
    pub floor: Option<Height>,
    /// Deposits seen, not deep enough.
    pub pending: u64,
    /// Deposits reported, revertible.
    pub reported: u64,
    /// Watched addresses.
    pub watched: u64,
    /// The last reorg followed since the start.
    pub last_reorg: Option<ReorgView>,
    /// When this was last written.
    pub updated_at: Option<String>,
}

/// How to resume a halted chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// Accept a reorg below the floor: anchor again and revert what was reported above the ancestor.
    #[serde(default)]
    pub accept_reorg: bool,
    /// Revert the settled deposits above the ancestor, too.
    #[serde(default)]
    pub revert_settled: bool,
}

/// A settled deposit above an accepted reorg's ancestor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettledView {
    /// The height of the block that carried it.
    #[schema(value_type = u64)]
    pub height: Height,
    /// Its key, where history still holds the event.
    #[schema(value_type = Option<DepositKeySchema>)]
    pub key: Option<DepositKey>,
    /// Its confirmed event, where history still holds it.
    #[schema(value_type = Option<String>)]
    pub event: Option<EventId>,
    /// Whether it was taken back now.
    pub reverted: bool,
}

/// What resuming did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ResumeView {
    /// Where the trail starts anew, if a reorg was accepted.
    #[schema(value_type = Option<BlockRefSchema>)]
    pub ancestor: Option<BlockRef>,
    /// Reported deposits that were taken back.
    #[schema(value_type = Vec<DepositKeySchema>)]
    pub reverted: Vec<DepositKey>,
    /// Pending deposits that were dropped.
    #[schema(value_type = Vec<DepositKeySchema>)]
    pub dropped: Vec<DepositKey>,
    /// Settled deposits above the ancestor.
    pub settled: Vec<SettledView>,
}
