//! `confirmd conform`: rules of the contracts, judged on a configured node or receiver.

use super::{ask, print};
use crate::config::{self, Config, ConfigFile, SinkConfig};
use crate::conform::{self, LedgerUrl, Node, Receiver};
use anyhow::{Context as _, anyhow};
use clap::Args;
use confirmd_core::{Address, ChainName, Clock, ConsumerName, Forgery, Registry, SinkContext, SystemClock};
use std::path::Path;
use std::process::ExitCode;

const FORGERIES: [Forgery; 4] = [Forgery::WrongSecret, Forgery::AlteredBody, Forgery::NoSignature, Forgery::OldTimestamp];

/// `conform`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
#[command(
    override_usage = "confirmd conform <CHAIN> [--address <ADDRESS>]... [--blocks <N>]\n       confirmd conform --sink <NAME> [--ledger <URL>] [--yes]"
)]
pub(crate) struct ConformArgs {
    /// A chain's name in the configuration: its node is only read.
    #[arg(group = "what")]
    pub chain: Option<ChainName>,
    /// A sink's name in the configuration: it is sent some 40 test events (types `test.*`, of a chain that does not exist),
    /// repeated, late, forged.
    #[arg(long, group = "what", value_name = "NAME")]
    pub sink: Option<ConsumerName>,
    /// Another address to look for payments to, beside the configured ones.
    #[arg(long = "address", conflicts_with = "sink", value_name = "ADDRESS")]
    pub addresses: Vec<String>,
    /// How many blocks below the tip are looked at.
    #[arg(long, default_value_t = 32, conflicts_with = "sink", value_parser = clap::value_parser!(u64).range(2..=10_000), value_name = "N")]
    pub blocks: u64,
    /// Where a deposit's credit can be looked up; see docs/consumers.md. Without it nothing is said about double credits.
    #[arg(long, conflicts_with = "chain", value_name = "URL")]
    pub ledger: Option<LedgerUrl>,
    /// Do not ask before test events are sent.
    #[arg(long, conflicts_with = "chain")]
    pub yes: bool,
    /// Machine-readable output.
    #[command(flatten)]
    pub json: super::args::JsonFlag,
}

/// Exits with 1 if a rule is broken, could not be asked, or nothing could be judged.
pub(super) async fn run(file: &Path, args: ConformArgs, registry: &Registry) -> anyhow::Result<ExitCode> {
    let file = ConfigFile::read(file)?;
    let lines = match (&args.chain, &args.sink) {
        (Some(chain), _) => self::chain(file, chain, &args, registry).await?,
        (None, Some(name)) => sink(file, name, &args, registry).await?,
        (None, None) => return Err(anyhow!("name a chain, or a sink with --sink NAME")),
    };
    let (text, good) = conform::show(&lines);
    if args.json.json {
        lines.iter().try_for_each(print::json)?;
    } else {
        print::line(&text);
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn chain(
    file: ConfigFile,
    name: &ChainName,
    args: &ConformArgs,
    registry: &Registry,
) -> anyhow::Result<Vec<conform::Line>> {
    let (chains, errors) = config::build_chains(&file, registry);
    let Some(chain) = chains.iter().find(|chain| chain.name == *name) else {
        if !errors.is_empty() {
            return Err(file.faults(errors).into());
        }
        let known: Vec<_> = chains.iter().map(|chain| chain.name.as_str()).collect();
        return Err(anyhow!("no chain is called {name}; known: {}", known.join(", ")));
    };
    let mut addresses: Vec<Address> = chain.watch.iter().map(|watch| watch.address.clone()).collect();
    for text in &args.addresses {
        addresses.push(chain.source.parse_address(text).context("--address")?);
    }
    addresses.sort();
    addresses.dedup();
    let secrets = file.chains.get(name.as_str()).map(conform::secrets_of).unwrap_or_default();
    Ok(conform::look(&Node { source: chain.source.as_ref(), addresses, blocks: args.blocks, secrets }).await)
}

async fn sink(
    file: ConfigFile,
    name: &ConsumerName,
    args: &ConformArgs,
    registry: &Registry,
) -> anyhow::Result<Vec<conform::Line>> {
    let config = Config::build(file, registry)?;
    let Some(sink) = config.sinks.iter().find(|sink| sink.name() == name) else {
        let known: Vec<_> = config.sinks.iter().map(|sink| sink.name().as_str()).collect();
        return Err(anyhow!("no sink is called {name}; known: {}", known.join(", ")));
    };
    if sink.sink.books().is_some() {
        let kind = sink.kind;
        return Err(anyhow!(
            "sinks.{name} ({kind}) keeps the receiver's books itself: there is no receiver to grade, and test events would stand in real books"
        ));
    }
    let mut forged = Vec::new();
    if let (Some(build), Some(table)) = (registry.forged_sink(sink.kind), config.file.sinks.get(name.as_str())) {
        for forgery in FORGERIES {
            let built = build(SinkContext { consumer: name.clone() }, SinkConfig::adapter_keys(table.clone()), forgery);
            forged.push((forgery, built.map_err(|error| anyhow!("sinks.{name}: {error}"))?));
        }
    }
    ask::confirm_sending(&warning(name, sink.kind, args.ledger.is_some()), args.yes)?;
    let receiver = Receiver { sink: sink.sink.clone(), forged, kind: sink.kind, ledger: args.ledger.clone() };
    conform::torture(&receiver, fastrand::u64(..), SystemClock.now()).await.context("make the test events")
}

fn warning(name: &ConsumerName, kind: &str, ledger: bool) -> String {
    let asked = if ledger { "; the ledger is asked what it credited" } else { "" };
    format!(
        "sinks.{name} ({kind}) will be sent some 40 events: types test.confirmed and test.reverted, of a chain test:conform-… that \
         does not exist, to the address and reference confirmd-conform. Some are repeated, late, in an unknown version or forged{asked}. \
         A receiver that does not tell test.* from deposit.* books them: aim this at a test system, or know that yours does."
    )
}
