//! Medians, ratios and goals, in whole hundredths.

use std::fmt;

/// The middle value, the upper one of two; 0 of none.
pub fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The value that so many hundredths of the values don't exceed; 0 of none.
pub fn percentile(mut values: Vec<u64>, hundredths: usize) -> u64 {
    values.sort_unstable();
    let place = (values.len() * hundredths).div_ceil(100).saturating_sub(1);
    values.get(place).copied().unwrap_or_default()
}

/// How many times one measurement is another, in hundredths, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(pub u64);

impl Ratio {
    /// `measured` in units of `base`.
    pub fn of(measured: u64, base: u64) -> Self {
        Self(measured.saturating_mul(100).div_ceil(base.max(1)))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}x", self.0 / 100, self.0 % 100)
    }
}

/// Prints one ratio beside its goal. Returns whether the goal was reached.
pub fn judge(what: &str, ratio: Ratio, goal: Ratio) -> bool {
    let reached = ratio <= goal;
    println!("{what}: {ratio} (goal {goal}){}", if reached { "" } else { "  MISSED" });
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_rounded_against_the_goal() {
        assert_eq!(Ratio::of(130, 100), Ratio(130));
        assert_eq!(Ratio::of(1_301, 1_000), Ratio(131));
        assert_eq!(Ratio::of(1, 0).to_string(), "1.00x");
        assert_eq!(Ratio(1_007).to_string(), "10.07x");
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        assert_eq!(percentile((1..=100).collect(), 99), 99);
        assert_eq!(percentile((1..=40).collect(), 99), 40);
        assert_eq!(percentile(Vec::new(), 50), 0);
    }

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(vec![9, 1, 5]), 5);
        assert_eq!(median(Vec::new()), 0);
    }
}
