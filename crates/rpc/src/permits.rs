//! Permission to send: the rate limit of one endpoint, and the pauses its node asks for.

use crate::failure::Failure;
use crate::limits::Limits;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// The runtime's clock for the limiter, so that tests which own the runtime's time own the limiter's, too.
#[derive(Debug, Clone)]
struct RuntimeClock {
    base: Instant,
}

impl Clock for RuntimeClock {
    type Instant = Duration;
    fn now(&self) -> Duration {
        self.base.elapsed()
    }
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Duration>>;

pub(crate) struct Permits {
    limiter: Limiter,
    clock: RuntimeClock,
    burst: NonZeroU32,
    /// One waits at the limiter, the others in line behind it: first come, first served.
    line: Semaphore,
    paused_until: Mutex<Option<Instant>>,
    taken: AtomicU64,
}

impl Permits {
    pub(crate) fn new(limits: &Limits) -> Self {
        let clock = RuntimeClock { base: Instant::now() };
        let quota = Quota::per_second(limits.rate()).allow_burst(limits.burst());
        Self {
            limiter: RateLimiter::direct_with_clock(quota, clock.clone()),
            clock,
            burst: limits.burst(),
            line: Semaphore::new(1),
            paused_until: Mutex::new(None),
            taken: AtomicU64::new(0),
        }
    }

    /// Permits taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Nothing is sent before `until`: the node said so.
    pub(crate) fn pause(&self, until: Instant) {
        let mut paused = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        *paused = (*paused).max(Some(until));
    }

    /// Takes `n` permits, waiting for them until `deadline`. More than the burst are taken in portions of it. If it is
    /// clear that the deadline can't be met, fails at once.
    pub(crate) async fn take(&self, n: u32, deadline: Instant) -> Result<(), Failure> {
        let no_room = |_| Failure::NoPermit(Duration::ZERO);
        let _turn =
            timeout_at(deadline, self.line.acquire()).await.map_err(no_room)?.expect("invariant: the line is never closed");
        self.wait_out_pause(deadline).await?;
        let mut left = n;
        while let Some(portion) = NonZeroU32::new(left.min(self.burst.get())) {
            self.take_portion(portion, deadline).await?;
            left -= portion.get();
            self.taken.fetch_add(u64::from(portion.get()), Relaxed);
        }
        Ok(())
    }

    async fn wait_out_pause(&self, deadline: Instant) -> Result<(), Failure> {
        let paused = *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        match paused {
            Some(until) if until > deadline => Err(Failure::Paused(until.duration_since(Instant::now()))),
            Some(until) => {
                sleep_until(until).await;
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn take_portion(&self, portion: NonZeroU32, deadline: Instant) -> Result<(), Failure> {
        loop {
            let wait = match self.limiter.check_n(portion).expect("invariant: a portion is at most the burst") {
                Ok(()) => return Ok(()),
                Err(not_until) => not_until.wait_time_from(self.clock.now()),
            };
            if Instant::now() + wait > deadline {
                return Err(Failure::NoPermit(wait));
            }
            // The timer counts whole milliseconds; never spin on a shorter wait.
            sleep(wait.max(Duration::from_millis(1))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn permits(per_second: u32, burst: u32) -> Permits {
        let limits =
            Limits { requests_per_second: NonZeroU32::new(per_second), burst: NonZeroU32::new(burst), ..Limits::default() };
        Permits::new(&limits)
    }

    fn in_seconds(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_burst_permits_come_at_the_configured_rate() {
        let permits = permits(10, 5);
        let start = Instant::now();
        for _ in 0..25 {
            permits.take(1, in_seconds(60)).await.unwrap();
        }
        assert_eq!(start.elapsed().as_millis() / 100, 20, "20 permits after the burst of 5, 10 a second");
        assert_eq!(permits.taken(), 25);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_larger_than_the_burst_waits_for_all_its_permits() {
        let permits = permits(10, 5);
        let start = Instant::now();
        permits.take(15, in_seconds(60)).await.unwrap();
        assert_eq!(start.elapsed().as_millis() / 100, 10);
        assert_eq!(permits.taken(), 15);
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_that_comes_after_the_deadline_is_refused_at_once() {
        let permits = permits(1, 1);
        permits.take(1, in_seconds(5)).await.unwrap();
        let start = Instant::now();
        assert!(matches!(permits.take(9, in_seconds(5)).await, Err(Failure::NoPermit(_))));
        assert!(start.elapsed() <= Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_passes_during_a_pause() {
        let permits = permits(10, 10);
        permits.pause(in_seconds(7));
        permits.pause(in_seconds(3));
        assert_eq!(permits.take(1, in_seconds(5)).await, Err(Failure::Paused(Duration::from_secs(7))));
        let start = Instant::now();
        permits.take(1, in_seconds(8)).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 7);
    }
}
