//! Time is given, never taken: everything that needs it asks a [`Clock`].

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Milliseconds since the Unix epoch. Wall-clock time: may jump, so nothing that decides money uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// From whole seconds, as block headers carry them.
    pub fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Whole seconds since the Unix epoch.
    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Later by `span`.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Earlier by `span`, not before the Unix epoch.
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to here; zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// From RFC 3339 with any offset; `None` if it is not that, or before 1970.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let at = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).ok()?;
        u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok().map(Self)
    }

    /// RFC 3339 in UTC with whole seconds: `2026-01-01T00:00:00Z`.
    pub fn to_rfc3339(self) -> String {
        let seconds = i64::try_from(self.seconds()).unwrap_or(i64::MAX);
        time::OffsetDateTime::from_unix_timestamp(seconds)
            .ok()
            .and_then(|at| at.format(&time::format_description::well_known::Rfc3339).ok())
            .unwrap_or_else(|| format!("unix:{seconds}"))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

/// Where the time comes from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_reads_as_rfc_3339_in_utc() {
        assert_eq!(Timestamp::from_seconds(1_767_225_600).to_rfc3339(), "2026-01-01T00:00:00Z");
        assert_eq!(Timestamp::from_rfc3339("2026-01-01T01:00:00+01:00"), Some(Timestamp::from_seconds(1_767_225_600)));
        assert_eq!(Timestamp::from_rfc3339("2026-01-01"), None);
    }
}
