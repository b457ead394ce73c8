//! `kind = "postgres"`: events into the operator's own PostgreSQL, exactly once.
//!
//! The sink owns a schema (`confirmd` unless configured) with three tables: `deposit` (what stands now), `event` (every event ever
//! applied, by its unique id) and `consumer` (who is fed, by which store, how far). One call is one transaction: events, deposits, the
//! consumer's position, and the operator's own effect (`on_confirmed`, `on_reverted`) are there together or not at all.
//!
//! * **K5** is the database's: an event that was applied is a no-op by the primary key of `event`; a lower (epoch, sequence) than a
//!   deposit's stored one is recorded and changes nothing.
//! * **K3**: an effect's error is that event's failure. The transaction is rolled back and the events before it are applied in one
//!   of their own.
//! * **K10**: if the connection breaks while a commit is out, the database is asked what became of it, under the lock that the
//!   transaction held, before anything is answered.
//! * **The books** know which store feeds them, and in which epoch. Another store is refused.
//!
//! The effect runs once for each change of what stands: `on_confirmed` with the new payment, `on_reverted` with the one that
//! was credited. Its parameters are listed at [`PARAMETERS`].
#![warn(missing_docs)]

mod apply;
mod books;
mod config;
mod effect;
mod entry;
mod failure;
mod numeric;
mod session;
mod sink;
mod statements;

pub use config::PostgresConfig;
pub use effect::{PARAMETERS, Parameter};
pub use sink::PostgresSink;

use confirmd_core::{ConfigError, Sink, SinkContext, SinkKind, parse_table};
use std::sync::Arc;

/// The kind `postgres`.
pub const KIND: SinkKind = SinkKind {
    name: "postgres",
    summary: "writes each event into your own PostgreSQL exactly once, your effect in the same transaction",
    example: r#"[sinks.books]
kind = "postgres"
url = "postgres://confirmd@127.0.0.1:5432/ledger"   # no password here; sslmode=verify-full for a server elsewhere
# password = { env = "LEDGER_DB_PASSWORD" }
# ca_file = "/etc/ssl/our-ca.pem"                    # instead of the public roots
# schema = "confirmd"                                # made and owned by confirmd
# on_confirmed = "select ledger.credit($1, $9, $11, $14)"   # event id, reference, asset, amount; see docs/postgres.md
# on_reverted = "select ledger.debit($1, $9, $11, $14)"
# timeout = "15s"                                    # one deadline over a batch
"#,
    build,
};

fn build(context: SinkContext, table: toml::Table) -> Result<Arc<dyn Sink>, ConfigError> {
    let config: PostgresConfig = parse_table(table)?;
    Ok(Arc::new(PostgresSink::new(context.consumer, &config)?))
}

#[cfg(test)]
mod tests;
