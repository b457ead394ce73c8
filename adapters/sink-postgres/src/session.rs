//! One connection with everything prepared.

use crate::effect::{PARAMETERS, Way};
use crate::failure::{fatal, transient};
use crate::sink::Target;
use crate::statements::{APPLIED, APPLY, CLAIM};
use confirmd_core::SinkError;
use confirmd_postgres::{Connection, MigrateError, Migration, Trouble, migrate};
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Statement};

/// The sink's tables.
const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("../migrations/1.sql") },
    Migration { version: 2, sql: include_str!("../migrations/2.sql") },
];

/// An open connection to a schema that is as it must be.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) prepared: Prepared,
}

/// Everything that is asked for, prepared once.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) claim: Statement,
    pub(crate) apply: Statement,
    pub(crate) applied: Statement,
    on_confirmed: Option<Statement>,
    on_reverted: Option<Statement>,
}

impl Session {
    /// Connects, migrates, prepares. What is prepared is checked by the server: names, types, and that it is one statement.
    pub(crate) async fn open(target: &Target) -> Result<Self, SinkError> {
        let failed = |what: &'static str| move |error: Error| target.explain(what, &error);
        let mut connection = target.server.connect().await.map_err(failed("connecting"))?;
        migrate(&mut connection, &target.schema, "sink", MIGRATIONS).await.map_err(|error| match &error {
            MigrateError::Server(cause) => target.explain("preparing the schema", cause),
            MigrateError::Newer { .. } => fatal(format!("{}: {}", target.server.label(), error.describe(&target.server))),
        })?;
        let ours = failed("preparing our statements (was the schema changed by hand?)");
        let claim = connection.prepare(&target.schema.in_sql(CLAIM)).await.map_err(&ours)?;
        let apply = connection.prepare(&target.schema.in_sql(APPLY)).await.map_err(&ours)?;
        let applied = connection.prepare(&target.schema.in_sql(APPLIED)).await.map_err(&ours)?;
        let on_confirmed = effect(&connection, target, Way::Confirmed).await?;
        let on_reverted = effect(&connection, target, Way::Reverted).await?;
        Ok(Self { connection, prepared: Prepared { claim, apply, applied, on_confirmed, on_reverted } })
    }
}

impl Prepared {
    /// The operator's statement, where there is one.
    pub(crate) fn effect(&self, way: Way) -> Option<&Statement> {
        match way {
            Way::Confirmed => self.on_confirmed.as_ref(),
            Way::Reverted => self.on_reverted.as_ref(),
        }
    }
}

async fn effect(connection: &Connection, target: &Target, way: Way) -> Result<Option<Statement>, SinkError> {
    let sql = match way {
        Way::Confirmed => &target.on_confirmed,
        Way::Reverted => &target.on_reverted,
    };
    let Some(sql) = sql else { return Ok(None) };
    let types: Vec<Type> = PARAMETERS.iter().map(|parameter| parameter.of.clone()).collect();
    match connection.prepare_typed(sql, &types).await {
        Ok(statement) if statement.params().len() > PARAMETERS.len() => Err(fatal(format!(
            "{} asks for {} parameters, there are {} (docs/postgres.md lists them)",
            way.key(),
            statement.params().len(),
            PARAMETERS.len()
        ))),
        Ok(statement) => Ok(Some(statement)),
        Err(error) if Trouble::of(&error) == Trouble::Statement || Trouble::of(&error) == Trouble::Setup => {
            Err(fatal(format!("{}: the server refuses {}: {}", target.server.label(), way.key(), target.server.describe(&error))))
        }
        Err(error) => {
            Err(transient(format!("{}: preparing {}: {}", target.server.label(), way.key(), target.server.describe(&error))))
        }
    }
}
