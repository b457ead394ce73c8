//! A server's URL: in the configuration, or where it is kept because it carries a password.

use confirmd_core::{ConfigError, SecretSource};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// A URL that stands in the configuration, or where it is kept because it carries a password.
#[derive(Clone, PartialEq, Eq)]
pub enum UrlSource {
    /// In the configuration; must not carry a password.
    Literal(String),
    /// In the environment or a file.
    Kept(SecretSource),
}

impl UrlSource {
    /// The text. Errors never repeat it.
    pub fn resolve(&self) -> Result<String, ConfigError> {
        let text = match self {
            Self::Kept(source) => return source.resolve().map(|secret| secret.expose().to_owned()),
            Self::Literal(text) => text,
        };
        let parsed = url::Url::parse(text).ok();
        let in_query = parsed.as_ref().is_some_and(|url| url.query_pairs().any(|(key, _)| key == "password"));
        if parsed.as_ref().is_some_and(|url| url.password().is_some()) || in_query {
            let problem = "a password must not stand in the configuration; keep it in `password = { env = \"NAME\" }`, or the whole url in { env = \"NAME\" } or { file = \"path\" }";
            return Err(ConfigError::new("", problem));
        }
        Ok(text.clone())
    }
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
        const WANTED: &str = "write \"postgres://user@host/database\", { env = \"NAME\" } or { file = \"path\" }";
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self::Literal(text)),
            table @ toml::Value::Table(_) => {
                SecretSource::deserialize(table).map(Self::Kept).map_err(|_| serde::de::Error::custom(WANTED))
            }
            _ => Err(serde::de::Error::custom(WANTED)),
        }
    }
}
