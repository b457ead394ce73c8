//! What is counted per endpoint.

use crate::failure::Failure;
use crate::redact::RedactedUrl;
use confirmd_core::SourceMeter;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One endpoint's counters since the start. Free of secrets: made for metrics and the health page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndpointHealth {
    /// Scheme, host and port.
    pub url: String,
    /// The endpoint that is read from now.
    pub active: bool,
    /// Attempts that were sent. A batch counts once.
    pub requests: u64,
    /// Attempts that failed; an error of the node about a call is an answer, not a failure.
    pub failures: u64,
    /// Attempts beyond the first of their call.
    pub retries: u64,
    /// Failures in which the node asked us to slow down.
    pub throttled: u64,
    /// Permits taken from the rate limit: one per call in an attempt.
    pub permits: u64,
    /// Bytes of answers read.
    pub bytes_received: u64,
    /// Failures since the last success.
    pub failures_in_a_row: u64,
    /// The newest failure's text, kept until the next success.
    pub last_error: Option<String>,
}

#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) requests: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    failures: AtomicU64,
    retries: AtomicU64,
    throttled: AtomicU64,
    failures_in_a_row: AtomicU64,
    last_error: Mutex<Option<String>>,
    meter: SourceMeter,
}

impl Stats {
    pub(crate) fn counting_into(meter: SourceMeter) -> Self {
        Self { meter, ..Self::default() }
    }

    /// A request had to wait so long for its permits.
    pub(crate) fn waited(&self, time: Duration) {
        self.meter.waited(time);
    }

    pub(crate) fn answered(&self) {
        self.meter.answered();
        self.failures_in_a_row.store(0, Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn failed(&self, failure: &Failure) {
        self.failures.fetch_add(1, Relaxed);
        self.failures_in_a_row.fetch_add(1, Relaxed);
        if failure.is_throttle() {
            self.throttled.fetch_add(1, Relaxed);
            self.meter.throttled();
        } else {
            self.meter.failed();
        }
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.to_string());
    }

    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    pub(crate) fn snapshot(&self, url: &RedactedUrl, active: bool, permits: u64) -> EndpointHealth {
        EndpointHealth {
            url: url.to_string(),
            active,
            requests: self.requests.load(Relaxed),
            failures: self.failures.load(Relaxed),
            retries: self.retries.load(Relaxed),
            throttled: self.throttled.load(Relaxed),
            permits,
            bytes_received: self.bytes_received.load(Relaxed),
            failures_in_a_row: self.failures_in_a_row.load(Relaxed),
            last_error: self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
