//! `[state]` where the state is in PostgreSQL.

use super::file::{Backend, StateSection};
use confirmd_core::ConfigError;
use confirmd_postgres::{Schema, Server, ServerConfig};
use confirmd_store_postgres::PgOptions;
use std::time::Duration;

/// One statement of ours takes no longer; a commit of a full tick takes some milliseconds.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
const SCHEMA: &str = "confirmd_state";

/// The keys that only a shared state has.
pub(crate) struct SharedKeys;

impl SharedKeys {
    /// They belong to one backend, which needs a URL.
    pub(super) fn check(state: &StateSection) -> Result<(), ConfigError> {
        let given = [
            ("state.url", state.url.is_some()),
            ("state.password", state.password.is_some()),
            ("state.ca_file", state.ca_file.is_some()),
            ("state.schema", state.schema.is_some()),
            ("state.on_event", state.on_event.is_some()),
            ("state.lease", state.lease.is_some()),
        ];
        match (state.backend, given.iter().find(|(_, given)| *given)) {
            (Backend::Sled, Some((key, _))) => Err(ConfigError::new(
                *key,
                "only a state in PostgreSQL has this key; write backend = \"postgres\", or take it out",
            )),
            (Backend::Postgres, _) if state.url.is_none() => Err(ConfigError::new(
                "state.url",
                "it is missing; write where the database is: url = { env = \"CONFIRMD_STATE_URL\" }, say",
            )),
            (Backend::Postgres, _) if state.lease.is_some_and(|lease| lease.0 < Duration::from_secs(3)) => {
                Err(ConfigError::new("state.lease", "shorter than 3s it would pass while an instance is only slow"))
            }
            _ => Ok(()),
        }
    }

    /// The server, and how the state there is opened. Reads secrets.
    pub(crate) fn server(state: &StateSection) -> Result<(Server, PgOptions), ConfigError> {
        let Some(url) = state.url.clone() else { return Err(ConfigError::new("state.url", "it is missing")) };
        let server = Server::new(&ServerConfig {
            url,
            password: state.password.clone(),
            ca_file: state.ca_file.clone(),
            statement_timeout: STATEMENT_TIMEOUT,
            application: "confirmd".to_owned(),
        });
        let schema = match &state.schema {
            Some(schema) => schema.clone(),
            None => Schema::try_from(SCHEMA.to_owned()).map_err(|problem| ConfigError::new("state.schema", problem))?,
        };
        let mut options = PgOptions::new(schema);
        options.on_event = state.on_event.as_deref().map(Into::into);
        if let Some(lease) = state.lease {
            options.lease = lease.0;
        }
        Ok((server.map_err(|error| error.below("state"))?, options))
    }
}
