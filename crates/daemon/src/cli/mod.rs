//! The command line: reads it, does what it says, prints what came of it.

mod adopt;
mod args;
mod ask;
mod chain;
mod check;
mod conform;
mod consumer;
mod deliveries;
mod deposits;
mod events;
mod import;
mod init;
mod kinds;
mod life;
mod manual;
mod open;
mod print;
mod reload;
mod rescan;
mod state;
mod state_export;
mod state_import;
mod status;
mod table;
mod watch;

pub(crate) use args::{Cli, Command, RunArgs, VERSION};

use clap::Parser;
use confirmd_core::Registry;
use std::process::ExitCode;

/// The whole main function around a registry of kinds: parses the command line, runs the command, prints errors with
/// their causes. 0 is success, 1 a failure, 2 a wrong command line.
pub fn run(registry: Registry) -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&anyhow::Error::new(error).context("the runtime can't start")),
    };
    let code = runtime.block_on(dispatch(cli, &registry)).unwrap_or_else(|error| failed(&error));
    // A stuck resolver or disk must not hold the process; whatever was to be kept is on disk.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    code
}

async fn dispatch(cli: Cli, registry: &Registry) -> anyhow::Result<ExitCode> {
    let file = cli.config;
    match cli.command {
        Command::Init(args) => init::run(&file, &args, registry)?,
        Command::Check(args) => return check::run(&file, args.json.json, registry).await,
        Command::Conform(args) => return conform::run(&file, args, registry).await,
        Command::Run(args) => return crate::run::run(&file, &args, registry).await,
        Command::Kinds(args) => kinds::run(args.name.as_deref(), args.json.json, registry)?,
        Command::Openapi(_) => print::line(confirmd_api::openapi::json()),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder, json } => manual::pages(&folder, json.json)?,
        #[cfg(feature = "demo")]
        Command::Demo(args) => return crate::demo::run(args).await,
        Command::Watch(command) => watch::run(open::operator(&file, registry).await?.as_ref(), command).await?,
        Command::Rescan(command) => rescan::run(open::operator(&file, registry).await?.as_ref(), command).await?,
        Command::State(command) => return state::run(&file, command, registry).await,
        Command::Reload(args) => reload::run(open::operator(&file, registry).await?.as_ref(), args.json).await?,
        Command::Status(args) => status::run(open::operator(&file, registry).await?.as_ref(), args.json).await?,
        Command::Deposits(args) => deposits::run(open::operator(&file, registry).await?.as_ref(), args).await?,
        Command::Deposit { chain, tx_id, output_index, json } => {
            let life = open::operator(&file, registry).await?.deposit(&chain, &tx_id, output_index).await?;
            if json.json { print::json(&life)? } else { life::show(&life) }
        }
        Command::Explain { chain, tx_id, height, address, json } => {
            let query = confirmd_api::view::ExplainQuery { height: height.map(confirmd_core::Height), address };
            let told = open::operator(&file, registry).await?.explain(&chain, &tx_id, &query).await?;
            if json.json { print::json(&told)? } else { life::explain(&told) }
        }
        Command::Events(args) => events::run(open::operator(&file, registry).await?.as_ref(), args).await?,
        Command::Cursor(command) => events::cursor(open::operator(&file, registry).await?.as_ref(), command).await?,
        Command::Deliveries(command) => deliveries::run(open::operator(&file, registry).await?.as_ref(), command).await?,
        Command::Consumer(args::ConsumerCommand::Adopt { consumer, yes, json }) => {
            adopt::run(&file, &consumer, yes, json.json, registry).await?;
        }
        Command::Consumer(command) => consumer::run(open::operator(&file, registry).await?.as_ref(), command).await?,
        Command::Chain(command) => chain::run(open::operator(&file, registry).await?.as_ref(), command).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn failed(error: &anyhow::Error) -> ExitCode {
    print::to_stderr(&format!("error: {error:#}"));
    ExitCode::FAILURE
}
