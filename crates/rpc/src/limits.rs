//! How much, how often and how long one endpoint is asked.

use confirmd_core::{ConfigError, HumanDuration};
use serde::Deserialize;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

/// For an endpoint elsewhere; providers' free plans need less, so operators set it.
const REQUESTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(50).expect("invariant: 50 is not zero");
/// For a node of one's own, which answers tens of thousands: a guard against a loop, not a quota.
const REQUESTS_PER_SECOND_NEARBY: NonZeroU32 = NonZeroU32::new(10_000).expect("invariant: 10,000 is not zero");
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
    /// Sustained requests per second. Each attempt takes one, a batch of n calls takes n. Default: 10,000 for an endpoint on
    /// this machine or in a private network (a loopback or private address, or a host name without a dot), else 50.
    pub requests_per_second: Option<NonZeroU32>,
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
            requests_per_second: None,
            burst: None,
            attempts: ATTEMPTS,
            deadline: HumanDuration(Duration::from_secs(30)),
            request_timeout: HumanDuration(Duration::from_secs(20)),
            response_bytes_max: RESPONSE_BYTES_MAX,
        }
    }
}

impl Limits {
    /// The rate in force; 50 where it is left open, see [`for_host`](Self::for_host).
    pub fn rate(&self) -> NonZeroU32 {
        self.requests_per_second.unwrap_or(REQUESTS_PER_SECOND)
    }

    /// The burst in force.
    pub fn burst(&self) -> NonZeroU32 {
        self.burst.unwrap_or(self.rate())
    }

    /// With the rate that holds for an endpoint on this host, where none is configured.
    #[must_use]
    pub(crate) fn for_host(&self, host: &str) -> Self {
        let nearby = if is_nearby(host) { REQUESTS_PER_SECOND_NEARBY } else { REQUESTS_PER_SECOND };
        Self { requests_per_second: Some(self.requests_per_second.unwrap_or(nearby)), ..self.clone() }
    }

    /// Refuses what no call could keep, and what no clock can count.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        for (key, value) in [("limits.deadline", self.deadline), ("limits.request_timeout", self.request_timeout)] {
            if value.0.is_zero() || value.0 > SPAN_MAX {
                let problem = format!("{value} is not between 1ms and {}; write for example \"30s\"", HumanDuration(SPAN_MAX));
                return Err(ConfigError::new(key, problem));
            }
        }
        for (key, value) in [("limits.requests_per_second", self.rate()), ("limits.burst", self.burst())] {
            if value.get() > RATE_MAX {
                return Err(ConfigError::new(key, format!("{value} is more than {RATE_MAX}; no node answers that many")));
            }
        }
        Ok(())
    }
}

/// On this machine or in a private network, as far as the name tells: nothing is looked up.
fn is_nearby(host: &str) -> bool {
    match host.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
        // A single label is a container or a machine of one's own.
        Err(_) => !host.is_empty() && !host.contains('.'),
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
    fn a_node_of_ones_own_is_not_throttled_and_a_provider_is() {
        let open = Limits::default();
        for own in ["127.0.0.1", "localhost", "bitcoind", "10.1.2.3", "192.168.0.9", "[::1]", "[fd00::7]"] {
            assert_eq!(open.for_host(own).rate().get(), 10_000, "{own}");
        }
        for other in ["node.example.org", "8.8.8.8", "[2001:db8::1]", ""] {
            assert_eq!(open.for_host(other).burst().get(), 50, "{other}");
        }
        let set: Limits = toml::from_str("requests_per_second = 7").unwrap();
        assert_eq!(set.for_host("localhost").rate().get(), 7);
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
