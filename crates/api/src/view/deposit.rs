//! Deposits as an operator sees them.

use super::DeliveryWithAttempts;
use crate::Cursor;
use crate::schema::{AssetSchema, BlockRefSchema, ChainNameSchema, DepositStateSchema, EventIdSchema};
use confirmd_core::{
    Amount, Asset, BlockRef, ChainId, ChainName, DepositRecord, DepositState, EventId, Height, Position, Sequence, TxId,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// One deposit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DepositView {
    /// CAIP-2.
    #[schema(value_type = String)]
    pub chain: ChainId,
    /// The operator's name for the chain, if it is configured.
    #[schema(value_type = Option<ChainNameSchema>)]
    pub chain_name: Option<ChainName>,
    /// The transaction.
    #[schema(value_type = String)]
    pub tx_id: TxId,
    /// The output.
    pub output_index: u32,
    /// Who was paid.
    pub address: String,
    /// The operator's label.
    #[schema(value_type = Option<String>)]
    pub reference: Option<Arc<str>>,
    /// In what.
    #[schema(value_type = AssetSchema)]
    pub asset: Asset,
    /// How much, in base units, as a string.
    #[schema(value_type = String)]
    pub amount: Amount,
    /// The block that carries or last carried it.
    #[schema(value_type = BlockRefSchema)]
    pub block: BlockRef,
    /// Where it is in its life.
    #[schema(value_type = DepositStateSchema)]
    pub state: DepositState,
    /// Its last event; 0 if it was never reported.
    #[schema(value_type = u64)]
    pub sequence: Sequence,
    /// Where that event is in the outbox.
    #[schema(value_type = Option<u64>)]
    pub event_position: Option<Position>,
    /// When it was first seen.
    pub seen_at: String,
    /// When it last changed.
    pub changed_at: String,
}

impl DepositView {
    /// With the operator's name for its chain.
    pub fn new(record: DepositRecord, chain_name: Option<ChainName>) -> Self {
        Self {
            chain: record.chain,
            chain_name,
            tx_id: record.key.tx_id,
            output_index: record.key.output_index,
            address: record.address.as_str().to_owned(),
            reference: record.reference,
            asset: record.asset,
            amount: record.amount,
            block: record.block,
            state: record.state,
            sequence: record.sequence,
            event_position: record.event,
            seen_at: record.seen_at.to_rfc3339(),
            changed_at: record.changed_at.to_rfc3339(),
        }
    }
}

/// Which deposits to list; every given part must match.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct DepositQuery {
    /// Only of this chain, by the operator's name.
    #[param(value_type = Option<ChainNameSchema>)]
    pub chain: Option<ChainName>,
    /// Only to this address.
    pub address: Option<String>,
    /// Only with this label.
    pub reference: Option<String>,
    /// Only in this state.
    #[param(value_type = Option<DepositStateSchema>)]
    pub state: Option<DepositState>,
    /// Only in this asset: its CAIP-19 id or the operator's symbol.
    pub asset: Option<String>,
    /// Only first seen at this time (RFC 3339) or later.
    #[param(format = DateTime)]
    pub seen_from: Option<String>,
    /// Only first seen before this time.
    #[param(format = DateTime)]
    pub seen_before: Option<String>,
    /// Only of this transaction.
    pub tx_id: Option<String>,
    /// `next` of the page before.
    #[param(value_type = Option<String>)]
    pub after: Option<Cursor>,
    /// At most so many: 1 to 1,000, by default 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// What made a deposit deep enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleView {
    /// Confirmations the operator asks for.
    pub at_least: u32,
    /// Confirmations the chain itself asks for.
    pub maturity: Option<u32>,
    /// The chain's own finality the operator asks for: `safe` or `finalized`.
    pub tag: Option<String>,
    /// How far that had come.
    #[schema(value_type = Option<u64>)]
    pub tag_height: Option<Height>,
}

/// One step of a deposit's life. Parts that do not belong to its kind are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LifeStepView {
    /// When it was committed.
    pub at: String,
    /// `seen`, `confirmed`, `reverted`, `left` (its block left the best chain before it was deep enough), `settled` or
    /// `below_minimum`.
    pub what: String,
    /// The block it is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<BlockRefSchema>)]
    pub block: Option<BlockRef>,
    /// Where the reorg began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<BlockRefSchema>)]
    pub ancestor: Option<BlockRef>,
    /// The event that says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<EventIdSchema>)]
    pub event: Option<EventId>,
    /// Its sequence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<u64>)]
    pub sequence: Option<Sequence>,
    /// How many it had.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confirmations: Option<u64>,
    /// What it was measured by.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rule: Option<RuleView>,
    /// The floor that made it final.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<u64>)]
    pub floor: Option<Height>,
    /// What it did not reach, in base units, as a string.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub minimum: Option<Amount>,
}

/// A deposit and everything that happened to it, as far as history holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DepositLife {
    /// As in the list.
    pub deposit: DepositView,
    /// Oldest first.
    pub life: Vec<LifeStepView>,
    /// Deliveries of its events that are not delivered, or needed more than one attempt.
    pub deliveries: Vec<DeliveryWithAttempts>,
}

/// What to explain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    /// The height of the transaction's block, so that the node can be asked for it.
    #[param(value_type = Option<u64>)]
    pub height: Option<Height>,
    /// Who should have been paid.
    pub address: Option<String>,
}

/// Why a payment is no deposit; the first that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PaymentReason {
    /// It is one.
    Recorded,
    /// The transaction failed.
    Failed,
    /// It moves nothing that its recipient had not, or nobody can be told from it.
    NoPayment,
    /// Its amount is zero.
    ZeroAmount,
    /// Its asset is not listed.
    NotListed,
    /// Its address is not watched, or no longer.
    NotWatched,
    /// Its address was not watched until a later height.
    NotWatchedYet,
    /// It is below its asset's minimum.
    BelowMinimum,
    /// Its transaction is in no block yet.
    InNoBlock,
    /// Its block is not read yet.
    NotReadYet,
    /// None of these: it was a deposit longer ago than `state.history`, or will be one in a moment.
    Forgotten,
}

/// A payment that the node shows, and why it is no deposit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedPayment {
    /// As in a deposit's key.
    pub output_index: u32,
    /// Who is paid; null where no address says it.
    pub address: Option<String>,
    /// CAIP-19.
    pub asset: String,
    /// How much, in base units, as a string; may be zero.
    #[schema(value_type = String)]
    pub amount: Amount,
    /// Why, as a word.
    pub reason: PaymentReason,
    /// Why, in words.
    pub why: String,
}

/// Why a transaction produced what it did, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The transaction.
    pub tx_id: String,
    /// What is so, most telling first, in words.
    pub findings: Vec<String>,
    /// Its payments as the node shows them now: those to the asked or to watched addresses, else the first few. Empty where the node
    /// does not show it.
    pub payments: Vec<ExplainedPayment>,
    /// What could not be told, and what to ask for to know it.
    pub unknown: Vec<String>,
    /// Its deposits that history holds.
    pub deposits: Vec<DepositView>,
}
