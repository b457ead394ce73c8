//! The keys of `[sinks.NAME]` with `kind = "file"`.

use confirmd_core::{ConfigError, HumanDuration};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// The sink's own keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileConfig {
    /// The file to append to. It is created if it is missing; its directory is not. A relative path starts at the
    /// working directory.
    pub path: PathBuf,
    /// How long one append and its sync may take; a disk or network mount may hang. Default 15 s.
    #[serde(default = "default_timeout")]
    pub timeout: HumanDuration,
}

impl FileConfig {
    /// Refuses what can never work.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.path.file_name().is_none() {
            return Err(ConfigError::new(
                "path",
                format!("{:?} names no file; write one, as in \"./deposits.jsonl\"", self.path),
            ));
        }
        if self.path.starts_with("~") {
            return Err(ConfigError::new("path", format!("{:?}: ~ is not expanded here; write the whole path", self.path)));
        }
        if self.timeout.0.is_zero() {
            return Err(ConfigError::new("timeout", "must be above zero, as in \"15s\""));
        }
        Ok(())
    }
}

fn default_timeout() -> HumanDuration {
    HumanDuration(Duration::from_secs(15))
}
