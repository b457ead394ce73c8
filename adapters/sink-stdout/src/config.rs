//! The keys of `[sinks.NAME]` with `kind = "stdout"`.

use confirmd_core::{ConfigError, HumanDuration};
use serde::Deserialize;
use std::time::Duration;

/// The sink's own keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StdoutConfig {
    /// How long one call may take altogether; a reader that stopped reading blocks the pipe. Default 15 s.
    #[serde(default = "default_timeout")]
    pub timeout: HumanDuration,
}

impl Default for StdoutConfig {
    fn default() -> Self {
        Self { timeout: default_timeout() }
    }
}

impl StdoutConfig {
    /// The total deadline of one call; zero is refused.
    pub(crate) fn deadline(&self) -> Result<Duration, ConfigError> {
        match self.timeout.0 {
            Duration::ZERO => Err(ConfigError::new("timeout", "must be above zero, as in \"15s\"")),
            timeout => Ok(timeout),
        }
    }
}

fn default_timeout() -> HumanDuration {
    HumanDuration(Duration::from_secs(15))
}
