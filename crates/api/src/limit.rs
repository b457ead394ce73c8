//! How often may be asked.

use governor::clock::DefaultClock;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use std::num::NonZeroU32;

type Limiter = RateLimiter<NotKeyed, InMemoryState, DefaultClock>;

/// Wrong tokens answered a second, all askers together.
const FAILED_PER_SECOND: NonZeroU32 = NonZeroU32::new(5).expect("invariant: not zero");

/// The limits of one instance.
#[derive(Debug)]
pub(crate) struct Limits {
    asked: Limiter,
    failed: Limiter,
}

impl Limits {
    /// So many requests a second, twice as many at once.
    pub(crate) fn new(per_second: NonZeroU32) -> Self {
        let quota = Quota::per_second(per_second).allow_burst(per_second.saturating_mul(NonZeroU32::MIN.saturating_add(1)));
        Self { asked: RateLimiter::direct(quota), failed: RateLimiter::direct(Quota::per_second(FAILED_PER_SECOND)) }
    }

    /// Whether one more request may be answered.
    pub(crate) fn asked(&self) -> bool {
        self.asked.check().is_ok()
    }

    /// Whether one more wrong token may be told so.
    pub(crate) fn failed(&self) -> bool {
        self.failed.check().is_ok()
    }
}
