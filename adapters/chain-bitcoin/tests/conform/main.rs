//! The source contract's trials, against fake nodes that speak the real protocol: as Bitcoin Core and as Litecoin Core.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod harness;

use confirmd_testkit::conform::source::source_trials;
use confirmd_testkit::fake_bitcoin::{Dialect, FakeNetwork};
use harness::BitcoinLab;
use libtest_mimic::Arguments;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let labs = [
        ("bitcoin", BitcoinLab { serves: FakeNetwork::Regtest, dialect: Dialect::Core29, network: "regtest" }),
        ("litecoin", BitcoinLab { serves: FakeNetwork::LitecoinRegtest, dialect: Dialect::Legacy, network: "litecoin-regtest" }),
    ];
    let trials = labs
        .into_iter()
        .flat_map(|(level, lab)| source_trials(Arc::new(lab)).into_iter().map(move |trial| trial.into_trial(level)))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
