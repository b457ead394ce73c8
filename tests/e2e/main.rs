//! The one end-to-end test binary. A trial whose node is not installed shows as ignored, with the reason.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod adding;
mod anvil;
mod bitcoin_family;
mod conform;
mod delivery_dead_letters;
mod delivery_outages;
mod evm_adding;
mod evm_deposits;
mod evm_finality;
mod evm_halts;
mod evm_reorgs;
mod evm_restarts;
mod evm_world;
mod history;
mod instance;
mod mweb;
mod ops_bad_config;
mod ops_commands;
mod ops_conform;
mod ops_fuzz;
mod ops_http;
mod ops_metrics;
mod ops_operations;
mod ops_reload;
mod ops_state;
mod ops_verify;
mod page;
mod postgres_sink;
mod postgres_store;
mod state;
mod torture;
mod torture_real;
mod utxo_deposits;
mod utxo_mweb;
mod utxo_reorgs;
mod utxo_restarts;

fn main() -> std::process::ExitCode {
    let mut trials = Vec::new();
    trials.extend(adding::trials());
    trials.extend(anvil::trials());
    trials.extend(bitcoin_family::trials());
    trials.extend(mweb::trials());
    trials.extend(instance::trials());
    trials.extend(delivery_dead_letters::trials());
    trials.extend(delivery_outages::trials());
    trials.extend(evm_adding::trials());
    trials.extend(evm_deposits::trials());
    trials.extend(evm_finality::trials());
    trials.extend(evm_halts::trials());
    trials.extend(evm_reorgs::trials());
    trials.extend(evm_restarts::trials());
    trials.extend(history::trials());
    trials.extend(ops_bad_config::trials());
    trials.extend(ops_state::trials());
    trials.extend(ops_verify::trials());
    trials.extend(ops_commands::trials());
    trials.extend(ops_conform::trials());
    trials.extend(ops_fuzz::trials());
    trials.extend(ops_http::trials());
    trials.extend(ops_metrics::trials());
    trials.extend(ops_operations::trials());
    trials.extend(ops_reload::trials());
    trials.extend(page::trials());
    trials.extend(postgres_sink::trials());
    trials.extend(postgres_store::trials());
    trials.extend(state::trials());
    trials.extend(utxo_deposits::trials());
    trials.extend(utxo_reorgs::trials());
    trials.extend(utxo_restarts::trials());
    trials.extend(utxo_mweb::trials());
    trials.extend(conform::trials());
    trials.extend(torture_real::trials());
    trials.extend(torture::trials());
    e2e::run_trials(trials)
}
