//! The store contract, rule by rule, on a real server. The drivers are those of the end-to-end tests.
#![allow(dead_code, unused_imports, unreachable_pub, clippy::indexing_slicing)]

mod claims;
mod cluster;
mod cuts;
mod dump;
mod kills;
mod quiet;
mod rig;
mod says;

#[path = "../../../../tests/src/port.rs"]
mod port;
#[path = "../../../../tests/src/postgres.rs"]
mod postgres;
#[path = "../../../../tests/src/process.rs"]
mod process;
#[path = "../../../../tests/src/scratch.rs"]
mod scratch;
#[path = "../../../../tests/src/wire_proxy.rs"]
mod wire_proxy;

use confirmd_testkit::conform::store::store_trials;
use libtest_mimic::Arguments;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let mut trials = store_trials("store_postgres", Arc::new(rig::Shared::default()));
    trials.extend(cuts::trials());
    trials.extend(dump::trials());
    trials.extend(kills::trials());
    trials.extend(says::trials());
    trials.extend(quiet::trials());
    trials.extend(claims::trials());
    if postgres::find_bin().is_none() {
        let why = "postgres not installed: run tests/postgres/install";
        trials = trials.into_iter().map(|trial| trial.with_kind(why).with_ignored_flag(true)).collect();
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
