//! What a source counts of its own requests, for whoever shows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counters of one chain's requests since the start. A clone counts into the same; a source that counts nothing leaves them at zero.
#[derive(Debug, Clone, Default)]
pub struct SourceMeter(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    answered: AtomicU64,
    failed: AtomicU64,
    throttled: AtomicU64,
    waited_us: AtomicU64,
    /// 0: none was said.
    limit_per_second: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceCounts {
    /// Requests that were answered; an error of the node about a call is an answer.
    pub answered: u64,
    /// Requests without an answer that can be used: time-outs, lost connections, refusals, damaged answers.
    pub failed: u64,
    /// Requests the node refused because there were too many.
    pub throttled: u64,
    /// How long requests waited for our own rate limit and for pauses the node asked for, added up.
    pub waited: Duration,
    /// Our own limit, in calls a second for each endpoint (a batch takes as many as it holds); `None` if the source has none.
    pub limit_per_second: Option<u64>,
}

impl SourceMeter {
    /// A request was answered.
    pub fn answered(&self) {
        self.0.answered.fetch_add(1, Relaxed);
    }

    /// A request failed.
    pub fn failed(&self) {
        self.0.failed.fetch_add(1, Relaxed);
    }

    /// A request was refused because there were too many.
    pub fn throttled(&self) {
        self.0.throttled.fetch_add(1, Relaxed);
    }

    /// A request waited so long before it could be sent.
    pub fn waited(&self, time: Duration) {
        self.0.waited_us.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// The source keeps to so many calls a second.
    pub fn limited_to(&self, per_second: u64) {
        self.0.limit_per_second.store(per_second, Relaxed);
    }

    /// What was counted so far.
    pub fn counts(&self) -> SourceCounts {
        let counters = &self.0;
        SourceCounts {
            answered: counters.answered.load(Relaxed),
            failed: counters.failed.load(Relaxed),
            throttled: counters.throttled.load(Relaxed),
            waited: Duration::from_micros(counters.waited_us.load(Relaxed)),
            limit_per_second: Some(counters.limit_per_second.load(Relaxed)).filter(|limit| *limit > 0),
        }
    }
}
