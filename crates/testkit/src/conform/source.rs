//! The suite for sources: S1 to S20 of `docs/contracts/source.md`.
//!
//! An adapter's author implements [`SourceHarness`] (how to make the network pay, mine, fork and misbehave) and [`SourceLab`]
//! (how to start one, and what it can't do), and hands the lab to [`source_trials`]:
//!
//! ```no_run
//! use confirmd_testkit::conform::source::{ScriptedLab, source_trials};
//! use std::sync::Arc;
//!
//! fn main() -> std::process::ExitCode {
//!     let trials = source_trials(Arc::new(ScriptedLab::honest()));
//!     let trials = trials.into_iter().map(|trial| trial.into_trial("scripted")).collect();
//!     libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit_code()
//! }
//! ```
//!
//! Each trial starts a chain of its own.

mod ability;
mod act;
mod harness;
mod log;
mod scene;
mod scripted;
mod suite;
mod trials;

pub use ability::Ability;
pub use act::{Act, Spoil};
pub use harness::{Facts, Output, Refused, SourceHarness, SourceLab};
pub use scripted::{ScriptedLab, Wrap};
pub use suite::source_trials;
