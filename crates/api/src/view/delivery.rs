//! Deliveries as an operator sees them.

use crate::Cursor;
use crate::schema::{AttemptOutcomeSchema, ConsumerNameSchema, DeliveryStateSchema, EventIdSchema, EventKindSchema};
use confirmd_core::{
    Attempt, AttemptOutcome, ChainId, ConsumerName, DeliveryRecord, DeliveryState, EventId, EventKind, Position, Sequence, TxId,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::num::NonZeroU32;
use utoipa::{IntoParams, ToSchema};

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptView {
    /// 1 for the first since it was queued.
    pub number: u32,
    /// When it ended.
    pub at: String,
    /// How.
    #[schema(value_type = AttemptOutcomeSchema)]
    pub outcome: AttemptOutcome,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// What went wrong.
    pub error: String,
    /// The beginning of what the receiver answered, where it answered with a text.
    pub excerpt: Option<String>,
}

impl From<Attempt> for AttemptView {
    fn from(attempt: Attempt) -> Self {
        let Attempt { number, at, outcome, status, error, excerpt } = attempt;
        Self { number, at: at.to_rfc3339(), outcome, status, error, excerpt }
    }
}

/// One event on its way to one consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryView {
    /// The consumer.
    #[schema(value_type = ConsumerNameSchema)]
    pub consumer: ConsumerName,
    /// The event's place in the outbox.
    #[schema(value_type = u64)]
    pub position: Position,
    /// The event's id.
    #[schema(value_type = EventIdSchema)]
    pub event: EventId,
    /// CAIP-2.
    #[schema(value_type = String)]
    pub chain: ChainId,
    /// Which deposit: the transaction.
    #[schema(value_type = String)]
    pub tx_id: TxId,
    /// Which deposit: the output.
    pub output_index: u32,
    /// The event's sequence.
    #[schema(value_type = u64)]
    pub sequence: Sequence,
    /// Confirmed or reverted.
    #[schema(value_type = EventKindSchema)]
    pub kind: EventKind,
    /// Where it is in its life.
    #[schema(value_type = DeliveryStateSchema)]
    pub state: DeliveryState,
    /// Attempts since it was last queued.
    pub attempts: u32,
    /// The last failed attempt.
    pub last_attempt: Option<AttemptView>,
    /// When the next attempt is due.
    pub next_attempt_at: Option<String>,
    /// The dead one of its key it waits behind.
    #[schema(value_type = Option<EventIdSchema>)]
    pub blocked_by: Option<EventId>,
}

impl From<DeliveryRecord> for DeliveryView {
    fn from(record: DeliveryRecord) -> Self {
        Self {
            consumer: record.consumer,
            position: record.position,
            event: record.event,
            chain: record.chain,
            tx_id: record.key.tx_id,
            output_index: record.key.output_index,
            sequence: record.sequence,
            kind: record.kind,
            state: record.state,
            attempts: record.attempts,
            last_attempt: record.last_attempt.map(AttemptView::from),
            next_attempt_at: record.next_attempt_at.map(|at| at.to_rfc3339()),
            blocked_by: record.blocked_by,
        }
    }
}

/// A delivery with its failed attempts, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryWithAttempts {
    /// The delivery.
    #[serde(flatten)]
    pub delivery: DeliveryView,
    /// Its failed attempts, where history holds them.
    pub failed: Vec<AttemptView>,
}

/// One event and how it went with each consumer.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DeliveryDetail {
    /// The event's id.
    #[schema(value_type = EventIdSchema)]
    pub event: EventId,
    /// What consumers get, byte for byte, as long as history holds it.
    #[schema(value_type = Option<Object>)]
    pub body: Option<Box<RawValue>>,
    /// Its deliveries.
    pub deliveries: Vec<DeliveryWithAttempts>,
}

/// Which deliveries to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct DeliveryQuery {
    /// Only this consumer's.
    #[param(value_type = Option<ConsumerNameSchema>)]
    pub consumer: Option<ConsumerName>,
    /// Only in this state. Delivered ones are listed if they are asked for, here or by their event; newest first, by consumer.
    #[param(value_type = Option<DeliveryStateSchema>)]
    pub state: Option<DeliveryState>,
    /// Only of this event.
    #[param(value_type = Option<EventIdSchema>)]
    pub event: Option<EventId>,
    /// `next` of the page before.
    #[param(value_type = Option<String>)]
    pub after: Option<Cursor>,
    /// At most so many: 1 to 1,000, by default 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// What to queue again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requeue {
    /// These events' keys. Empty only with `all_dead`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventId>,
    /// Every dead letter of the consumer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_dead: bool,
    /// With `all_dead`: only those whose last attempt got this HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// With `all_dead`: only those of the group (`/v1/dead-letters`) with this error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// So many deposits come due a second; without it all at once, as fast as the sink takes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<NonZeroU32>,
}

/// What to send again although it was delivered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// These events. Empty only with a time range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventId>,
    /// Every event decided at this time (RFC 3339) or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_from: Option<String>,
    /// Every event decided before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_before: Option<String>,
    /// So many deposits come due a second; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<NonZeroU32>,
}

/// Dead letters of one consumer that failed alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadGroup {
    /// The consumer.
    #[schema(value_type = ConsumerNameSchema)]
    pub consumer: ConsumerName,
    /// The HTTP status of the last attempt, where there was one.
    pub status: Option<u16>,
    /// The last attempt's error.
    pub error: String,
    /// What the receiver answered to one of them.
    pub excerpt: Option<String>,
    /// So many deliveries.
    pub count: u64,
    /// The last attempt of the first of them.
    pub first_at: String,
    /// The last attempt of the last of them.
    pub last_at: String,
    /// One of them.
    #[schema(value_type = EventIdSchema)]
    pub example: EventId,
}

/// Which dead letters to group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct DeadQuery {
    /// Only this consumer's.
    #[param(value_type = Option<ConsumerNameSchema>)]
    pub consumer: Option<ConsumerName>,
}

/// How a test event went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TestResult {
    /// Its id.
    #[schema(value_type = EventIdSchema)]
    pub event: EventId,
    /// Whether the receiver took it.
    pub delivered: bool,
    /// The HTTP status, where it was refused with one.
    pub status: Option<u16>,
    /// Why it was not taken.
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// What to give up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// The event.
    #[schema(value_type = EventIdSchema)]
    pub event: EventId,
}

/// How many things an operation touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    /// So many.
    pub count: u64,
}
