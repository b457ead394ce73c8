//! When a failed delivery is tried again.

use std::time::Duration;

/// Delays after each failed attempt, and how much chance moves them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrySchedule {
    /// After the first failure, the second, …; behind the last one the delivery is a dead letter.
    pub delays: Vec<Duration>,
    /// Each delay is moved by up to so many percent either way.
    pub jitter_percent: u32,
}

impl Default for RetrySchedule {
    /// 9 attempts over about 45 hours: an endpoint may be down over a weekend day and a person still has a day to act.
    fn default() -> Self {
        let minutes = |m: u64| Duration::from_secs(m * 60);
        let hours = |h: u64| Duration::from_secs(h * 3600);
        let delays =
            vec![Duration::from_secs(30), minutes(2), minutes(10), minutes(30), hours(2), hours(6), hours(12), hours(24)];
        Self { delays, jitter_percent: 20 }
    }
}

impl RetrySchedule {
    /// The delay after the `attempt`-th failed attempt (from 1); `None` when it was the last. `chance` is any random number.
    pub fn after(&self, attempt: u32, chance: u64) -> Option<Duration> {
        let index = usize::try_from(attempt.checked_sub(1)?).ok()?;
        let delay = *self.delays.get(index)?;
        let span = u128::from(self.jitter_percent.min(100)) * 2;
        // A whole number of thousandths between -jitter and +jitter.
        let moved = u128::from(chance) % (span * 10 + 1);
        let permille = 1000 + moved - span * 5;
        let millis = delay.as_millis() * permille / 1000;
        Some(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_nine_attempts_over_about_45_hours() {
        let schedule = RetrySchedule::default();
        let total: Duration = schedule.delays.iter().sum();
        assert_eq!(schedule.delays.len() + 1, 9);
        assert_eq!(total.as_secs() / 3600, 44);
        assert!(schedule.after(8, 0).is_some());
        assert!(schedule.after(9, 0).is_none());
    }

    #[test]
    fn jitter_stays_within_its_percentage() {
        let schedule = RetrySchedule::default();
        for chance in 0..2000 {
            let delay = schedule.after(1, chance).map_or(0, |d| d.as_millis());
            assert!((24_000..=36_000).contains(&delay), "{delay} ms");
        }
        assert_eq!(schedule.after(1, 0).map(|d| d.as_millis()), Some(24_000));
        assert_eq!(schedule.after(1, 400).map(|d| d.as_millis()), Some(36_000));
    }
}
