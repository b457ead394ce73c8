//! How core's types look over the wire, for the document alone: core itself knows nothing of OpenAPI. A test compares them
//! with what is really sent.
#![allow(dead_code)]

use serde::Serialize;
use utoipa::ToSchema;

/// An operator's name for a chain.
#[derive(ToSchema, Serialize)]
#[schema(as = ChainName, pattern = "^[a-z0-9][-_a-z0-9]{0,63}$")]
pub(crate) struct ChainNameSchema(String);

/// A consumer's name.
#[derive(ToSchema, Serialize)]
#[schema(as = ConsumerName, pattern = "^[a-z0-9][-_a-z0-9]{0,63}$")]
pub(crate) struct ConsumerNameSchema(String);

/// A reader's name for its place.
#[derive(ToSchema, Serialize)]
#[schema(as = CursorName, pattern = "^[a-z0-9][-_a-z0-9]{0,63}$")]
pub(crate) struct CursorNameSchema(String);

/// An event's id.
#[derive(ToSchema, Serialize)]
#[schema(as = EventId, pattern = "^evt_[0-9a-f]{32}$")]
pub(crate) struct EventIdSchema(String);

/// A block by height and hash.
#[derive(ToSchema, Serialize)]
#[schema(as = BlockRef)]
pub(crate) struct BlockRefSchema {
    /// Its height; on a chain with slots, the slot.
    height: u64,
    /// Its hash as the chain's tools write it.
    hash: String,
}

/// What names a deposit within its chain.
#[derive(ToSchema, Serialize)]
#[schema(as = DepositKey)]
pub(crate) struct DepositKeySchema {
    /// The transaction.
    tx_id: String,
    /// The output within the transaction.
    output_index: u32,
}

/// What was paid.
#[derive(ToSchema, Serialize)]
#[schema(as = Asset)]
pub(crate) struct AssetSchema {
    /// CAIP-19.
    id: String,
    /// The operator's symbol.
    symbol: String,
    /// Base units per coin as a power of ten.
    decimals: u8,
}

/// Where a deposit is in its life.
#[derive(ToSchema, Serialize)]
#[schema(as = DepositState)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DepositStateSchema {
    /// Seen, not deep enough.
    Pending,
    /// Reported, revertible.
    Confirmed,
    /// Reported and final.
    Settled,
    /// Was pending in a block that left the best chain.
    Orphaned,
    /// Was reported, then taken back.
    Reverted,
    /// Seen, below its asset's minimum: written down, never reported.
    #[serde(rename = "below_minimum")]
    BelowMinimum,
}

/// Where a delivery is in its life.
#[derive(ToSchema, Serialize)]
#[schema(as = DeliveryState)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DeliveryStateSchema {
    /// Waits for its first attempt, or behind an earlier event of its key.
    Queued,
    /// Waits for another attempt.
    Retrying,
    /// Accepted by the sink.
    Delivered,
    /// Every attempt failed.
    Dead,
    /// Behind a dead one of its key.
    Blocked,
    /// Given up by an operator.
    Skipped,
}

/// How a failed attempt ended.
#[derive(ToSchema, Serialize)]
#[schema(as = AttemptOutcome)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AttemptOutcomeSchema {
    /// Time-out, connection lost, the other side overloaded.
    Transient,
    /// The other side refused this event.
    Rejected,
}

/// Which way a decision went, or what an informative event says.
#[derive(ToSchema, Serialize)]
#[schema(as = EventKind)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventKindSchema {
    /// Deep enough.
    Confirmed,
    /// The chain took it back.
    Reverted,
    /// Informative: seen in a block, not deep enough.
    Detected,
    /// Informative: it can't be taken back any more.
    Settled,
}

/// Who asked for an address.
#[derive(ToSchema, Serialize)]
#[schema(as = WatchOrigin)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WatchOriginSchema {
    /// It stands in the configuration.
    Config,
    /// It was added at run time.
    Command,
}

/// Whether an address takes new deposits.
#[derive(ToSchema, Serialize)]
#[schema(as = WatchState)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WatchStateSchema {
    /// Every payment is taken.
    Watching,
    /// No new key is taken; what is held for it still ends.
    Removed,
}

/// An event, byte for byte as a webhook gets it.
#[derive(ToSchema, Serialize)]
#[schema(as = Event)]
pub(crate) struct EventSchema {
    /// The same on every attempt and replay.
    id: EventIdSchema,
    /// `deposit.confirmed` or `deposit.reverted`; for who asks for them also `deposit.detected` and `deposit.settled`, which move no money.
    r#type: String,
    /// Of this format: 1.
    version: u8,
    /// The state's epoch.
    epoch: u64,
    /// Odd confirms, even reverts.
    sequence: u64,
    /// CAIP-2.
    chain: String,
    /// The operator's name for the chain.
    chain_name: ChainNameSchema,
    /// Which deposit.
    key: DepositKeySchema,
    /// Who was paid.
    address: String,
    /// The operator's label.
    reference: Option<String>,
    /// The destination tag, on chains that have one.
    memo: Option<String>,
    /// In what.
    asset: AssetSchema,
    /// Base units, as a string.
    amount: String,
    /// The payer as the chain shows it.
    from: Option<String>,
    /// The block that carries it; of a reverted event, the one that did.
    block: EventBlockSchema,
    /// When it was decided; 0 for a reverted event.
    confirmations: u64,
    /// RFC 3339.
    decided_at: String,
}

/// An event's block.
#[derive(ToSchema, Serialize)]
#[schema(as = EventBlock)]
pub(crate) struct EventBlockSchema {
    /// Its height.
    height: u64,
    /// Its hash.
    hash: String,
    /// Its time, where the chain has one.
    time: Option<String>,
}

/// For whom a rescan reads.
#[derive(ToSchema, Serialize)]
#[schema(as = RescanScope)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RescanScopeSchema {
    /// The addresses that were added with a height.
    Asked,
    /// Every watched address, in every listed asset.
    Everything,
    /// Every watched address, in one asset.
    Asset,
}

/// Where a rescan is in its life.
#[derive(ToSchema, Serialize)]
#[schema(as = RescanState)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RescanStateSchema {
    /// It is read, or waits for its turn.
    Running,
    /// An operator stopped it for a while.
    Paused,
    /// The node can't give what it needs.
    Failed,
    /// An operator gave it up.
    Cancelled,
    /// Everything was read.
    Done,
}

/// Each event of a stream.
#[derive(ToSchema, Serialize)]
#[schema(as = StreamedEvent)]
pub(crate) struct StreamedEventSchema {
    /// The place behind it.
    id: String,
    /// The event, as `GET /v1/events` gives it: JSON.
    data: String,
}
