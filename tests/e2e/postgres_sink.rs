//! `kind = "postgres"` on a real server: the contract, every place a connection can break, what a server may say, and the whole
//! program with an effect in the operator's own ledger.

mod bench;
mod conform;
mod faults;
mod measure;
mod refusals;
mod service;

use confirmd_testkit::conform::sink::sink_trials;
use e2e::Needs;
use libtest_mimic::Trial;
use std::sync::Arc;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = sink_trials("postgres_sink", Arc::new(conform::Database));
    if let Some(why) = Needs::Postgres.path().is_none().then_some("postgres not installed: run tests/postgres/install") {
        trials = trials.into_iter().map(|trial| trial.with_kind(why).with_ignored_flag(true)).collect();
    }
    trials.extend(faults::trials());
    trials.extend(measure::trials());
    trials.extend(refusals::trials());
    trials.extend(service::trials());
    trials
}
