//! The one end-to-end test binary. A trial whose node is not installed shows as ignored, with the reason.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod anvil;
mod bitcoin_family;
mod instance;
mod mweb;

fn main() -> std::process::ExitCode {
    let mut trials = Vec::new();
    trials.extend(anvil::trials());
    trials.extend(bitcoin_family::trials());
    trials.extend(mweb::trials());
    trials.extend(instance::trials());
    e2e::run_trials(trials)
}
