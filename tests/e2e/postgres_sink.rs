//! `kind = "postgres"` on a real server: the contract, every place a connection can break, what a server may say, and the whole
//! program with an effect in the operator's own ledger.

pub(crate) mod bench;
mod comparison;
mod conform;
mod drill;
mod faults;
mod measure;
pub(crate) mod page;
mod refusals;
pub(crate) mod service;

pub(crate) use service::shop;

use confirmd_testkit::conform::sink::sink_trials;
use e2e::{Needs, node_trial};
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
    let needs = &[Needs::Anvil, Needs::Postgres];
    trials.push(node_trial("postgres_sink::the_roles_queries_and_retention_of_the_page_work", needs, page::holds));
    trials.push(node_trial("postgres_sink::g7_a_database_put_back_to_an_earlier_moment_is_told_again", needs, drill::told_again));
    trials.push(node_trial(
        "postgres_sink::a_database_older_than_history_is_told_everything_by_a_new_state",
        needs,
        drill::told_anew,
    ));
    trials
}
