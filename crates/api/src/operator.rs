//! What an operator can ask and order.

use crate::view::{
    ChainDetail, ConsumerView, Counted, Coverage, CoverageQuery, CursorView, DeadGroup, DeadQuery, DeliveryDetail, DeliveryQuery,
    DeliveryView, DepositLife, DepositQuery, DepositView, EventsPage, EventsQuery, ExplainQuery, Explanation, PutCursor,
    Reloaded, Replay, Requeue, RescanOrder, RescanRequest, RescanView, ResumeRequest, ResumeView, Status, TestResult, WatchAdded,
    WatchQuery, WatchRequest, Watched,
};
use crate::{OperatorError, Page};
use async_trait::async_trait;
use bytes::Bytes;
use confirmd_core::{ChainName, ConsumerName, CursorName, EventId};

/// The lines of a dump, in pieces of any length. A stream that ends with an error, or before the dump's own end, was no dump.
pub type DumpStream = futures::stream::BoxStream<'static, Result<Bytes, OperatorError>>;

/// The operations on one instance or its state. Every change is durable when its call returns. Errors name the value
/// they are about and what to do.
#[async_trait]
pub trait Operator: std::fmt::Debug + Send + Sync {
    /// How every chain and consumer stands.
    async fn status(&self) -> Result<Status, OperatorError>;

    /// One chain, looked at closely: its node is asked, within a few seconds.
    async fn chain(&self, chain: &ChainName) -> Result<ChainDetail, OperatorError>;

    /// What resuming a halted chain would do. Changes nothing; `request.reorg` is not asked for.
    async fn preview(&self, chain: &ChainName, request: ResumeRequest) -> Result<ResumeView, OperatorError>;

    /// Watched addresses in the order of the chains, then of their bytes.
    async fn watched(&self, query: &WatchQuery) -> Result<Page<Watched>, OperatorError>;

    /// Watches addresses, all of them or, if one is refused, none. An address that is watched already takes the new
    /// reference. Answers per chain from which height they are covered.
    async fn watch_add(&self, entries: Vec<WatchRequest>) -> Result<Vec<WatchAdded>, OperatorError>;

    /// Takes no new deposits to these addresses; what is held for them still ends. Counts those that were watched.
    async fn watch_remove(&self, chain: &ChainName, addresses: Vec<String>) -> Result<Counted, OperatorError>;

    /// A chain's rescans: open ones, then those that have ended, newest first.
    async fn rescans(&self, chain: &ChainName) -> Result<Vec<RescanView>, OperatorError>;

    /// Reads past blocks again for what is watched already.
    async fn rescan(&self, chain: &ChainName, request: RescanRequest) -> Result<RescanView, OperatorError>;

    /// Pauses, resumes or cancels a rescan. `Conflict` if it has ended, or is not known.
    async fn order_rescan(&self, chain: &ChainName, id: u64, order: RescanOrder) -> Result<RescanView, OperatorError>;

    /// Which heights were read for an address.
    async fn coverage(&self, chain: &ChainName, query: &CoverageQuery) -> Result<Coverage, OperatorError>;

    /// Deposits, newest first.
    async fn deposits(&self, query: &DepositQuery) -> Result<Page<DepositView>, OperatorError>;

    /// One deposit and everything that happened to it.
    async fn deposit(&self, chain: &ChainName, tx_id: &str, output_index: u32) -> Result<DepositLife, OperatorError>;

    /// Why a transaction produced what it did, or nothing.
    async fn explain(&self, chain: &ChainName, tx_id: &str, query: &ExplainQuery) -> Result<Explanation, OperatorError>;

    /// Events in the order they were decided; waits for one if asked to. `Expired` for a cursor that passed out of history or is of
    /// another epoch.
    async fn events(&self, query: &EventsQuery) -> Result<EventsPage, OperatorError>;

    /// Every named cursor.
    async fn cursors(&self) -> Result<Vec<CursorView>, OperatorError>;

    /// Puts a named cursor, new or known, at a place.
    async fn put_cursor(&self, name: &CursorName, put: PutCursor) -> Result<CursorView, OperatorError>;

    /// Forgets a named cursor.
    async fn remove_cursor(&self, name: &CursorName) -> Result<(), OperatorError>;

    /// Dead letters grouped by consumer, last status and error, largest group first.
    async fn dead_letters(&self, query: &DeadQuery) -> Result<Vec<DeadGroup>, OperatorError>;

    /// Sends events again, delivered ones too: same ids, same bytes. Counts deliveries.
    async fn replay(&self, consumer: &ConsumerName, request: Replay) -> Result<Counted, OperatorError>;

    /// Sends one event that is marked as a test, past the outbox, and says how it went.
    async fn test_event(&self, consumer: &ConsumerName) -> Result<TestResult, OperatorError>;

    /// Undelivered and skipped deliveries in outbox order; of an event, delivered ones too.
    async fn deliveries(&self, query: &DeliveryQuery) -> Result<Page<DeliveryView>, OperatorError>;

    /// One event: its body and how it went with each consumer.
    async fn delivery(&self, event: &EventId) -> Result<DeliveryDetail, OperatorError>;

    /// Queues the undelivered tail of each named event's key again, with fresh attempts. Counts deliveries.
    async fn requeue(&self, consumer: &ConsumerName, request: Requeue) -> Result<Counted, OperatorError>;

    /// Gives one undelivered event up for one consumer, on record.
    async fn skip(&self, consumer: &ConsumerName, event: &EventId) -> Result<(), OperatorError>;

    /// Every consumer with records.
    async fn consumers(&self) -> Result<Vec<ConsumerView>, OperatorError>;

    /// Stops attempts (`Some(why)`) or goes on (`None`). Loses nothing. The first reason of a pause is kept. Answers how the
    /// consumer stands then.
    async fn pause(&self, consumer: &ConsumerName, why: Option<String>) -> Result<ConsumerView, OperatorError>;

    /// Moves a consumer's records to a new name. `Conflict` while an instance runs.
    async fn rename(&self, from: &ConsumerName, to: &ConsumerName) -> Result<(), OperatorError>;

    /// Deletes a consumer's records. `Conflict` while an instance runs. Counts the undelivered events given up.
    async fn purge(&self, consumer: &ConsumerName) -> Result<Counted, OperatorError>;

    /// Reads the configuration file again and takes it over: all of it or, if any of it is refused, none. Parts that did not change are
    /// not disturbed. `Conflict` where no instance runs.
    async fn reload(&self) -> Result<Reloaded, OperatorError>;

    /// Everything the state holds as it is at one moment, while it goes on. `Conflict` while another export is under way.
    async fn export(&self) -> Result<DumpStream, OperatorError>;

    /// Resumes a halted chain. `Conflict` if it is not halted, or halted by a reorg that `request` does not accept.
    async fn resume(&self, chain: &ChainName, request: ResumeRequest) -> Result<ResumeView, OperatorError>;
}
