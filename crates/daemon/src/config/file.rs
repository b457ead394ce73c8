//! The file as it is written: top-level sections, chains and sinks still as tables.

use super::error::{ConfigFault, ConfigFaults};
use super::state::SharedKeys;
use super::{OperationsSection, TelemetrySection, home, locate};
use confirmd_api::Access;
use confirmd_api::server::ServerOptions;
use confirmd_core::{ConfigError, HumanDuration, Secret, SecretSource, parse_table};
use confirmd_postgres::{Schema, UrlSource};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A read configuration file. Relative paths in it are relative to the current folder.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// Where it was read from.
    pub path: PathBuf,
    text: String,
    /// `[state]`
    pub state: StateSection,
    /// `[api]`
    pub api: ApiSection,
    /// `[log]`
    pub log: LogSection,
    /// `[operations]`, its sink not yet built.
    pub operations: Option<OperationsSection>,
    /// `[telemetry]`, its secrets not yet read.
    pub telemetry: Option<TelemetrySection>,
    /// `[chains.NAME]`, not yet built.
    pub chains: BTreeMap<String, toml::Table>,
    /// `[sinks.NAME]`, not yet built.
    pub sinks: BTreeMap<String, toml::Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    state: Option<StateSection>,
    #[serde(default)]
    api: ApiSection,
    #[serde(default)]
    log: LogSection,
    operations: Option<OperationsSection>,
    telemetry: Option<TelemetrySection>,
    #[serde(default)]
    chains: BTreeMap<String, toml::Table>,
    #[serde(default)]
    sinks: BTreeMap<String, toml::Table>,
}

/// `[state]`: what is kept, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSection {
    /// The folder of the state, or, where the state is in PostgreSQL, of what this instance alone needs. One instance only. Required.
    #[serde(default)]
    pub path: PathBuf,
    /// Where the state is: in the folder, or in PostgreSQL, where several instances share it.
    #[serde(default)]
    pub backend: Backend,
    /// `postgres://user@host:port/database?sslmode=verify-full`, or `{ env = "NAME" }` or `{ file = "path" }`.
    pub url: Option<UrlSource>,
    /// The password, if the URL has none.
    pub password: Option<SecretSource>,
    /// Certificates (PEM) to trust instead of the public roots.
    pub ca_file: Option<PathBuf>,
    /// The schema that is the state's; `confirmd_state` if nothing is said.
    pub schema: Option<Schema>,
    /// A statement that is run for every event in the transaction that decides it; `$1` is the event's body as text.
    pub on_event: Option<String>,
    /// How long a delivery that is out is kept from other instances without a sign of life: 30s if nothing is said.
    pub lease: Option<HumanDuration>,
    /// How long event bodies and deposit records are kept. What decides is kept for ever.
    #[serde(default = "StateSection::default_history")]
    pub history: HumanDuration,
}

/// What keeps the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// sled, in a folder: one instance.
    #[default]
    Sled,
    /// PostgreSQL: any number of instances.
    Postgres,
}

impl StateSection {
    fn default_history() -> HumanDuration {
        HumanDuration(Duration::from_secs(90 * 24 * 3_600))
    }
}

/// `[api]`: what programs and people ask the instance by.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiSection {
    /// Beyond the loopback interface only with `admin_token`; port 0 takes any free one.
    #[serde(default = "ApiSection::default_listen")]
    pub listen: SocketAddr,
    /// May do everything. Once it or `read_token` is set, every request but `/healthz` and `/readyz` needs one.
    pub admin_token: Option<SecretSource>,
    /// May look at everything and change nothing.
    pub read_token: Option<SecretSource>,
    /// Requests answered a second, all askers together; twice as many at once.
    #[serde(default = "ApiSection::default_rate")]
    pub requests_per_second: NonZeroU32,
}

