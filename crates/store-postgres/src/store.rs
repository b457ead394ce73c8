//! The store itself: opening, closing, and what its parts share.

use crate::chain::Heads;
use crate::claim::Claims;
use crate::error::{Failed, int, refused, uint};
use crate::listen::{Ears, Notice, attend};
use crate::session::{Pool, Session};
use crate::work::{Mode, Work, Worker};
use confirmd_core::{ChainId, Clock, ConsumerName, Epoch, StoreError, StoreId, SystemClock};
use confirmd_postgres::{MigrateError, Migration, Schema, Server, migrate};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, RwLock, Semaphore};

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("../migrations/1.sql") },
    Migration { version: 2, sql: include_str!("../migrations/2.sql") },
    Migration { version: 3, sql: include_str!("../migrations/3.sql") },
    Migration { version: 4, sql: include_str!("../migrations/4.sql") },
    Migration { version: 5, sql: include_str!("../migrations/5.sql") },
];
const PART: &str = "store";

const META: &str = "select store, epoch from meta";
const INIT: &str =
    "insert into meta (store, epoch, created_at, next_position) values ($1, $2, $3, 1) on conflict (one) do nothing";
const RESTORED: &str = "update meta set epoch = greatest(epoch + 1, $1) returning epoch";
const GIVE_BACK: &str = "update delivery set token = null, owner = null, lease_until = null where owner = $1";
const PASS_ALL: &str = "delete from turn where owner = $1";

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct PgOptions {
    /// Which schema of the database is the store's.
    pub schema: Schema,
    /// Make a new store where there is none. Without it a database without one is refused.
    pub init: bool,
    /// The database is a copy of an older one: it takes a new epoch, so that what it decides again is not taken for a repetition.
    pub restored: bool,
    /// How long a delivery that was handed out is kept from others without a sign of life.
    pub lease: Duration,
    /// How long the server may be out of reach before the outcome of a call counts as unknown.
    pub patience: Duration,
    /// Connections at the same time, besides the one that listens.
    pub connections: usize,
    /// A statement run for every event within the transaction that decides it; `$1` is the event's body as text.
    pub on_event: Option<Arc<str>>,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
}

impl PgOptions {
    /// As `confirmd` opens it.
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            init: false,
            restored: false,
            lease: Duration::from_secs(30),
            patience: Duration::from_secs(300),
            connections: 8,
            on_event: None,
            clock: Arc::new(SystemClock),
        }
    }
}

/// Watcher state, outbox and history in one schema, shared by any number of instances. A handle that is dropped leaves what is out
/// to the lease, as a killed process does; [`PgStore::close`] gives it back.
#[derive(Debug)]
pub struct PgStore {
    pub(crate) inner: Arc<Inner>,
}

/// What the parts of a store share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) worker: Arc<Worker>,
    pub(crate) epoch: Epoch,
    pub(crate) identity: StoreId,
    pub(crate) heads: Arc<Heads>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) notice: Notice,
    pub(crate) ears: Ears,
    pub(crate) lease: Duration,
    pub(crate) on_event: Option<Arc<str>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// A chain's commits of this handle follow each other, and reads of its state see whole ones.
    chain_gates: Mutex<HashMap<ChainId, Arc<RwLock<()>>>>,
    consumer_gates: Mutex<HashMap<ConsumerName, Arc<tokio::sync::Mutex<()>>>>,
    /// One export at a time has a connection of its own.
    pub(crate) exports: Arc<Semaphore>,
}

impl PgStore {
    /// Connects, migrates, reads whose store it is. `Refused` if the server can't be reached or refuses us, if the schema was made
    /// by a newer version, or if there is no store and `init` is not set; the text says what to do.
    pub async fn open(server: Server, options: PgOptions) -> Result<Self, StoreError> {
        let session = prepare(&server, &options).await?;
        let (identity, epoch) = own(&session, &options).await.map_err(|failed| match failed {
            Failed::Server(error) => refused(format!("reading {}: {}", label(&server, &options), server.describe(&error))),
            Failed::Told(error) => error,
        })?;
        let owner: Arc<str> = format!("{:016x}", fastrand::u64(..)).into();
        let channel: Arc<str> = format!("confirmd_{}", options.schema).into();
        let works = session.query("select pg_notify($1, $2)", &[&&*channel, &"hello - -"]).await.is_ok();
        drop(session);
        let pool = Pool::new(server, options.schema, options.connections);
        let inner = Arc::new(Inner {
            worker: Arc::new(Worker::new(pool, options.patience)),
            epoch,
            identity,
            heads: Arc::default(),
            claims: Arc::default(),
            notice: Notice { owner, channel, works },
            ears: Ears::default(),
            lease: options.lease.max(Duration::from_secs(1)),
            on_event: options.on_event,
            clock: options.clock,
            chain_gates: Mutex::default(),
            consumer_gates: Mutex::default(),
            exports: Arc::new(Semaphore::new(1)),
        });
        tokio::spawn(attend(Arc::downgrade(&inner)));
        Ok(Self { inner })
    }

