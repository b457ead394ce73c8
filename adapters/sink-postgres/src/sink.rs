//! The sink: one batch, one transaction; whatever happens, an exact answer.

use crate::PostgresConfig;
use crate::apply::Work;
use crate::books;
use crate::entry::Entry;
use crate::failure::{Failure, fatal, rejected, transient};
use crate::session::Session;
use async_trait::async_trait;
use confirmd_core::{
    ChainId, ConfigError, ConsumerName, DeliverError, Delivery, DepositKey, Feed, Newest, Sink, SinkBooks, SinkError, SinkProfile,
};
use confirmd_postgres::{Schema, Server, ServerConfig, Trouble};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Error;

/// Events in one transaction: from here on more make it no faster, and a failure repeats more.
const BATCH_MAX: NonZeroUsize = NonZeroUsize::new(500).expect("invariant: 500 is not zero");
/// How often one call begins anew after a lost connection or a collision; then the pump's schedule takes over.
const AGAIN_MAX: u32 = 3;

/// Where events go and what is done with them there.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) server: Server,
    pub(crate) schema: Schema,
    pub(crate) consumer: ConsumerName,
    pub(crate) on_confirmed: Option<String>,
    pub(crate) on_reverted: Option<String>,
}

impl Target {
    /// An error outside of a batch.
    pub(crate) fn explain(&self, what: &str, error: &Error) -> SinkError {
        let context = format!("{}: {what}: {}", self.server.label(), self.server.describe(error));
        match Trouble::of(error) {
            Trouble::Setup | Trouble::Statement => fatal(context),
            Trouble::Passing | Trouble::Collision | Trouble::Slow => transient(context),
        }
    }

    /// The feed's epoch as the database keeps it.
    pub(crate) fn epoch_of(&self, feed: &Feed) -> Result<i64, SinkError> {
        i64::try_from(feed.epoch.0).map_err(|_| fatal(format!("the state's epoch {} is out of range", feed.epoch.0)))
    }
}

/// Writes events into the operator's database. Its calls take turns: they share one connection.
#[derive(Debug)]
pub struct PostgresSink {
    pub(crate) target: Target,
    timeout: Duration,
    feed: Mutex<Option<Feed>>,
    /// Empty while nobody is connected; taken out while in use, so that a dropped call closes what it used.
    session: tokio::sync::Mutex<Option<Session>>,
}

impl PostgresSink {
    /// Reads secrets; connects to nothing.
    ///
    /// # Errors
    /// When a key can never work; names it.
    pub fn new(consumer: ConsumerName, config: &PostgresConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let server = Server::new(&ServerConfig {
            url: config.url.clone(),
            password: config.password.clone(),
            ca_file: config.ca_file.clone(),
            statement_timeout: config.timeout.0,
            application: format!("confirmd {consumer}"),
        })?;
        let (on_confirmed, on_reverted) = (config.on_confirmed.clone(), config.on_reverted.clone());
        let target = Target { server, schema: config.schema.clone(), consumer, on_confirmed, on_reverted };
        Ok(Self { target, timeout: config.timeout.0, feed: Mutex::default(), session: tokio::sync::Mutex::default() })
    }

    pub(crate) fn feed(&self) -> Option<Feed> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A session for a task outside of a batch, within the deadline.
    pub(crate) async fn with_session<T>(
        &self,
        task: impl AsyncFnOnce(&mut Session) -> Result<T, SinkError>,
    ) -> Result<T, SinkError> {
        let work = async { task(&mut Session::open(&self.target).await?).await };
        match timeout_at(Instant::now() + self.timeout, work).await {
            Ok(result) => result,
            Err(_) => Err(self.too_slow()),
        }
    }

    fn too_slow(&self) -> SinkError {
        let timeout = confirmd_core::HumanDuration(self.timeout);
        transient(format!("{}: no answer within {timeout}", self.target.server.label()))
    }

