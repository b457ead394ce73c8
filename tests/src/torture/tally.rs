//! What a torture run counted.

use std::fmt;
use std::ops::AddAssign;

/// The counts of one or many runs; the last four must be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Ticks of any chain.
    pub ticks: u64,
    /// Reorgs made.
    pub reorgs: u64,
    /// Crashes and restarts of the instance.
    pub crashes: u64,
    /// Deliveries the receivers were handed, repetitions included.
    pub deliveries: u64,
    /// Deposits that a consumer's ledger lacks at the end.
    pub lost: u64,
    /// Deposits credited more than once.
    pub duplicated: u64,
    /// Deposits still credited whose block left the best chain.
    pub unreverted: u64,
    /// Events of a key that came before an earlier one was accepted.
    pub out_of_order: u64,
}

impl Tally {
    /// Whether every guarantee held.
    pub fn holds(&self) -> bool {
        [self.lost, self.duplicated, self.unreverted, self.out_of_order].iter().all(|count| *count == 0)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.ticks += other.ticks;
        self.reorgs += other.reorgs;
        self.crashes += other.crashes;
        self.deliveries += other.deliveries;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.unreverted += other.unreverted;
        self.out_of_order += other.out_of_order;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ticks, {} reorgs, {} crashes, {} deliveries: lost {}, duplicated {}, unreverted {}, out of order {}",
            self.ticks,
            self.reorgs,
            self.crashes,
            self.deliveries,
            self.lost,
            self.duplicated,
            self.unreverted,
            self.out_of_order
        )
    }
}
