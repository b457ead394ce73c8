//! The torture run: whole instances under faults, crashes and reorgs, judged by the consumers' own books.

pub mod real;
pub mod simulated;
mod tally;

pub use tally::Tally;
