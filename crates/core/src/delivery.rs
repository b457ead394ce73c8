//! Deliveries: one event on its way to one consumer.

use crate::{ChainId, ConsumerName, DepositKey, Event, EventId, EventKind, Position, Sequence, Timestamp, TraceContext};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a sink is handed. Id and body are the same on every attempt (G7, K4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its place in the outbox.
    pub position: Position,
    /// The event's id.
    pub event: EventId,
    /// Which chain.
    pub chain: ChainId,
    /// Which deposit.
    pub key: DepositKey,
    /// The event's sequence.
    pub sequence: Sequence,
    /// Confirmed or reverted.
    pub kind: EventKind,
    /// 1 for the first attempt since it was queued.
    pub attempt: u32,
    /// The frozen bytes.
    pub body: Arc<[u8]>,
    /// This attempt's place in the event's trace, where traces are on. Of the attempt, not of the event: it differs every time.
    pub trace: Option<TraceContext>,
}

impl Delivery {
    /// An event at its place in the outbox, with its frozen bytes, on its `attempt`-th attempt.
    pub fn new(position: Position, event: Event, body: Arc<[u8]>, attempt: u32) -> Self {
        let kind = event.kind();
        let Event { id, chain, transfer, sequence, .. } = event;
        Self { position, event: id, chain, key: transfer.key, sequence, kind, attempt, body, trace: None }
    }
}

/// Where a delivery is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// Waits for its first attempt, or behind an earlier event of its key.
    Queued,
    /// Waits for another attempt.
    Retrying,
    /// Accepted by the sink.
    Delivered,
    /// Every attempt failed; waits for an operator.
    Dead,
    /// Behind a dead one of its key.
    Blocked,
    /// An operator gave it up, on record.
    Skipped,
}

/// How an attempt ended that did not deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttemptOutcome {
    /// Time-out, connection lost, the other side overloaded.
    Transient,
    /// The other side refused this event.
    Rejected,
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// 1 for the first since it was queued.
    pub number: u32,
    /// When it ended.
    pub at: Timestamp,
    /// How.
    pub outcome: AttemptOutcome,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// What went wrong; no secrets.
    pub error: String,
    /// The beginning of what the other side answered, where it answered with a text; no secrets.
    pub excerpt: Option<String>,
}

impl Attempt {
    /// The attempts that a delivered event took, of which this was the last one that failed, if one did.
    pub fn until_delivered(last: Option<&Self>) -> u32 {
        last.map_or(1, |attempt| attempt.number.saturating_add(1))
    }
}

/// A delivery as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRecord {
    /// The consumer.
    pub consumer: ConsumerName,
    /// The event's place in the outbox; names the delivery within its consumer.
    pub position: Position,
    /// The event's id.
    pub event: EventId,
    /// Which chain.
    pub chain: ChainId,
    /// Which deposit.
    pub key: DepositKey,
    /// The event's sequence.
    pub sequence: Sequence,
    /// Confirmed or reverted.
    pub kind: EventKind,
    /// Where it is in its life.
    pub state: DeliveryState,
    /// Attempts since it was last queued.
    pub attempts: u32,
    /// The last failed attempt.
    pub last_attempt: Option<Attempt>,
    /// When the next attempt is due.
    pub next_attempt_at: Option<Timestamp>,
    /// The dead one of its key it waits behind.
    pub blocked_by: Option<EventId>,
}

impl DeliveryRecord {
    /// An event's delivery in this state, without an attempt and waiting for nothing.
    pub fn new(consumer: ConsumerName, position: Position, event: Event, state: DeliveryState) -> Self {
        let kind = event.kind();
        let Event { id, chain, transfer, sequence, .. } = event;
        Self {
            consumer,
            position,
            event: id,
            chain,
            key: transfer.key,
            sequence,
            kind,
            state,
            attempts: 0,
            last_attempt: None,
            next_attempt_at: None,
            blocked_by: None,
        }
    }
}

/// Events looked at for one [`DeliveredPage`], whatever was asked for.
pub const DELIVERED_LOOK_MAX: usize = 2_000;

/// Delivered events of one consumer, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveredPage {
    /// May be fewer than were asked for, and none at all, before the end.
    pub records: Vec<DeliveryRecord>,
    /// What lies below this place was not looked at yet; `None` at the end.
    pub below: Option<Position>,
}

/// Which deliveries to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryFilter {
    /// Only this consumer's.
    pub consumer: Option<ConsumerName>,
    /// Only in this state.
    pub state: Option<DeliveryState>,
    /// Only of this event.
    pub event: Option<EventId>,
}
