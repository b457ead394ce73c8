//! confirmd-hostile: what a parser of bytes from outside is tried with. For tests only.
//!
//! * [`Alteration`]: one change to bytes, the smallest an error or an attacker makes;
//! * [`JsonAlteration`]: one change to a JSON value that leaves it JSON;
//! * [`peak_bytes`]: what a parser held at most while it worked;
//! * [`cases`]: how many cases a target tries, scaled for long runs by `CONFIRMD_HOSTILE_SCALE`.
//!
//! Targets are named `hostile_...` in the tests of the crate whose parser they try. They are proptest's, since it shrinks,
//! replays what once failed, and was here already; a coverage-guided fuzzer needs a nightly toolchain or an engine of its own.
#![warn(missing_docs)]

mod alteration;
mod json;
mod memory;

pub use alteration::Alteration;
pub use json::{JsonAlteration, JsonChange, deep};
pub use memory::{assert_bounded, peak_bytes};

use proptest::test_runner::Config;

/// Multiplies the cases of every target; 1 where unset.
const SCALE: &str = "CONFIRMD_HOSTILE_SCALE";

/// Cases to try: `quick` in the usual test run, times `CONFIRMD_HOSTILE_SCALE` in a long one. A scale that is no whole
/// number above zero is a mistake, and panics.
pub fn cases(quick: u32) -> u32 {
    let scale = match std::env::var(SCALE) {
        Ok(text) => text.parse::<u32>().ok().filter(|scale| *scale > 0),
        Err(_) => Some(1),
    };
    quick.saturating_mul(scale.unwrap_or_else(|| panic!("{SCALE} is not a whole number above zero")))
}

/// Proptest's configuration for `cases(quick)` cases.
pub fn config(quick: u32) -> Config {
    Config { cases: cases(quick), max_global_rejects: u32::MAX, ..Config::default() }
}
