//! The name of a schema: safe to stand in a statement.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A schema's name: 1 to 63 of `[a-z0-9_]`, not beginning with a digit or `pg_`. Needs no quoting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Schema(String);

impl Schema {
    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A statement in which `{schema}` stands for this name.
    pub fn in_sql(&self, sql: &str) -> String {
        sql.replace("{schema}", &self.0)
    }
}

impl TryFrom<String> for Schema {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let legal = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        let begins = text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        if legal && begins && text.len() <= 63 && !text.starts_with("pg_") {
            return Ok(Self(text));
        }
        Err(format!("{text:?} is not a schema's name: 1 to 63 of [a-z0-9_], not beginning with a digit or pg_"))
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_that_would_need_quoting_is_refused() {
        for good in ["confirmd", "_x", "a1"] {
            Schema::try_from(good.to_owned()).unwrap();
        }
        for bad in ["", "1a", "a b", "A", "a\"b", "a;drop", "pg_mine", &"a".repeat(64)] {
            Schema::try_from(bad.to_owned()).unwrap_err();
        }
    }
}
