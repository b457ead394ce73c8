//! How much, how often and how long one endpoint is asked.

use confirmd_core::{ConfigError, HumanDuration};
use serde::Deserialize;
use std::num::NonZeroU32;
use std::time::Duration;

/// Enough for a self-hosted node; providers' free plans need less, so operators set it.
const REQUESTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(50).expect("invariant: 50 is not zero");
const ATTEMPTS: NonZeroU32 = NonZeroU32::new(5).expect("invariant: 5 is not zero");
/// A full Bitcoin block in hex is 8 MB, the receipts of a full EVM block are 10-30 MB; the rest is margin.
const RESPONSE_BYTES_MAX: NonZeroU32 = NonZeroU32::new(128 * 1024 * 1024).expect("invariant: 128 MiB is not zero");

/// A call that takes longer than this is not a call any more.
pub(crate) const SPAN_MAX: Duration = Duration::from_secs(24 * 3600);
/// The limiter counts in nanoseconds; this leaves it a thousand between two requests.
const RATE_MAX: u32 = 1_000_000;

/// The bounds of every call, per endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Sustained requests per second. Each attempt takes one, a batch of n calls takes n. Default 50.
    pub requests_per_second: NonZeroU32,
    /// Requests that may be sent at once after a pause. Default: as many as `requests_per_second`.
    pub burst: Option<NonZeroU32>,
    /// Attempts per call, the first one included. A call may get one more after the cookie file was read again, and one
    /// more to read an undecodable answer a second time. Default 5.
    pub attempts: NonZeroU32,
    /// The longest a call may take in all: attempts, pauses and the wait for a permit. Default 30s.
    pub deadline: HumanDuration,
    /// The longest a single attempt may take. Default 20s.
    pub request_timeout: HumanDuration,
    /// The largest answer that is read, in bytes; a batch counts as one answer. Default 128 MiB.
    pub response_bytes_max: NonZeroU32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_per_second: REQUESTS_PER_SECOND,
            burst: None,
            attempts: ATTEMPTS,
            deadline: HumanDuration(Duration::from_secs(30)),
            request_timeout: HumanDuration(Duration::from_secs(20)),
            response_bytes_max: RESPONSE_BYTES_MAX,
        }
    }
}

impl Limits {
    /// The burst in force.
    pub fn burst(&self) -> NonZeroU32 {
        self.burst.unwrap_or(self.requests_per_second)
    }

    /// Refuses what no call could keep, and what no clock can count.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        for (key, value) in [("limits.deadline", self.deadline), ("limits.request_timeout", self.request_timeout)] {
            if value.0.is_zero() || value.0 > SPAN_MAX {
                let problem = format!("{value} is not between 1ms and {}; write for example \"30s\"", HumanDuration(SPAN_MAX));
                return Err(ConfigError::new(key, problem));
            }
        }
        for (key, value) in [("limits.requests_per_second", self.requests_per_second), ("limits.burst", self.burst())] {
            if value.get() > RATE_MAX {
                return Err(ConfigError::new(key, format!("{value} is more than {RATE_MAX}; no node answers that many")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn limits_have_defaults_and_the_burst_follows_the_rate() {
        let limits: Limits = toml::from_str("requests_per_second = 7\ndeadline = '2m'").unwrap();
        assert_eq!(limits.burst().get(), 7);
        assert_eq!(limits.attempts.get(), 5);
        assert_eq!(limits.deadline.0, Duration::from_secs(120));
        assert_eq!(limits.response_bytes_max.get(), 134_217_728);
    }

    #[test]
    fn zero_and_unknown_limits_are_refused() {
        for bad in ["requests_per_second = 0", "attempts = 0", "burst = 0", "rps = 5"] {
            assert!(toml::from_str::<Limits>(bad).is_err(), "{bad} was accepted");
        }
        for (bad, key) in [
            ("deadline = '0s'", "limits.deadline"),
            ("request_timeout = '400d'", "limits.request_timeout"),
            ("requests_per_second = 4000000000", "limits.requests_per_second"),
            ("burst = 1000001", "limits.burst"),
        ] {
            assert_eq!(toml::from_str::<Limits>(bad).unwrap().check().unwrap_err().key, key);
        }
    }
}
