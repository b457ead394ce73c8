//! `confirmd rescan`

use super::args::JsonFlag;
use super::print;
use super::table::{or_dash, render};
use clap::{Args, Subcommand};
use confirmd_api::Operator;
use confirmd_api::view::{ChainView, Coverage, CoverageQuery, RescanOrder, RescanRequest, RescanView};
use confirmd_core::{ChainName, Height};

/// `rescan`
#[derive(Debug, Subcommand)]
pub(crate) enum RescanCommand {
    /// List a chain's rescans: how far they are, at what pace, and how long they will take.
    List {
        /// The chain's name in the configuration.
        chain: ChainName,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Read past blocks again for everything that is watched; only what is missing is told.
    Start {
        /// The chain's name in the configuration.
        chain: ChainName,
        /// The lowest height.
        #[arg(long, value_name = "HEIGHT")]
        from_height: u64,
        /// The highest; the recorded tip if not given.
        #[arg(long, value_name = "HEIGHT")]
        to_height: Option<u64>,
        /// Only this asset, by its symbol or id: one that was listed later.
        #[arg(long)]
        asset: Option<String>,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Read nothing for a rescan for a while.
    Pause(OneRescan),
    /// Go on with a rescan that was paused or failed.
    Resume(OneRescan),
    /// Give a rescan up; what it found stays.
    Cancel(OneRescan),
    /// Show which heights were read for an address, and by what.
    Coverage {
        /// The chain's name in the configuration.
        chain: ChainName,
        /// The address.
        address: String,
        /// Whether it was covered at this height.
        #[arg(long)]
        height: Option<u64>,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
}

/// A rescan that is told something.
#[derive(Debug, Args)]
pub(crate) struct OneRescan {
    /// The chain's name in the configuration.
    pub chain: ChainName,
    /// Its number.
    pub id: u64,
    /// Machine-readable output.
    #[command(flatten)]
    pub json: JsonFlag,
}

pub(super) async fn run(operator: &dyn Operator, command: RescanCommand) -> anyhow::Result<()> {
    match command {
        RescanCommand::List { chain, json } => show(&operator.rescans(&chain).await?, json.json),
        RescanCommand::Start { chain, from_height, to_height, asset, json } => {
            let request = RescanRequest { from_height: Height(from_height), to_height: to_height.map(Height), asset };
            show(&[operator.rescan(&chain, request).await?], json.json)
        }
        RescanCommand::Pause(one) => order(operator, one, RescanOrder::Pause).await,
        RescanCommand::Resume(one) => order(operator, one, RescanOrder::Resume).await,
        RescanCommand::Cancel(one) => order(operator, one, RescanOrder::Cancel).await,
        RescanCommand::Coverage { chain, address, height, json } => {
            let told = operator.coverage(&chain, &CoverageQuery { address, height: height.map(Height) }).await?;
            if json.json { print::json(&told) } else { covered(&told, height) }
        }
    }
}

async fn order(operator: &dyn Operator, OneRescan { chain, id, json }: OneRescan, order: RescanOrder) -> anyhow::Result<()> {
    show(&[operator.order_rescan(&chain, id, order).await?], json.json)
}

fn show(rescans: &[RescanView], json: bool) -> anyhow::Result<()> {
    if json {
        return rescans.iter().try_for_each(print::json);
    }
    let head = ["rescan", "for", "from", "to", "state", "read", "a second", "time left", "addresses", "found"];
    print::line(&render(&head, &rescans.iter().map(row).collect::<Vec<_>>()));
    for rescan in rescans {
        if let Some(trouble) = &rescan.trouble {
            print::line(&format!("rescan {}: {trouble}", rescan.id));
        }
    }
    Ok(())
}

/// The rescans of a chain that are not done, a line each.
pub(super) fn lines(chain: &ChainView) -> Vec<String> {
    let line = |rescan: &RescanView| {
        let whom = rescan.asset.as_ref().map_or_else(|| rescan.scope.clone(), ToString::to_string);
        let pace = rescan.heights_per_second.map(|pace| format!(", {pace} heights a second")).unwrap_or_default();
        let left = rescan.seconds_left.map(|left| format!(", about {left} s left")).unwrap_or_default();
        let trouble = rescan.trouble.as_ref().map(|trouble| format!("; {trouble}")).unwrap_or_default();
        format!(
            "{}: rescan {} for {whom}, {} to {}, is {}: {} % read{pace}{left}{trouble}",
            chain.name, rescan.id, rescan.from_height, rescan.to_height, rescan.state, rescan.percent_read
        )
    };
    chain.rescans.iter().map(line).collect()
}

fn row(rescan: &RescanView) -> Vec<String> {
    let whom = rescan.asset.as_ref().map_or_else(|| rescan.scope.clone(), ToString::to_string);
    vec![
        rescan.id.to_string(),
        whom,
        rescan.from_height.to_string(),
        rescan.to_height.to_string(),
        rescan.state.clone(),
        format!("{} %", rescan.percent_read),
        or_dash(rescan.heights_per_second),
        or_dash(rescan.seconds_left.map(|seconds| format!("{seconds} s"))),
        rescan.addresses.to_string(),
        rescan.found.to_string(),
    ]
}

fn covered(told: &Coverage, height: Option<u64>) -> anyhow::Result<()> {
    if !told.watched {
        print::line(&format!("{} is not watched", told.address));
        return Ok(());
    }
    if let (Some(height), Some(covered)) = (height, told.covered) {
        let said = if covered { "was read" } else { "was not read" };
        print::line(&format!("height {height} {said} for {}", told.address));
    }
    let read = told.read.iter().map(|part| {
        let by = part.rescan.map_or_else(|| "live watch".to_owned(), |id| format!("rescan {id}"));
        vec![part.from_height.to_string(), part.to_height.to_string(), by, or_dash(part.block.as_ref())]
    });
    let gaps = told.gaps.iter().map(|gap| {
        let by = format!("not read: rescan {} is {}", gap.rescan, gap.state);
        vec![gap.from_height.to_string(), gap.to_height.to_string(), by, "-".to_owned()]
    });
    print::line(&render(&["from", "to", "read by", "on the branch of"], &read.chain(gaps).collect::<Vec<_>>()));
    Ok(())
}
