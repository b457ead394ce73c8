//! The keys of `[sinks.NAME]` with `kind = "webhook"`.

use crate::Cidr;
use confirmd_core::{ConfigError, HumanDuration, SecretSource};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// Calls at a time: each holds a connection, so far more than this is a mistake.
const CONCURRENCY_MAX: usize = 1024;
/// A longer deadline would hold a slot of the pump for as long.
const TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// The sink's own keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// Where to post to: `http` or `https`.
    pub url: UrlSource,
    /// Signs every attempt: `whsec_` and base64.
    pub secret: SecretSource,
    /// Signs as well while the receiver changes over from it.
    pub secret_previous: Option<SecretSource>,
    /// One deadline over connecting, sending and reading the answer. Default 15 s, at most 10 minutes.
    #[serde(default = "default_timeout")]
    pub timeout: HumanDuration,
    /// Attempts at a time, of different keys. Default 16, at most 1024.
    #[serde(default = "default_concurrency")]
    pub concurrency: NonZeroUsize,
    /// Private networks the receiver may be in. Default none.
    #[serde(default)]
    pub allow_private: Vec<Cidr>,
    /// Certificates (PEM) to trust instead of the public roots.
    pub ca_file: Option<PathBuf>,
}

impl WebhookConfig {
    /// Refuses what a type can't.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.timeout.0.is_zero() || self.timeout.0 > TIMEOUT_MAX {
            return Err(ConfigError::new("timeout", format!("{}: must be above zero and at most 10m", self.timeout)));
        }
        if self.concurrency.get() > CONCURRENCY_MAX {
            return Err(ConfigError::new("concurrency", format!("{}: at most {CONCURRENCY_MAX}", self.concurrency)));
        }
        Ok(())
    }
}

fn default_timeout() -> HumanDuration {
    HumanDuration(Duration::from_secs(15))
}

fn default_concurrency() -> NonZeroUsize {
    NonZeroUsize::new(16).expect("invariant: 16 is not zero")
}

/// A URL that stands in the configuration, or where it is kept because it carries a key.
#[derive(Clone, PartialEq, Eq)]
pub enum UrlSource {
    /// In the configuration; must not carry user info.
    Literal(String),
    /// In the environment or a file.
    Kept(SecretSource),
}

impl fmt::Debug for UrlSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("Literal(…)"),
            Self::Kept(source) => f.debug_tuple("Kept").field(source).finish(),
        }
    }
}

impl<'de> Deserialize<'de> for UrlSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self::Literal(text)),
            table @ toml::Value::Table(_) => SecretSource::deserialize(table)
                .map(Self::Kept)
                .map_err(|_| serde::de::Error::custom("write \"https://...\", { env = \"NAME\" } or { file = \"path\" }")),
            _ => Err(serde::de::Error::custom("write \"https://...\", { env = \"NAME\" } or { file = \"path\" }")),
        }
    }
}
