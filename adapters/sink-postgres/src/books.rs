//! The books: whose they are, and what is in them.

use crate::failure::fatal;
use crate::sink::{PostgresSink, Target};
use crate::statements::{ADOPT, CONSUMER, LAST_EVENTS};
use confirmd_core::{ChainId, DepositKey, Epoch, EventId, Feed, Newest, Position, SinkError, StoreId, Timestamp};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_postgres::{Client, Row};

impl Target {
    /// Why this feed may not write, if it may not.
    pub(crate) async fn not_ours(&self, client: &Client, feed: &Feed) -> Result<Option<SinkError>, SinkError> {
        let Some(row) = self.consumer_row(client).await? else { return Ok(None) };
        let found = self.feed_in(&row)?;
        let (consumer, place) = (&self.consumer, format!("{} (schema {})", self.server.label(), self.schema));
        if found.store != feed.store {
            return Ok(Some(fatal(format!(
                "the consumer {consumer} in {place} is fed by the store {}, this is {}: two separate states must never feed one consumer. \
                 Run all instances on one shared store; or, if that state is gone or stopped for good, \
                 `confirmd consumer adopt {consumer}` gives its books to this one",
                found.store, feed.store
            ))));
        }
        if found.epoch > feed.epoch {
            return Ok(Some(fatal(format!(
                "the consumer {consumer} in {place} is fed by a later epoch ({}) of this store, here it is {}: another copy of this state was \
                 started as a restored one and took over. Run that one; or, if it is gone or stopped for good, start this one once with \
                 `confirmd run --restored`",
                found.epoch.0, feed.epoch.0
            ))));
        }
        Ok(None)
    }

    async fn consumer_row(&self, client: &Client) -> Result<Option<Row>, SinkError> {
        let row = client.query_opt(&self.schema.in_sql(CONSUMER), &[&self.consumer.as_str()]).await;
        row.map_err(|error| self.explain("reading the consumer's row", &error))
    }

    fn feed_in(&self, row: &Row) -> Result<Feed, SinkError> {
        let store = StoreId::new(row.get::<_, &str>("store")).map_err(|error| self.spoilt("store", &error.to_string()))?;
        let epoch = u64::try_from(row.get::<_, i64>("epoch")).map_err(|error| self.spoilt("epoch", &error.to_string()))?;
        Ok(Feed { store, epoch: Epoch(epoch) })
    }

    fn later(&self, before: Option<&Feed>, feed: &Feed) -> SinkError {
        let (consumer, found) =
            (&self.consumer, before.map_or_else(|| "a later one".to_owned(), |before| before.epoch.0.to_string()));
        fatal(format!(
            "the books of {consumer} in {} (schema {}) are of the epoch {found}, this state is of {}: what it decides, and takes back, would be \
             passed over as old. `confirmd run --restored` gives it a new epoch (the start is refused, the epoch stays); then adopt again",
            self.server.label(),
            self.schema,
            feed.epoch.0
        ))
    }

    fn spoilt(&self, column: &str, why: &str) -> SinkError {
        fatal(format!(
            "{}: {}.consumer.{column} of {} was changed by hand: {why}",
            self.server.label(),
            self.schema,
            self.consumer
        ))
    }
}

pub(crate) async fn newest(sink: &PostgresSink) -> Result<Option<Newest>, SinkError> {
    let target = &sink.target;
    sink.with_session(async |session| {
        let Some(row) = target.consumer_row(&session.connection).await? else { return Ok(None) };
        let (position, event) = (row.get::<_, Option<i64>>("position"), row.get::<_, Option<&str>>("event_id"));
        let (Some(position), Some(event)) = (position, event) else { return Ok(None) };
        let at = row.get::<_, Option<SystemTime>>("newest_at").and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Ok(Some(Newest {
            feed: target.feed_in(&row)?,
            position: Position(u64::try_from(position).map_err(|error| target.spoilt("position", &error.to_string()))?),
            event: EventId::new(event).map_err(|error| target.spoilt("event_id", &error.to_string()))?,
            at: Timestamp(at.and_then(|at| u64::try_from(at.as_millis()).ok()).unwrap_or_default()),
        }))
    })
    .await
}

pub(crate) async fn last_events(
    sink: &PostgresSink,
    chain: &ChainId,
    after: Option<&DepositKey>,
    limit: usize,
) -> Result<Vec<Arc<[u8]>>, SinkError> {
    let (tx_id, output_index) = after.map_or(("", -1), |key| (key.tx_id.as_str(), i64::from(key.output_index)));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let target = &sink.target;
    sink.with_session(async |session| {
        let sql = target.schema.in_sql(LAST_EVENTS);
        let rows =
            session.connection.query(&sql, &[&target.consumer.as_str(), &chain.as_str(), &tx_id, &output_index, &limit]).await;
        let rows = rows.map_err(|error| target.explain("reading the last events of deposits", &error))?;
        Ok(rows.iter().map(|row| row.get::<_, &str>(0).as_bytes().into()).collect())
    })
    .await
}

pub(crate) async fn adopt(sink: &PostgresSink, feed: &Feed) -> Result<Option<Feed>, SinkError> {
    let target = &sink.target;
    let epoch = target.epoch_of(feed)?;
    let before = sink
        .with_session(async |session| {
            let before = target.consumer_row(&session.connection).await?.map(|row| target.feed_in(&row)).transpose()?;
            let sql = target.schema.in_sql(ADOPT);
            let done = session.connection.execute(&sql, &[&target.consumer.as_str(), &feed.store.as_str(), &epoch]).await;
            match done {
                Ok(0) => Err(target.later(before.as_ref(), feed)),
                Ok(_) => Ok(before),
                Err(error) => Err(target.explain("giving the books to this state", &error)),
            }
        })
        .await?;
    Ok(before)
}
