//! The one end-to-end test binary. A trial whose node is not installed shows as ignored, with the reason.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod anvil;
mod bitcoin_family;
mod evm_deposits;
mod evm_reorgs;
mod evm_restarts;
mod evm_world;
mod instance;
mod mweb;
mod utxo_deposits;
mod utxo_mweb;
mod utxo_reorgs;
mod utxo_restarts;

fn main() -> std::process::ExitCode {
    let mut trials = Vec::new();
    trials.extend(anvil::trials());
    trials.extend(bitcoin_family::trials());
    trials.extend(mweb::trials());
    trials.extend(instance::trials());
    trials.extend(evm_deposits::trials());
    trials.extend(evm_reorgs::trials());
    trials.extend(evm_restarts::trials());
    trials.extend(utxo_deposits::trials());
    trials.extend(utxo_reorgs::trials());
    trials.extend(utxo_restarts::trials());
    trials.extend(utxo_mweb::trials());
    e2e::run_trials(trials)
}