    /// Tells `wake` whenever another instance may have made something deliverable.
    pub fn wake_on_events(&self, wake: Arc<Notify>) {
        self.inner.ears.wake_on_events(wake);
    }

    /// Where it is, for people.
    pub fn label(&self) -> String {
        let pool = &self.inner.worker.pool;
        format!("{} (schema {})", pool.server().label(), pool.schema())
    }

    /// Names this handle in the columns `owner`.
    pub fn owner(&self) -> &str {
        &self.inner.notice.owner
    }

    /// Gives back what is out, passes its turns on, and ends. Every later call is `Invalid`.
    pub async fn close(&self) -> Result<(), StoreError> {
        if self.inner.worker.is_ended() {
            return Ok(());
        }
        let owner = Arc::clone(&self.inner.notice.owner);
        let given = self.inner.run("giving deliveries back", Mode::Write, owner, |session, owner| {
            Box::pin(async move {
                session.execute(PASS_ALL, &[&&**owner]).await?;
                Ok(session.execute(GIVE_BACK, &[&&**owner]).await?)
            })
        });
        let given = tokio::time::timeout(Duration::from_secs(5), given).await;
        self.inner.worker.end();
        match given {
            Ok(given) => given.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Ends everything that is under way as the end of the process would.
    pub fn abandon(&self) {
        self.inner.worker.end();
    }
}

impl Drop for PgStore {
    fn drop(&mut self) {
        self.inner.worker.end();
    }
}

impl Inner {
    pub(crate) fn lease_ms(&self) -> f64 {
        f64::from(u32::try_from(self.lease.as_millis()).unwrap_or(u32::MAX))
    }

    /// Work that waits for nothing else.
    pub(crate) async fn run<A, T>(&self, what: &'static str, mode: Mode, args: A, work: Work<A, T>) -> Result<T, StoreError>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.worker.run(what, mode, (), args, work).await
    }

    pub(crate) fn chain_gate(&self, chain: &ChainId) -> Arc<RwLock<()>> {
        let mut gates = self.chain_gates.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(gates.entry(chain.clone()).or_default())
    }

    pub(crate) fn consumer_gate(&self, consumer: &ConsumerName) -> Arc<tokio::sync::Mutex<()>> {
        let mut gates = self.consumer_gates.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(gates.entry(consumer.clone()).or_default())
    }
}

/// Which store, for people.
fn label(server: &Server, options: &PgOptions) -> String {
    format!("the schema {} of {}", options.schema, server.label())
}

/// Connects and migrates. `Refused` if the server can't be reached or refuses us, if the schema was made by a newer version, or if there
/// is none and `init` is not set.
pub(crate) async fn prepare(server: &Server, options: &PgOptions) -> Result<Session, StoreError> {
    let label = label(server, options);
    let why = |what: &str, text: String| refused(format!("{what} {label}: {text}"));
    let connected = Session::open(server, &options.schema).await;
    drop(connected.map_err(|error| why("connecting for", server.describe(&error)))?);
    let mut connection = server.connect().await.map_err(|error| why("connecting for", server.describe(&error)))?;
    let there = connection.query_one("select to_regclass($1) is not null", &[&format!("{}.meta", options.schema)]).await;
    let there: bool = there.map_err(|error| why("looking for", server.describe(&error)))?.get(0);
    if !there && !options.init {
        return Err(refused(format!(
            "{label} holds no state; correct state.url or state.schema, or begin a new state with `confirmd run --init`"
        )));
    }
    let migrated = migrate(&mut connection, &options.schema, PART, MIGRATIONS).await;
    migrated.map_err(|error| match &error {
        MigrateError::Server(cause) => why("preparing", server.describe(cause)),
        MigrateError::Newer { .. } => refused(format!("{}: {}", server.label(), error.describe(server))),
    })?;
    drop(connection);
    let session = Session::open(server, &options.schema).await;
    session.map_err(|error| why("connecting for", server.describe(&error)))
}

/// Whose store it is; made with `init`.
async fn own(session: &Session, options: &PgOptions) -> Result<(StoreId, Epoch), Failed> {
    let now = options.clock.now();
    if options.init {
        let name = format!("{:032x}", fastrand::u128(..));
        session.execute(INIT, &[&name, &int(now.seconds()), &int(now.0)]).await?;
    }
    if options.restored {
        session.query_opt(RESTORED, &[&int(now.seconds())]).await?;
    }
    let Some(row) = session.query_opt(META, &[]).await? else {
        return Err(Failed::Told(refused(format!(
            "the schema {} was never initialised; begin a new state with `confirmd run --init`",
            options.schema
        ))));
    };
    let name = StoreId::new(row.get::<_, String>(0));
    let name = name.map_err(|_| refused("the store's name in the table meta is none; put a backup back"))?;
    Ok((name, Epoch(uint(row.get(1)))))
}
