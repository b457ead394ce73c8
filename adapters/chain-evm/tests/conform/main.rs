//! The source contract's trials, against a fake node that speaks the real protocol, for each kind of payment.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod harness;
mod node;
mod spoil;

use confirmd_testkit::conform::source::source_trials;
use harness::{EvmLab, Pays};
use libtest_mimic::Arguments;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let labs = [("token", Pays::Tokens), ("coin", Pays::CoinTraced), ("coin_untraced", Pays::Coin)];
    let trials = labs
        .into_iter()
        .flat_map(|(level, pays)| source_trials(Arc::new(EvmLab { pays })).into_iter().map(move |trial| trial.into_trial(level)))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
