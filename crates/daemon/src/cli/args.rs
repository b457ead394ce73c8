//! The command line.

use crate::config::LogFormat;
use clap::{Args, Parser, Subcommand, ValueEnum};
use confirmd_core::{ChainName, ConsumerName, CursorName, DeliveryState, DepositState, EventId};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Version and the source's revision.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("CONFIRMD_REVISION"), ")");

/// What an end says; also in docs/operations.md.
const EXIT_CODES: &str = "\
Exit codes:
  0    done; `run`: it was told to stop
  1    not done, or what was looked at is not as it should be (`check`, `conform`, `state verify`); the reason is on stderr, as text
  2    the command line is wrong
  130  `run`: ended at once by a second signal";

/// Watches your own nodes and tells your systems about every deposit exactly once.
#[derive(Debug, Parser)]
#[command(name = "confirmd", version = VERSION, about, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// The configuration file.
    #[arg(long, short, global = true, env = "CONFIRMD_CONFIG", default_value = "confirmd.toml", value_name = "FILE")]
    pub config: PathBuf,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a commented configuration to begin with.
    Init(InitArgs),
    /// Check the configuration, the state, every node and every sink, and say what to do.
    Check(CheckArgs),
    /// Grade a chain's node or a sink's receiver by the rules it must keep, a line a rule.
    Conform(super::conform::ConformArgs),
    /// Watch the chains and deliver events, until SIGTERM or Ctrl-C.
    Run(RunArgs),
    /// Have the running instance take the configuration file over again, all of it or nothing; SIGHUP does the same.
    Reload(JsonFlag),
    /// The state as a whole.
    #[command(subcommand)]
    State(StateCommand),
    /// Watched addresses.
    #[command(subcommand)]
    Watch(super::watch::WatchCommand),
    /// Past blocks, read again for addresses and assets that were added later.
    #[command(subcommand, alias = "history")]
    Rescan(super::rescan::RescanCommand),
    /// How every chain and consumer stands.
    Status(JsonFlag),
    /// List deposits, newest first.
    Deposits(DepositsArgs),
    /// Show one deposit's whole life within history: blocks, decisions with their rule, reorgs, troubled deliveries.
    Deposit {
        /// The chain's name in the configuration.
        chain: ChainName,
        /// The transaction.
        tx_id: String,
        /// The output.
        output_index: u32,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Say why a transaction produced what it did, or nothing.
    Explain {
        /// The chain's name in the configuration.
        chain: ChainName,
        /// The transaction.
        tx_id: String,
        /// Its block's height: the node is asked for that block.
        #[arg(long)]
        height: Option<u64>,
        /// Who should have been paid.
        #[arg(long)]
        address: Option<String>,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Print events in the order they were decided, one JSON object a line, byte for byte as a webhook gets them.
    Events(EventsArgs),
    /// Named places of readers that pull events.
    #[command(subcommand)]
    Cursor(CursorCommand),
    /// Events on their way to consumers.
    #[command(subcommand)]
    Deliveries(DeliveriesCommand),
    /// Consumers: the configured sinks and their records.
    #[command(subcommand)]
    Consumer(ConsumerCommand),
    /// Chains.
    #[command(subcommand)]
    Chain(ChainCommand),
    /// The kinds of chains and sinks this binary knows; with a name, its example configuration.
    Kinds(KindsArgs),
    /// Print the API's OpenAPI document, which is JSON anyway.
    Openapi(JsonFlag),
    /// Print a script that completes commands in a shell: `confirmd completions bash > /etc/bash_completion.d/confirmd`.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write a manual page for every command into a folder.
    Man {
        /// The folder; made if it is missing.
        folder: PathBuf,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Show what confirmd does on two chains that run in this process. Needs nothing installed.
    #[cfg(feature = "demo")]
    Demo(crate::demo::DemoArgs),
}

/// `state`
#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Write everything the state holds, as it is at one moment, into a file for `state import`. An instance may run meanwhile, and go on:
    /// then the file is an old copy from that moment on.
    Export {
        /// The file, which must not be there; `-` writes to stdout.
        file: PathBuf,
        /// Machine-readable output: what was written. Not with `-`.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Make the configured state from such a file, where there is none: all of it or nothing. For a state that is moved: the one it
    /// was exported from must not run any more.
    Import {
        /// The file; `-` reads stdin.
        file: PathBuf,
        /// The file is an old copy: the state it is of went on and is lost. It takes a new epoch, so that consumers do not take what is
        /// decided again for repetitions.
        #[arg(long)]
        restored: bool,
        /// Machine-readable output: what was read.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Read everything and say where it contradicts itself; ends with 1 if it does. In a folder, only while no instance runs on it.
    Verify {
        /// Also compare what was recorded of each chain with its node, block by block.
        #[arg(long)]
        against_nodes: bool,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
}

/// `events`
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Behind this place; otherwise from the first event that history holds.
    #[arg(long, conflicts_with = "cursor")]
    pub after: Option<String>,
    /// Behind what this named cursor has taken. Does not move it.
    #[arg(long)]
    pub cursor: Option<CursorName>,
    /// Go on as events are decided.
    #[arg(long)]
    pub follow: bool,
    /// At most so many.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "follow")]
    pub limit: u32,
    /// Machine-readable output, as it is anyway.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// `cursor`
#[derive(Debug, Subcommand)]
pub(crate) enum CursorCommand {
    /// List cursors.
    List(JsonFlag),
    /// Put a cursor, new or known, at a place.
    Put {
        /// Its name.
        name: CursorName,
        /// Everything up to this place was taken; otherwise it begins at the first event that history holds.
        #[arg(long, conflicts_with = "now")]
        after: Option<String>,
        /// Begin behind the last event.
        #[arg(long)]
        now: bool,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Forget a cursor; it holds nothing any more.
    Remove {
        /// Its name.
        name: CursorName,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
}

/// Machine-readable output.
#[derive(Debug, Args)]
pub(crate) struct JsonFlag {
    /// JSON: one object, or one object a line for lists.
    #[arg(long)]
    pub json: bool,
}

/// `init`
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Replace the file if it exists.
    #[arg(long)]
    pub force: bool,
    /// Machine-readable output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// `check`
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Machine-readable output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// `run`
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Make the state if its folder has none. Without it a missing state is an error: a container started without its
    /// volume must not begin silently at the tip.
    #[arg(long)]
    pub init: bool,
    /// The state's folder is a copy of an older state: take a new epoch, so that consumers do not take what is decided
    /// again for repetitions. Once is enough.
    #[arg(long, conflicts_with = "init")]
    pub restored: bool,
    /// How log lines look; otherwise `[log] format`.
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
    /// No progress bars, also on a terminal.
    #[arg(long)]
    pub no_progress: bool,
}

/// How much of a list, and in which form.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// At most so many.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Everything there is.
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Machine-readable output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// `deposits`
#[derive(Debug, Args)]
pub(crate) struct DepositsArgs {
    /// Only of this chain.
    #[arg(long)]
    pub chain: Option<ChainName>,
    /// Only to this address.
    #[arg(long)]
    pub address: Option<String>,
    /// Only with this label.
    #[arg(long)]
    pub reference: Option<String>,
    /// Only in this state.
    #[arg(long, value_enum)]
    pub state: Option<DepositStateArg>,
    /// Only in this asset: its symbol or CAIP-19 id.
    #[arg(long)]
    pub asset: Option<String>,
    /// Only first seen at this time (RFC 3339) or later.
    #[arg(long)]
    pub from: Option<String>,
    /// Only first seen before this time.
    #[arg(long)]
    pub before: Option<String>,
    /// Only of this transaction.
    #[arg(long = "tx", value_name = "TX_ID")]
    pub tx_id: Option<String>,
    /// Paging and output.
    #[command(flatten)]
    pub list: ListArgs,
}

/// Where a deposit is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DepositStateArg {
    /// Seen, not deep enough.
    Pending,
    /// Reported, revertible.
    Confirmed,
    /// Reported and final.
    Settled,
    /// Was pending in a block that left the best chain.
    Orphaned,
    /// Was reported, then taken back.
    Reverted,
    /// Seen, below its asset's minimum: written down, never reported.
    #[value(name = "below_minimum")]
    BelowMinimum,
}

impl From<DepositStateArg> for DepositState {
    fn from(arg: DepositStateArg) -> Self {
        match arg {
            DepositStateArg::Pending => Self::Pending,
            DepositStateArg::Confirmed => Self::Confirmed,
            DepositStateArg::Settled => Self::Settled,
            DepositStateArg::Orphaned => Self::Orphaned,
            DepositStateArg::Reverted => Self::Reverted,
            DepositStateArg::BelowMinimum => Self::BelowMinimum,
        }
    }
}

/// `deliveries`
#[derive(Debug, Subcommand)]
pub(crate) enum DeliveriesCommand {
    /// List undelivered and skipped deliveries; delivered ones with `--state delivered`, newest first, and of an event.
    List {
        /// Only this consumer's.
        #[arg(long)]
        consumer: Option<ConsumerName>,
        /// Only in this state.
        #[arg(long, value_enum)]
        state: Option<DeliveryStateArg>,
        /// Only of this event.
        #[arg(long)]
        event: Option<EventId>,
        /// Paging and output.
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show one event: its body, its deliveries and every failed attempt.
    Show {
        /// The event.
        event: EventId,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Queue events again with fresh attempts, each with what waits behind it.
    #[command(group = clap::ArgGroup::new("which").required(true))]
    #[command(
        override_usage = "confirmd deliveries requeue <CONSUMER> <EVENTS...|--all-dead [--status STATUS]> [--per-second N]"
    )]
    Requeue {
        /// The consumer.
        consumer: ConsumerName,
        /// The events.
        #[arg(group = "which")]
        events: Vec<EventId>,
        /// Every dead letter of the consumer.
        #[arg(long, group = "which")]
        all_dead: bool,
        /// With --all-dead: only those whose last attempt got this HTTP status.
        #[arg(long, requires = "all_dead")]
        status: Option<u16>,
        /// So many deposits a second; otherwise as fast as the receiver takes them.
        #[arg(long)]
        per_second: Option<NonZeroU32>,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Dead letters grouped by consumer, last status and error.
    Dead {
        /// Only this consumer's.
        #[arg(long)]
        consumer: Option<ConsumerName>,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Send events again although they were delivered: same ids, same bytes.
    #[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
    Replay {
        /// The consumer.
        consumer: ConsumerName,
        /// The events.
        #[arg(group = "what", conflicts_with_all = ["from", "before"])]
        events: Vec<EventId>,
        /// Every event decided at this time (RFC 3339) or later.
        #[arg(long, group = "what")]
        from: Option<String>,
        /// Every event decided before this time.
        #[arg(long, group = "what")]
        before: Option<String>,
        /// So many deposits a second; 50 by default.
        #[arg(long)]
        per_second: Option<NonZeroU32>,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Give one undelivered event up for a consumer, on record.
    Skip {
        /// The consumer.
        consumer: ConsumerName,
        /// The event.
        event: EventId,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
}

/// Where a delivery is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeliveryStateArg {
    /// Waits for its first attempt, or behind an earlier event of its key.
    Queued,
    /// Waits for another attempt.
    Retrying,
    /// Accepted by the sink.
    Delivered,
    /// Every attempt failed.
    Dead,
    /// Behind a dead one of its key.
    Blocked,
    /// Given up.
    Skipped,
}

impl From<DeliveryStateArg> for DeliveryState {
    fn from(arg: DeliveryStateArg) -> Self {
        match arg {
            DeliveryStateArg::Queued => Self::Queued,
            DeliveryStateArg::Retrying => Self::Retrying,
            DeliveryStateArg::Delivered => Self::Delivered,
            DeliveryStateArg::Dead => Self::Dead,
            DeliveryStateArg::Blocked => Self::Blocked,
            DeliveryStateArg::Skipped => Self::Skipped,
        }
    }
}

/// `consumer`
#[derive(Debug, Subcommand)]
pub(crate) enum ConsumerCommand {
    /// List consumers.
    List(JsonFlag),
    /// Stop attempts. Loses nothing.
    Pause {
        /// The consumer.
        consumer: ConsumerName,
        /// Shown wherever the consumer is. The first reason of a pause is kept.
        #[arg(long)]
        why: Option<String>,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Go on.
    Resume {
        /// The consumer.
        consumer: ConsumerName,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Send one event that is marked as a test, and say how it went.
    Test {
        /// The consumer.
        consumer: ConsumerName,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Move a consumer's records to a new name. The instance must be stopped.
    Rename {
        /// The name it has.
        from: ConsumerName,
        /// The name it gets.
        to: ConsumerName,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Give the books of a consumer whose other side keeps some (a database) to this state, because the state that fed it is gone or
    /// stopped for good. The instance must be stopped.
    Adopt {
        /// The consumer.
        consumer: ConsumerName,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Delete a consumer's records, undelivered events included. The instance must be stopped.
    Purge {
        /// The consumer.
        consumer: ConsumerName,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
}

/// `chain`
#[derive(Debug, Subcommand)]
pub(crate) enum ChainCommand {
    /// Show a chain closely: its node is asked.
    Show {
        /// The chain's name in the configuration.
        chain: ChainName,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Resume a halted chain.
    Resume {
        /// The chain's name in the configuration.
        chain: ChainName,
        /// Accept a reorg below the floor: anchor again, take back what was reported above it, list what was settled.
        #[arg(long)]
        accept_reorg: bool,
        /// Take back settled deposits above the accepted reorg, too.
        #[arg(long, requires = "accept_reorg")]
        revert_settled: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
}

/// `kinds`
#[derive(Debug, Args)]
pub(crate) struct KindsArgs {
    /// Print this kind's example configuration.
    pub name: Option<String>,
    /// Machine-readable output.
    #[command(flatten)]
    pub json: JsonFlag,
}

#[cfg(test)]
mod tests;
