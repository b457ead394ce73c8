//! Secrets: named in the configuration, read from the environment or a file, never shown.

use crate::ConfigError;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::PathBuf;

/// A secret's content. Has no Debug or Display output and can't be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the content over.
    pub fn new(content: impl Into<String>) -> Self {
        Self(content.into())
    }

    /// The content; for the place that sends or compares it, nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Where a secret is: `{ env = "NAME" }` or `{ file = "path" }`. A literal in the configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable.
    Env(String),
    /// A file; one trailing line break is not part of the secret.
    File(PathBuf),
}

impl SecretSource {
    /// Reads the secret. Errors name the variable or file, never the content.
    pub fn resolve(&self) -> Result<Secret, ConfigError> {
        let content = match self {
            Self::Env(name) => std::env::var(name).map_err(|_| {
                ConfigError::new(
                    "",
                    format!("the environment variable {name} is not set or not UTF-8; export it before the start"),
                )
            })?,
            Self::File(path) => std::fs::read_to_string(path)
                .map_err(|error| ConfigError::new("", format!("the file {} can't be read: {error}", path.display())))?,
        };
        let content = content.strip_suffix('\n').map(|c| c.strip_suffix('\r').unwrap_or(c)).unwrap_or(&content);
        if content.is_empty() {
            return Err(ConfigError::new("", format!("the secret from {self} is empty")));
        }
        Ok(Secret::new(content))
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for SecretSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Table {
                env: Option<String>,
                file: Option<PathBuf>,
            },
            // The literal itself is dropped unread: it must not reach an error message.
            #[allow(dead_code)]
            Literal(serde::de::IgnoredAny),
        }
        match Written::deserialize(deserializer)? {
            Written::Table { env: Some(name), file: None } => Ok(Self::Env(name)),
            Written::Table { env: None, file: Some(path) } => Ok(Self::File(path)),
            Written::Table { .. } => {
                Err(serde::de::Error::custom("a secret names one source: { env = \"NAME\" } or { file = \"path\" }"))
            }
            Written::Literal(_) => Err(serde::de::Error::custom(
                "a secret must not stand in the configuration; write { env = \"NAME\" } or { file = \"path\" } instead",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Holder {
        secret: SecretSource,
    }

    #[test]
    fn a_literal_secret_is_refused_with_the_way_to_do_it_and_without_its_content() {
        let error = toml::from_str::<Holder>("secret = 'hunter2'").unwrap_err().message().to_owned();
        assert!(error.contains("env =") && error.contains("file ="), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_secret_file_loses_its_last_line_break_and_shows_nothing_in_debug() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2\n").unwrap();
        let holder: Holder = toml::from_str(&format!("secret = {{ file = {:?} }}", file.path())).unwrap();
        let secret = holder.secret.resolve().unwrap();
        assert_eq!(secret.expose(), "hunter2");
        assert!(!format!("{secret:?}{holder:?}").contains("hunter2"));
    }

    #[test]
    fn a_missing_variable_is_named() {
        let source = SecretSource::Env("CONFIRMD_TEST_NOT_SET".into());
        assert!(source.resolve().unwrap_err().to_string().contains("CONFIRMD_TEST_NOT_SET"));
    }
}