    /// Applies a prefix of the entries. `Err` says how many took effect.
    async fn deliver_entries(&self, feed: &Feed, entries: &[Entry]) -> Result<(), DeliverError> {
        let began = Instant::now();
        let (work_until, ask_until) = (began + self.timeout * 2 / 3, began + self.timeout);
        let (mut count, mut blamed, mut one_by_one, mut again) = (entries.len(), None, false, 0);
        while count > 0 {
            let part = entries.get(..count).unwrap_or(entries);
            let work = Work { target: &self.target, feed, entries: part, one_by_one };
            match self.attempt(&work, work_until).await {
                Ok(()) => break,
                Err(Failure::At(place, error)) => (count, blamed) = (place, Some(error)),
                Err(Failure::OfSeveral(_)) if !one_by_one => one_by_one = true,
                Err(Failure::Collision(_) | Failure::Lost(_)) if again < AGAIN_MAX && Instant::now() < work_until => again += 1,
                Err(Failure::Unknown(error)) => {
                    let there = timeout_at(ask_until, self.applied(part)).await.unwrap_or_else(|_| Err(self.too_slow()));
                    match there {
                        Ok(true) => break,
                        Ok(false) if again < AGAIN_MAX && Instant::now() < work_until => again += 1,
                        // Not there, or not known to be: handed over again, and a no-op if it was.
                        Ok(false) | Err(_) => return Err(DeliverError { accepted: 0, error }),
                    }
                }
                Err(Failure::Nothing(error) | Failure::OfSeveral(error) | Failure::Collision(error) | Failure::Lost(error)) => {
                    return Err(DeliverError { accepted: 0, error });
                }
            }
        }
        blamed.map_or(Ok(()), |error| Err(DeliverError { accepted: count, error }))
    }

    /// One transaction on the kept connection, or on a new one.
    async fn attempt(&self, work: &Work<'_>, until: Instant) -> Result<(), Failure> {
        let mut kept = self.session.lock().await;
        let reused = kept.take().filter(|session| !session.connection.is_closed());
        let mut committing = false;
        let running = async {
            let mut session = match reused {
                Some(session) => session,
                None => Session::open(&self.target).await.map_err(Failure::Nothing)?,
            };
            let result = work.run(&mut session, &mut committing).await;
            if matches!(result, Ok(()) | Err(Failure::At(..) | Failure::OfSeveral(_) | Failure::Collision(_))) {
                *kept = Some(session);
            }
            result
        };
        match timeout_at(until, running).await {
            Ok(result) => result,
            Err(_) if committing => Err(Failure::Unknown(self.too_slow())),
            Err(_) => Err(Failure::Nothing(self.too_slow())),
        }
    }

    /// Asks on a new connection whether a transaction whose commit was out took effect. It did whole or not at all, and
    /// by the time the consumer's row can be locked it has ended.
    async fn applied(&self, entries: &[Entry]) -> Result<bool, SinkError> {
        let session = Session::open(&self.target).await?;
        let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        let rows = session.connection.query(&session.prepared.applied, &[&self.target.consumer.as_str(), &ids]).await;
        let rows = rows.map_err(|error| self.target.explain("asking what became of a commit", &error))?;
        let mut distinct: Vec<&str> = ids;
        distinct.sort_unstable();
        distinct.dedup();
        *self.session.lock().await = Some(session);
        Ok(rows.len() == distinct.len())
    }
}

#[async_trait]
impl Sink for PostgresSink {
    fn profile(&self) -> SinkProfile {
        SinkProfile { batch_max: BATCH_MAX, concurrency: NonZeroUsize::MIN }
    }

    fn books(&self) -> Option<&dyn SinkBooks> {
        Some(self)
    }

    /// Makes or migrates the schema, has every statement checked by the server, and looks whose the books are.
    async fn check(&self) -> Result<(), SinkError> {
        let feed = self.feed();
        self.with_session(async |session| {
            let Some(feed) = feed else { return Ok(()) };
            match self.target.not_ours(&session.connection, &feed).await? {
                Some(error) => Err(error),
                None => Ok(()),
            }
        })
        .await
    }

    async fn deliver(&self, batch: &[Delivery]) -> Result<(), DeliverError> {
        let Some(feed) = self.feed() else {
            let error = fatal("nobody has said which store feeds this sink".to_owned());
            return Err(DeliverError { accepted: 0, error });
        };
        let mut entries = Vec::with_capacity(batch.len());
        let mut poison = None;
        for delivery in batch {
            match Entry::read(delivery) {
                Ok(entry) => entries.push(entry),
                Err(why) => {
                    poison = Some(rejected(format!("event {} can't be written to the database: {why}", delivery.event)));
                    break;
                }
            }
        }
        self.deliver_entries(&feed, &entries).await?;
        poison.map_or(Ok(()), |error| Err(DeliverError { accepted: entries.len(), error }))
    }
}

#[async_trait]
impl SinkBooks for PostgresSink {
    fn fed_by(&self, feed: Feed) {
        *self.feed.lock().unwrap_or_else(PoisonError::into_inner) = Some(feed);
    }

    async fn newest(&self) -> Result<Option<Newest>, SinkError> {
        books::newest(self).await
    }

    async fn last_events(&self, chain: &ChainId, after: Option<&DepositKey>, limit: usize) -> Result<Vec<Arc<[u8]>>, SinkError> {
        books::last_events(self, chain, after, limit).await
    }

    async fn adopt(&self, feed: &Feed) -> Result<Option<Feed>, SinkError> {
        books::adopt(self, feed).await
    }
}
