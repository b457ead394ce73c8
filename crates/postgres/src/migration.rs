//! Versioned migrations of a schema; several instances may run them at once.

use crate::{Schema, Server};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

/// One step. In its text `{schema}` stands for the schema's name.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// 1 and up, without a gap.
    pub version: i32,
    /// Statements; run in one transaction with the record that they ran.
    pub sql: &'static str,
}

/// Why a schema is not as it must be.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The server's answer.
    #[error("the server refused it")]
    Server(#[from] Error),
    /// It was made by a newer program.
    #[error(
        "the schema {schema} has version {found} of `{part}`, this confirmd knows {known}; run the version of confirmd that made it, or a newer one"
    )]
    Newer {
        /// The schema.
        schema: String,
        /// Which set of migrations.
        part: &'static str,
        /// What it has.
        found: i32,
        /// The last one known here.
        known: i32,
    },
}

/// Brings a part of a schema up to the last of `migrations`. Under an advisory lock, so that instances that start at once run each step
/// once; where the server has none, under the lock of a row in the schema. A schema that is up to date is only read: a role that may not create anything can then use it.
pub async fn migrate(
    client: &mut Client,
    schema: &Schema,
    part: &'static str,
    migrations: &[Migration],
) -> Result<(), MigrateError> {
    let known = migrations.last().map_or(0, |last| last.version);
    let newer = |found| MigrateError::Newer { schema: schema.to_string(), part, found, known };
    match version(client, schema, part).await? {
        found if found == known => return Ok(()),
        found if found > known => return Err(newer(found)),
        _ => {}
    }
    let lock = format!("confirmd.{schema}.{part}");
    let advisory = has_advisory_locks(client, &lock).await?;
    if !advisory {
        make_lock_row(client, schema).await?;
    }
    let transaction = client.transaction().await?;
    match advisory {
        true => transaction.execute(ADVISORY, &[&lock]).await?,
        false => transaction.execute(&schema.in_sql("select one from {schema}.migration_lock for update"), &[]).await?,
    };
    let found = version(transaction.client(), schema, part).await?;
    if found > known {
        return Err(newer(found));
    }
    if !exists(transaction.client(), schema).await? {
        transaction.batch_execute(&schema.in_sql("create schema {schema}")).await?;
    }
    transaction
        .batch_execute(&schema.in_sql(
            "create table if not exists {schema}.migration (part text not null, version integer not null, \
             applied_at timestamptz not null default now(), primary key (part, version))",
        ))
        .await?;
    for migration in migrations.iter().filter(|migration| migration.version > found) {
        transaction.batch_execute(&schema.in_sql(migration.sql)).await?;
        let record = schema.in_sql("insert into {schema}.migration (part, version) values ($1, $2)");
        transaction.execute(&record, &[&part, &migration.version]).await?;
    }
    transaction.commit().await?;
    Ok(())
}

const ADVISORY: &str = "select pg_advisory_xact_lock(hashtextextended($1, 0))";
/// Instances that make the same thing at once get in each other's way, in some versions of the server with an error.
const TRIES: u32 = 5;

/// Takes the lock for a moment, if the server has such locks.
async fn has_advisory_locks(client: &Client, lock: &String) -> Result<bool, Error> {
    let missing = [SqlState::UNDEFINED_FUNCTION, SqlState::FEATURE_NOT_SUPPORTED, SqlState::INSUFFICIENT_PRIVILEGE];
    match client.execute(ADVISORY, &[lock]).await {
        Ok(_) => Ok(true),
        Err(error) if error.code().is_some_and(|code| missing.contains(code)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A schema that was made for us needs no right to make one, which `if not exists` asks for all the same.
async fn exists(client: &Client, schema: &Schema) -> Result<bool, Error> {
    let look = "select exists (select from pg_namespace where nspname = $1)";
    Ok(client.query_one(look, &[&schema.as_str()]).await?.get(0))
}

async fn make_lock_row(client: &Client, schema: &Schema) -> Result<(), Error> {
    let statements = [
        "create schema if not exists {schema}",
        "create table if not exists {schema}.migration_lock (one boolean primary key default true check (one))",
        "insert into {schema}.migration_lock (one) values (true) on conflict (one) do nothing",
    ];
    let there = exists(client, schema).await?;
    for statement in statements.into_iter().skip(usize::from(there)) {
        let statement = schema.in_sql(statement);
        for _ in 1..TRIES {
            match client.batch_execute(&statement).await {
                Err(error) if error.code().is_some_and(is_in_the_way) => {}
                done => {
                    done?;
                    break;
                }
            }
        }
    }
    Ok(())
}

fn is_in_the_way(code: &SqlState) -> bool {
    let made =
        [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_SCHEMA, SqlState::T_R_SERIALIZATION_FAILURE];
    made.contains(code) || code.code() == "XX000"
}

/// 0 if there is none.
async fn version(client: &Client, schema: &Schema, part: &str) -> Result<i32, Error> {
    // Read from the catalogue's own table: a name looked up while we waited for the lock may be remembered as missing.
    let look = "select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                where n.nspname = $1 and c.relname = 'migration')";
    let there = client.query_one(look, &[&schema.as_str()]).await?;
    if !there.get::<_, bool>(0) {
        return Ok(0);
    }
    let newest = schema.in_sql("select coalesce(max(version), 0) from {schema}.migration where part = $1");
    Ok(client.query_one(&newest, &[&part]).await?.get(0))
}

impl MigrateError {
    /// Without any secret.
    pub fn describe(&self, server: &Server) -> String {
        match self {
            Self::Server(error) => server.describe(error),
            newer @ Self::Newer { .. } => newer.to_string(),
        }
    }
}
