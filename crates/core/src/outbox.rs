//! The outbox: events on their way to consumers. Written by `StateStore::commit` only; the pump can't touch watcher state.

use crate::{
    Attempt, ConsumerName, ConsumerSpec, ConsumerStatus, DeliveredPage, Delivery, DeliveryFilter, DeliveryRecord, Position,
    StoreError, Timestamp,
};
use async_trait::async_trait;
use std::num::NonZeroU32;
use std::time::Duration;

/// How fast queued events come due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The first one's time.
    pub from: Timestamp,
    /// So many a second.
    pub per_second: NonZeroU32,
}

impl Pace {
    /// The time of the `index`-th, from 0.
    pub fn at(self, index: u64) -> Timestamp {
        let ms = index.saturating_mul(1_000) / u64::from(self.per_second.get());
        self.from.plus(Duration::from_millis(ms))
    }
}

/// Delivery records, per consumer. What a call changes is durable when it returns, and touches one consumer only (T6).
#[async_trait]
pub trait Outbox: std::fmt::Debug + Send + Sync {
    /// Makes a configured consumer known, or updates its filter. A consumer new to a store that already holds events
    /// needs a start, else `Invalid` with the remedy. Also takes back whatever was handed out and never reported.
    async fn register(&self, spec: &ConsumerSpec) -> Result<(), StoreError>;

    /// Every consumer with records, configured or not.
    async fn consumers(&self) -> Result<Vec<ConsumerStatus>, StoreError>;

    /// Hands out what may be tried now, at most `limit`, in outbox order. For one key only the lowest undelivered
    /// sequence is ever out (G8), and nothing that is already out. Empty for a paused consumer.
    async fn due(&self, consumer: &ConsumerName, now: Timestamp, limit: usize) -> Result<Vec<Delivery>, StoreError>;

    /// When the earliest retry is due; `None` if nothing waits for a time.
    async fn next_due(&self, consumer: &ConsumerName) -> Result<Option<Timestamp>, StoreError>;

    /// These were delivered. One commit for all; idempotent.
    async fn acknowledge(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError>;

    /// This attempt failed; try again at `at`.
    async fn retry_later(
        &self,
        consumer: &ConsumerName,
        position: Position,
        attempt: Attempt,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// This was the last attempt: a dead letter, until an operator requeues it. The rest of its key is blocked.
    async fn bury(&self, consumer: &ConsumerName, position: Position, attempt: Attempt) -> Result<(), StoreError>;

    /// Handed out but not tried, or tried without spending an attempt: due again at once.
    async fn release(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError>;

    /// Queues the whole undelivered tail of each named delivery's key again, in order, with fresh attempts. Returns how many.
    /// An empty list means every dead one of the consumer.
    async fn requeue(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<u64, StoreError>;

    /// Queues events again with fresh attempts, delivered ones too: same ids, same bytes. Of an undelivered one the whole
    /// undelivered tail of its key. A key's lower sequences still go first, and nothing of a key goes out while another of it is
    /// out (G8). With a pace the keys come due one after the other. Returns how many; events that are not this consumer's,
    /// not yet read, or skipped are passed over. `Invalid` for what history does not hold.
    async fn replay(&self, consumer: &ConsumerName, positions: &[Position], pace: Option<Pace>) -> Result<u64, StoreError>;

    /// Gives one undelivered event up, on record; the rest of its key goes on.
    async fn skip(&self, consumer: &ConsumerName, position: Position, now: Timestamp) -> Result<(), StoreError>;

    /// Undelivered and skipped deliveries in outbox order after `after`, at most `limit`. A filter on an event also finds it
    /// where it was delivered, as long as history holds it.
    async fn list(
        &self,
        filter: &DeliveryFilter,
        after: Option<(ConsumerName, Position)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRecord>, StoreError>;

    /// What the consumer was delivered, newest first, below a place (`None`: from the newest), as far as history holds it; at most
    /// `limit`. Looks at no more than [`crate::DELIVERED_LOOK_MAX`] events, so a page may be short before the end (T17).
    async fn delivered(
        &self,
        consumer: &ConsumerName,
        below: Option<Position>,
        limit: usize,
    ) -> Result<DeliveredPage, StoreError>;

    /// The failed attempts of one delivery, oldest first, where history holds them.
    async fn attempts(&self, consumer: &ConsumerName, position: Position) -> Result<Vec<Attempt>, StoreError>;

    /// Stops attempts (`Some(why)`) or goes on (`None`). Loses nothing.
    async fn pause(&self, consumer: &ConsumerName, why: Option<String>) -> Result<(), StoreError>;

    /// Moves a consumer's records to a new name. `Invalid` if the new name has records.
    async fn rename(&self, from: &ConsumerName, to: &ConsumerName) -> Result<(), StoreError>;

    /// Deletes a consumer's records, undelivered ones included. Returns how many undelivered events it gave up.
    async fn purge(&self, consumer: &ConsumerName) -> Result<u64, StoreError>;
}
