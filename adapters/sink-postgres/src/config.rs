//! The keys of `[sinks.NAME]` with `kind = "postgres"`.

use confirmd_core::{ConfigError, HumanDuration, SecretSource};
use confirmd_postgres::{Schema, UrlSource};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// A longer deadline would hold the consumer for as long.
const TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// The sink's own keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresConfig {
    /// `postgres://user@host:port/database?sslmode=verify-full`, without a password; or where it is kept.
    pub url: UrlSource,
    /// The password, if the URL has none.
    pub password: Option<SecretSource>,
    /// Certificates (PEM) to trust instead of the public roots.
    pub ca_file: Option<PathBuf>,
    /// The schema of our tables. Default `confirmd`.
    #[serde(default = "default_schema")]
    pub schema: Schema,
    /// One SQL statement that runs in the transaction for each deposit that begins to stand.
    pub on_confirmed: Option<String>,
    /// One SQL statement that runs in the transaction for each deposit that no longer stands.
    pub on_reverted: Option<String>,
    /// One deadline over a batch. Default 15 s, at most 10 minutes.
    #[serde(default = "default_timeout")]
    pub timeout: HumanDuration,
}

impl PostgresConfig {
    /// Refuses what a type can't.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.timeout.0.is_zero() || self.timeout.0 > TIMEOUT_MAX {
            return Err(ConfigError::new("timeout", format!("{}: must be above zero and at most 10m", self.timeout)));
        }
        if self.on_confirmed.is_some() != self.on_reverted.is_some() {
            let (there, missing) =
                if self.on_confirmed.is_some() { ("on_confirmed", "on_reverted") } else { ("on_reverted", "on_confirmed") };
            let problem = format!(
                "{there} without {missing} would credit or take back one way only; write both (\"select\" alone does nothing)"
            );
            return Err(ConfigError::new(missing, problem));
        }
        Ok(())
    }
}

fn default_schema() -> Schema {
    Schema::try_from("confirmd".to_owned()).expect("invariant: a word")
}

fn default_timeout() -> HumanDuration {
    HumanDuration(Duration::from_secs(15))
}