impl ApiSection {
    fn default_listen() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 8787))
    }

    fn default_rate() -> NonZeroU32 {
        ServerOptions::REQUESTS_PER_SECOND
    }

    /// Reads the tokens. Errors name the key.
    pub fn access(&self) -> Result<Access, ConfigError> {
        let admin = resolved("admin_token", self.admin_token.as_ref())?;
        let read = resolved("read_token", self.read_token.as_ref())?;
        Access::new(admin.as_ref(), read.as_ref()).map_err(|problem| ConfigError::new("api", problem))
    }

    /// The token a command of this machine shows: the admin's, or the reader's where the admin's can't be read here.
    pub fn token(&self) -> Result<Option<Secret>, ConfigError> {
        let admin = resolved("admin_token", self.admin_token.as_ref());
        match (admin, &self.read_token) {
            (Ok(Some(token)), _) => Ok(Some(token)),
            (Ok(None), None) => Ok(None),
            (Err(error), None) => Err(error),
            (_, Some(_)) => resolved("read_token", self.read_token.as_ref()),
        }
    }
}

impl Default for ApiSection {
    fn default() -> Self {
        Self { listen: Self::default_listen(), admin_token: None, read_token: None, requests_per_second: Self::default_rate() }
    }
}

fn resolved(key: &str, source: Option<&SecretSource>) -> Result<Option<Secret>, ConfigError> {
    source.map(SecretSource::resolve).transpose().map_err(|error| error.below(&format!("api.{key}")))
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `[log]`: what is logged to stderr, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSection {
    /// `text` or `json`; `--log-format` wins.
    #[serde(default)]
    pub format: LogFormat,
    /// A tracing filter, `info` or `warn,confirmd=debug`; the environment variable CONFIRMD_LOG wins.
    pub filter: Option<String>,
}

impl ConfigFile {
    /// Reads and checks the top level.
    pub fn read(path: &Path) -> Result<Self, ConfigFaults> {
        let fault = |line, error| ConfigFaults { file: path.to_owned(), faults: vec![ConfigFault { line, error }] };
        let text = std::fs::read_to_string(path).map_err(|error| {
            let remedy = match error.kind() {
                std::io::ErrorKind::NotFound => "; `confirmd init` writes one, `--config FILE` names another",
                _ => "",
            };
            fault(None, ConfigError::new("", format!("the configuration can't be read: {error}{remedy}")))
        })?;
        Self::parse(path, text)
    }

    /// Checks the top level of a text.
    pub fn parse(path: &Path, text: String) -> Result<Self, ConfigFaults> {
        let fault = |line, error| ConfigFaults { file: path.to_owned(), faults: vec![ConfigFault { line, error }] };
        let mut table: toml::Table = toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| locate::line_at(&text, span.start));
            // Only the message: the quoted line could hold a secret.
            fault(line, ConfigError::new("", format!("this is not TOML: {}", error.message())))
        })?;
        if let Some(home) = std::env::home_dir() {
            home::expand(&mut table, &home);
        }
        let located = |error: ConfigError| fault(locate::line_of(&text, &error.key), error);
        let sections: Sections = parse_table(table).map_err(located)?;
        let state = sections.state.filter(|state| !state.path.as_os_str().is_empty()).ok_or_else(|| {
            located(ConfigError::new(
                "state.path",
                "it is missing; write the folder of the state: [state] path = \"./confirmd-state\"",
            ))
        })?;
        confirmd_api::server::may_listen(sections.api.listen, sections.api.admin_token.is_some())
            .map_err(|error| located(ConfigError::new("api.listen", error.text)))?;
        SharedKeys::check(&state).map_err(located)?;
        if state.history.0.is_zero() {
            return Err(located(ConfigError::new("state.history", "0 would forget everything at once; write \"90d\", say")));
        }
        let Sections { api, log, operations, telemetry, chains, sinks, .. } = sections;
        Ok(Self { path: path.to_owned(), state, api, log, operations, telemetry, chains, sinks, text })
    }

    /// Puts the place in this file to errors.
    pub fn faults(&self, errors: Vec<ConfigError>) -> ConfigFaults {
        let locate = |error: ConfigError| ConfigFault { line: locate::line_of(&self.text, &error.key), error };
        ConfigFaults { file: self.path.clone(), faults: errors.into_iter().map(locate).collect() }
    }
}
