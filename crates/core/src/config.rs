//! What is wrong with a configuration, and the one way a plug-in reads its part of it.

use serde::de::DeserializeOwned;

/// A mistake in the configuration: where, what, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct ConfigError {
    /// The key's path: `chains.bitcoin.rpc[0].url`.
    pub key: String,
    /// What is wrong with the value and what to write instead. Never a secret's content.
    pub problem: String,
}

impl ConfigError {
    /// A problem at a key.
    pub fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }

    /// The same problem seen from outside: `key` below `parent`.
    #[must_use]
    pub fn below(self, parent: &str) -> Self {
        let key = match self.key.as_str() {
            "" | "." => parent.to_owned(),
            key if key.starts_with('[') => format!("{parent}{key}"),
            key => format!("{parent}.{key}"),
        };
        Self { key, problem: self.problem }
    }
}

/// Reads a plug-in's table into its own type. Use `#[serde(deny_unknown_fields)]` on that type.
/// An error names the key's path within the table.
pub fn parse_table<T: DeserializeOwned>(table: toml::Table) -> Result<T, ConfigError> {
    serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|error| {
        let key = error.path().to_string();
        let key = if key == "." { String::new() } else { key };
        // The message alone: what toml's Display adds repeats the key.
        ConfigError { key, problem: error.into_inner().message().trim().to_owned() }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        #[allow(dead_code)]
        rpc: Vec<Endpoint>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Endpoint {
        #[allow(dead_code)]
        port: u16,
    }

    #[test]
    fn an_error_names_the_path_of_the_key() {
        let table: toml::Table = "rpc = [{ port = 1 }, { port = 'x' }]".parse().unwrap();
        let error = parse_table::<Part>(table).unwrap_err().below("chains.bitcoin");
        assert_eq!(error.key, "chains.bitcoin.rpc[1].port");
        let table: toml::Table = "rpc = []\nrcp = 1".parse().unwrap();
        assert!(parse_table::<Part>(table).unwrap_err().to_string().contains("rcp"));
    }
}
