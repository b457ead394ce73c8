//! The one time of a run: the runtime's paused clock on a fixed date, with jumps of the wall clock.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use confirmd_core::{Clock, Timestamp};
use tokio::time::Instant;

/// When every run begins: 2026-01-01.
const BEGINNING: Timestamp = Timestamp(1_767_225_600_000);

/// A wall clock that follows the runtime's and can be set wrong.
#[derive(Debug)]
pub(super) struct VirtualClock {
    start: Instant,
    /// How far it goes ahead now.
    ahead: Mutex<Duration>,
}

impl VirtualClock {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), ahead: Mutex::default() }
    }

    /// Sets the wall clock: so far ahead of the true time.
    pub(super) fn set_ahead(&self, ahead: Duration) {
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = ahead;
    }

    /// True time since the run began.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        BEGINNING.plus(self.start.elapsed()).plus(*self.ahead.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
