//! The table, and which goals it reaches.

use super::figure::Figure;
use crate::ratio::Ratio;

/// What became of a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Measured and reached.
    Met,
    /// Measured and missed.
    Missed,
    /// Not measured by this run, with the reason; counts as not met.
    NotMeasured(String),
}

/// One goal and what was found.
#[derive(Debug, Clone)]
pub struct Goal {
    /// `B1` to `B12`.
    pub name: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// The figures that decide it, one clause each.
    pub clauses: Vec<String>,
}

impl Goal {
    /// A goal that no clause has missed yet.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, outcome: Outcome::Met, clauses: Vec::new() }
    }

    /// A goal that this run says nothing about.
    #[must_use]
    pub fn not_measured(name: &'static str, why: &str) -> Self {
        Self { name, outcome: Outcome::NotMeasured(why.to_owned()), clauses: Vec::new() }
    }

    /// At most `most` of something.
    #[must_use]
    pub fn at_most(self, what: &str, found: u64, most: u64, unit: &str) -> Self {
        self.clause(found <= most, format!("{what} {found} {unit} (at most {most})"))
    }

    /// A ratio of at most `most` hundredths.
    #[must_use]
    pub fn ratio(self, what: &str, found: u64, base: u64, most: u64) -> Self {
        let ratio = Ratio::of(found, base);
        self.clause(ratio.0 <= most, format!("{what} {ratio} (at most {})", Ratio(most)))
    }

    /// Whatever else must hold.
    #[must_use]
    pub fn clause(mut self, met: bool, text: String) -> Self {
        if !met && self.outcome == Outcome::Met {
            self.outcome = Outcome::Missed;
        }
        self.clauses.push(if met { text } else { format!("{text} MISSED") });
        self
    }

    /// At least `least` hundredths.
    #[must_use]
    pub fn at_least_ratio(self, what: &str, found: u64, base: u64, least: u64) -> Self {
        // Rounded down: against the goal.
        let ratio = Ratio(found.saturating_mul(100) / base.max(1));
        self.clause(ratio.0 >= least, format!("{what} {ratio} (at least {})", Ratio(least)))
    }

    /// Something to know that decides nothing.
    #[must_use]
    pub fn note(self, text: String) -> Self {
        self.clause(true, text)
    }

    /// A part of the goal that this run can't judge: it is not met then.
    #[must_use]
    pub fn lacks(mut self, why: &str) -> Self {
        if self.outcome == Outcome::Met {
            self.outcome = Outcome::NotMeasured(why.to_owned());
        }
        self.clauses.push(why.to_owned());
        self
    }
}

/// Prints the head of the table.
pub fn print_head() {
    println!(
        "{:<44} {:>9} {:>11} {:>9} {:>9} {:>9} {:>9}",
        "run", "wall ms", "client ms", "node ms", "requests", "peak kB", "payments"
    );
}

/// Prints one line of the table; 0 stands for what was not asked.
pub fn print(name: &str, figure: &Figure) {
    println!(
        "{name:<44} {:>9} {:>11} {:>9} {:>9} {:>9} {:>9}",
        figure.wall_ms, figure.client_ms, figure.node_ms, figure.requests, figure.peak_kb, figure.found
    );
}

/// Prints each goal and the last line.
pub fn print_goals(goals: &[Goal]) {
    println!();
    for goal in goals {
        let word = match &goal.outcome {
            Outcome::Met => "met".to_owned(),
            Outcome::Missed => "MISSED".to_owned(),
            Outcome::NotMeasured(why) => format!("not met: {why}"),
        };
        println!("{:<4} {word}; {}", goal.name, goal.clauses.join("; "));
    }
    let met = goals.iter().filter(|goal| goal.outcome == Outcome::Met).count();
    println!("goals met: {met} of {}", goals.len());
}
