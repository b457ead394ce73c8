//! Everything that a round decides by chance, from its seed.

use std::time::Duration;

/// A seeded source of decisions. One per actor: so what each does depends on its seed alone, not on who was first.
#[derive(Debug)]
pub(super) struct Dice(fastrand::Rng);

impl Dice {
    /// The dice of one actor of a round.
    pub(super) fn of(round: u64, actor: u64) -> Self {
        // Neighbouring seeds give unrelated sequences: the generator mixes its seed.
        Self(fastrand::Rng::with_seed(round.wrapping_mul(1_000_003).wrapping_add(actor)))
    }

    /// A number of `low..=high`.
    pub(super) fn number(&mut self, low: u64, high: u64) -> u64 {
        self.0.u64(low..=high)
    }

    /// True in `times` of `of` cases.
    pub(super) fn chance(&mut self, times: u64, of: u64) -> bool {
        self.0.u64(0..of) < times
    }

    /// One of a list that is not empty.
    pub(super) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        self.0.choice(list).expect("invariant: the lists to pick from are not empty")
    }

    /// A time of `low..=high` milliseconds.
    pub(super) fn time(&mut self, low_ms: u64, high_ms: u64) -> Duration {
        Duration::from_millis(self.number(low_ms, high_ms))
    }

    /// Waits for a time of `low..=high` milliseconds: the schedule of what the actor does, never a wait for a result.
    pub(super) async fn pause(&mut self, low_ms: u64, high_ms: u64) {
        let time = self.time(low_ms, high_ms);
        tokio::time::sleep(time).await;
    }
}
