//! Chance, all of it from the seed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Shared by everything that asks in one order.
#[derive(Debug)]
pub(super) struct Dice(Mutex<fastrand::Rng>);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// From 0 to below `end`; 0 for 0.
    pub(super) fn below(&self, end: u64) -> u64 {
        self.with(|rng| rng.u64(0..end.max(1)))
    }

    /// From `low` to `high`, both included.
    pub(super) fn between(&self, low: u64, high: u64) -> u64 {
        self.with(|rng| rng.u64(low..=high.max(low)))
    }

    /// True in so many of a hundred cases.
    pub(super) fn percent(&self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Small mostly, large sometimes: up to 2^`bits`.
    pub(super) fn skewed(&self, bits: u64) -> u64 {
        let bits = u32::try_from(self.between(0, bits)).unwrap_or(0);
        self.between(1, 1u64.checked_shl(bits).unwrap_or(u64::MAX))
    }

    /// One of them.
    pub(super) fn pick<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        let index = self.below(u64::try_from(of.len()).unwrap_or(u64::MAX));
        of.get(usize::try_from(index).unwrap_or(0))
    }

    /// Up to so long, in whole milliseconds.
    pub(super) fn up_to_ms(&self, most_ms: u64) -> Duration {
        Duration::from_millis(self.between(0, most_ms))
    }

    fn with<T>(&self, ask: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        ask(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
