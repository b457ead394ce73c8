//! One connection with what was prepared on it, and the few that a store keeps.

use crate::error::Failed;
use confirmd_postgres::{Connection, Schema, Server};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

/// Parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// An open connection whose names are those of the store's schema.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Connection,
    prepared: Mutex<HashMap<&'static str, Statement>>,
    /// When something was asked last.
    asked: Mutex<Instant>,
}

/// Why a piece of work did not come to its end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself.
    Failed(Failed),
    /// The server said nothing for so long, though it limits its statements.
    Silent(Duration),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Session {
    pub(crate) async fn open(server: &Server, schema: &Schema) -> Result<Self, Error> {
        let connection = server.connect().await?;
        connection.batch_execute(&schema.in_sql("set search_path to {schema}, public")).await?;
        Ok(Self { connection, prepared: Mutex::default(), asked: Mutex::new(Instant::now()) })
    }

    /// The connection, for one statement.
    pub(crate) fn connection(&self) -> &Connection {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        &self.connection
    }

    /// Returns when what was asked last has had no answer for so long.
    pub(crate) async fn silent(&self, limit: Duration) {
        loop {
            let until = *self.asked.lock().unwrap_or_else(PoisonError::into_inner) + limit;
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }

    async fn statement(&self, sql: &'static str) -> Result<Statement, Error> {
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.connection().prepare(sql).await?;
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(sql, statement.clone());
        Ok(statement)
    }

    pub(crate) async fn query(&self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Error> {
        let statement = self.statement(sql).await?;
        self.connection().query(&statement, params).await
    }

    pub(crate) async fn query_opt(&self, sql: &'static str, params: Params<'_>) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    pub(crate) async fn execute(&self, sql: &'static str, params: Params<'_>) -> Result<u64, Error> {
        let statement = self.statement(sql).await?;
        self.connection().execute(&statement, params).await
    }

    /// Statements without parameters: beginning and ending a transaction.
    pub(crate) async fn say(&self, sql: &str) -> Result<(), Error> {
        self.connection().batch_execute(sql).await
    }
}

/// Sessions that wait for work, and how many there may be.
#[derive(Debug)]
pub(crate) struct Pool {
    server: Server,
    schema: Schema,
    idle: Mutex<Vec<Session>>,
    room: Semaphore,
}

/// A session on loan. Given back only when its transaction has ended; else it is closed, and the server rolls back.
#[derive(Debug)]
pub(crate) struct Loan<'a> {
    pub(crate) session: Session,
    pool: &'a Pool,
    _room: SemaphorePermit<'a>,
}

impl Loan<'_> {
    pub(crate) fn give_back(self) {
        if !self.session.connection.is_closed() {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(self.session);
        }
    }
}

impl Pool {
    pub(crate) fn new(server: Server, schema: Schema, connections: usize) -> Self {
        Self { server, schema, idle: Mutex::default(), room: Semaphore::new(connections.max(1)) }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// How long a server may say nothing. It ends a statement of ours itself in half of that.
    pub(crate) fn silence_max(&self) -> Duration {
        self.server.statement_timeout().saturating_mul(2)
    }

    /// A session, idle or new.
    pub(crate) async fn borrow(&self) -> Result<Loan<'_>, Ended> {
        let room = self.room.acquire().await.expect("invariant: the semaphore is never closed");
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(session) if session.connection.is_closed() => {}
                Some(session) => return Ok(Loan { session, pool: self, _room: room }),
                None => break,
            }
        }
        let limit = self.silence_max();
        let opened = timeout(limit, Session::open(&self.server, &self.schema)).await;
        let session = opened.map_err(|_| Ended::Silent(limit))??;
        Ok(Loan { session, pool: self, _room: room })
    }

    /// Closes what waits.
    pub(crate) fn clear(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
