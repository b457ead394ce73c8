//! Who is told: the contract of a sink.

use crate::{ChainId, Delivery, DepositKey, Epoch, EventId, Position, StoreId, Timestamp};
use async_trait::async_trait;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// How the pump hands events over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkProfile {
    /// At most so many events in one call.
    pub batch_max: NonZeroUsize,
    /// At most so many calls at a time. Calls at the same time never hold events of one key.
    pub concurrency: NonZeroUsize,
}

/// What the pump does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkErrorKind {
    /// Time-out, connection lost, overloaded: the event is tried again on the schedule, not before `retry_after`.
    Transient {
        /// As the other side asked.
        retry_after: Option<Duration>,
    },
    /// The other side refused this event: tried again on the schedule (a bad deployment answers 404), then parked.
    Rejected {
        /// As the other side asked.
        retry_after: Option<Duration>,
    },
    /// No event can be delivered until an operator acts (bad credentials, endpoint gone): the consumer pauses,
    /// no attempt is spent.
    Fatal,
}

/// Why a sink did not deliver, or can't start.
#[derive(Debug, thiserror::Error)]
#[error("{context}")]
pub struct SinkError {
    /// What the pump does next.
    pub kind: SinkErrorKind,
    /// What was tried and what came back. No secrets, no URL's user info, path or query.
    pub context: String,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// The beginning of what the other side answered, where it answered with a text; at most some hundred bytes, no secrets.
    pub excerpt: Option<String>,
    /// Why.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl SinkError {
    /// Of a kind, with what was tried.
    pub fn new(kind: SinkErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into(), status: None, excerpt: None, source: None }
    }

    /// With the HTTP status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// With the beginning of the answer; an empty one counts as none.
    #[must_use]
    pub fn with_excerpt(self, excerpt: impl Into<String>) -> Self {
        Self { excerpt: Some(excerpt.into()).filter(|text| !text.is_empty()), ..self }
    }

    /// With its cause.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }
}

/// A batch that was not taken whole.
#[derive(Debug, thiserror::Error)]
#[error("{accepted} accepted, then: {error}")]
pub struct DeliverError {
    /// The exact prefix that took effect durably (K3, K10).
    pub accepted: usize,
    /// What happened to the event behind it. Not a `#[source]`: it is shown above.
    pub error: SinkError,
}

/// One configured consumer's other side. Neither retries nor reorders nor deduplicates by itself.
#[async_trait]
pub trait Sink: std::fmt::Debug + Send + Sync {
    /// How events are handed over; constant.
    fn profile(&self) -> SinkProfile;

    /// Whether it could deliver, asked at start. Delivers nothing (K1).
    async fn check(&self) -> Result<(), SinkError>;

    /// Delivers in order (K2); `Ok` when all took effect durably, as far as the protocol can tell (K10). Ends within
    /// the sink's own total deadline (K9). If the future is dropped, any prefix may have taken effect.
    async fn deliver(&self, batch: &[Delivery]) -> Result<(), DeliverError>;

    /// The other side's books, where it keeps what it was told and can be asked; constant. `None` for a sink that only sends.
    fn books(&self) -> Option<&dyn SinkBooks>;
}

/// Who feeds a consumer: a store, in one of its epochs. A restored copy of a state is the same store in a later epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    /// Which store.
    pub store: StoreId,
    /// Its epoch.
    pub epoch: Epoch,
}

/// The newest event in a consumer's books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// Who fed it.
    pub feed: Feed,
    /// Its place in that feed's outbox: the highest of the feed.
    pub position: Position,
    /// The event at that place.
    pub event: EventId,
    /// When it was written down, by the other side's clock.
    pub at: Timestamp,
}

/// What a sink offers whose other side keeps books. Separate stores must never feed one consumer; here it is enforced.
#[async_trait]
pub trait SinkBooks: std::fmt::Debug + Send + Sync {
    /// Says who feeds it from now on; called once, before `deliver`. No I/O. From then on `check` and `deliver` are `Fatal` while the
    /// books belong to another store, or to a later epoch of this one. Without it `deliver` is `Fatal`; the first
    /// delivery gives books that belong to nobody to the feed.
    fn fed_by(&self, feed: Feed);

    /// The newest event this consumer was told; `None` if it never was told any. Errors as `check`'s.
    async fn newest(&self) -> Result<Option<Newest>, SinkError>;

    /// The last event of each of the consumer's deposits on a chain: frozen bodies in the order of their keys (bytes of `tx_id`, then
    /// `output_index`), after `after`, at most `limit`. Errors as `check`'s.
    async fn last_events(&self, chain: &ChainId, after: Option<&DepositKey>, limit: usize) -> Result<Vec<Arc<[u8]>>, SinkError>;

    /// Gives the books to another feed, because an operator says so. Returns whose they were. `Fatal`, saying what to do, if what is in them
    /// is of a later epoch than the feed's, or of the same epoch of another store; other errors as `check`'s.
    async fn adopt(&self, feed: &Feed) -> Result<Option<Feed>, SinkError>;
}
