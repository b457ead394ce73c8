//! A chain as an operator sees it.

use super::RescanView;
use crate::schema::{BlockRefSchema, ChainNameSchema, DepositKeySchema, EventIdSchema};
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
    #[schema(value_type = ChainNameSchema)]
    pub name: ChainName,
    /// CAIP-2.
    #[schema(value_type = String)]
    pub chain: ChainId,
    /// What its watcher is doing.
    pub phase: Phase,
    /// Why it stands still, if it is halted.
    pub halt: Option<HaltView>,
    /// Blocks between our tip and the node's; `None` until both are known.
    pub lag_blocks: Option<u64>,
    /// While it catches up: how fast, and for how long still.
    pub catch_up: Option<CatchUp>,
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
    /// Rescans that are not done: read, waiting or paused.
    pub rescans: Vec<RescanView>,
    /// What its nodes were asked since the start; nothing where no instance runs.
    pub requests: Option<RequestsView>,
    /// When its watcher last looked at its node.
    pub updated_at: Option<String>,
}

/// How to resume a halted chain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// Accept a reorg below the floor: anchor again and revert what was reported above the ancestor.
    #[serde(default)]
    pub accept_reorg: bool,
    /// Revert the settled deposits above the ancestor, too.
    #[serde(default)]
    pub revert_settled: bool,
    /// The acknowledgement: the node's block that contradicts ours, as the halt names it (`halt.reorg`), height and hash. Required
    /// with `accept_reorg`, except for a preview.
    #[serde(default)]
    #[schema(value_type = Option<BlockRefSchema>)]
    pub reorg: Option<BlockRef>,
}

/// Why a chain stands still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HaltView {
    /// `too_deep`, `wrong_network`, `broken_contract` or `source`.
    pub kind: String,
    /// The reason in words.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
    /// Since when.
    pub at: String,
    /// Of a reorg below the floor: the node's block that contradicts ours. Resuming with `accept_reorg` must name it.
    #[schema(value_type = Option<BlockRefSchema>)]
    pub reorg: Option<BlockRef>,
}

/// A catch-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatchUp {
    /// Blocks a minute, over the last minutes.
    pub blocks_per_minute: u64,
    /// At this rate; `None` while it is unknown.
    pub seconds_left: Option<u64>,
}

/// A reorg of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastReorg {
    /// When.
    pub at: String,
    /// The last common block.
    #[schema(value_type = BlockRefSchema)]
    pub ancestor: BlockRef,
    /// Blocks of the trail that were replaced.
    pub depth: u64,
    /// The highest of them, highest first, at most 32.
    #[schema(value_type = Vec<BlockRefSchema>)]
    pub orphaned: Vec<BlockRef>,
    /// Reported deposits that were taken back.
    pub reverted: u64,
    /// Pending deposits whose block left.
    pub dropped: u64,
    /// Whether an operator accepted it: it reached below the floor.
    pub accepted: bool,
}

/// What a node says of itself on one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndpointView {
    /// What was looked at.
    pub subject: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found and, if not ok, what to do.
    pub text: String,
}

/// One chain, looked at closely: its node is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChainDetail {
    /// As in the list.
    #[serde(flatten)]
    pub chain: ChainView,
    /// Seconds between the block times of our tip and the node's; `None` where a time is unknown.
    pub lag_seconds: Option<u64>,
    /// Reorgs within `state.history`, newest first, at most 20.
    pub reorgs: Vec<PastReorg>,
    /// What its node says; empty if it said nothing in time.
    pub endpoints: Vec<EndpointView>,
    /// Why the node said nothing, if it did not.
    pub endpoints_error: Option<String>,
    /// Reconnects and changes of endpoint since the start.
    pub connections: u64,
}

/// What a chain's nodes were asked since the start. A batch counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestsView {
    /// Answered.
    pub answered: u64,
    /// Without an answer that can be used.
    pub failed: u64,
    /// Refused by the node for being too many.
    pub throttled: u64,
    /// How long requests waited for our own limit (`limits.requests_per_second`) and for pauses the node asked for, added up, in
    /// milliseconds: what of the budget was missing.
    pub waited_ms: u64,
    /// All of them, a minute, over the last minutes; `None` before that is known.
    pub per_minute: Option<u64>,
    /// The budget: `limits.requests_per_second`, for each endpoint. The calls of a batch count one by one. `None` if the chain's adapter
    /// has no limit.
    pub limit_per_second: Option<u64>,
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
    #[schema(value_type = Option<EventIdSchema>)]
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
