//! The source contract's trials against real nodes, with a proxy between node and adapter that spoils answers.

mod anvil;
mod family;
mod faults;

use anvil::{AnvilLab, Pays};
use confirmd_core::ChainContext;
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::source::{SourceLab, source_trials};
use e2e::Needs;
use family::FamilyLab;
use libtest_mimic::Trial;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

const SECRET: &str = "key-of-the-endpoint";
const ATTEMPTS: u32 = 2;
const DEADLINE: Duration = Duration::from_secs(6);

pub(crate) fn trials() -> Vec<Trial> {
    let labs: [(&str, Needs, &str, Arc<dyn SourceLab>); 4] = [
        ("conform::anvil_token", Needs::Anvil, "anvil", Arc::new(AnvilLab { pays: Pays::Tokens })),
        ("conform::anvil_coin", Needs::Anvil, "anvil", Arc::new(AnvilLab { pays: Pays::Coin })),
        ("conform::litecoind", Needs::Litecoind, "litecoind", Arc::new(FamilyLab::Litecoin)),
        ("conform::knots", Needs::Knots, "knots", Arc::new(FamilyLab::Bitcoin)),
    ];
    let mut trials = Vec::new();
    for (level, needs, node, lab) in labs {
        let missing = needs.path().is_none().then(|| format!("{node} not installed: run tests/nodes/install"));
        trials.extend(source_trials(lab).into_iter().map(|trial| trial.unless(missing.clone()).into_trial(level)));
    }
    trials
}

fn context() -> ChainContext {
    ChainContext {
        name: confirmd_core::ChainName::new("conform").unwrap(),
        default_requirement: confirmd_core::Requirement::confirmations(NonZeroU32::new(2).unwrap()),
        requirements: Default::default(),
        minimums: Default::default(),
        reorg_depth: NonZeroU64::new(6).unwrap(),
        start: confirmd_core::StartAt::Tip,
        poll_interval: None,
        fork_grace: Duration::ZERO,
        behind_alarm: Duration::ZERO,
        span_max: None,
        meter: confirmd_core::SourceMeter::default(),
    }
}

/// `rpc` and `limits`, over the proxy.
fn endpoint(proxy: &str) -> String {
    let limits = format!("requests_per_second = 100000, attempts = {ATTEMPTS}, deadline = '6s', request_timeout = '2s'");
    format!("rpc = [{{ url = '{proxy}/{SECRET}?key={SECRET}' }}]\nlimits = {{ {limits} }}\n")
}

/// What a driver says, as the kit wants it.
fn driven<T>(outcome: anyhow::Result<T>) -> Result<T, Broken> {
    outcome.map_err(|error| Broken::new(format!("the node's driver failed: {error:#}")))
}
