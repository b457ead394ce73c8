//! `confirmd watch`

use super::args::{JsonFlag, ListArgs};
use super::print;
use super::table::{or_dash, render};
use clap::Subcommand;
use confirmd_api::Operator;
use confirmd_api::view::{WatchAdded, WatchQuery, WatchRequest, Watched};
use confirmd_core::{ChainName, Height};
use std::path::PathBuf;

/// `watch`
#[derive(Debug, Subcommand)]
pub(crate) enum WatchCommand {
    /// Watch an address from the next block on, and read its history from a height on if one is given.
    Add {
        /// The chain's name in the configuration.
        chain: ChainName,
        /// The address.
        address: String,
        /// Your own label; stands in every event of the address.
        #[arg(long)]
        reference: Option<String>,
        /// Read the chain again for it from this height on, beside the live watch.
        #[arg(long, value_name = "HEIGHT")]
        from_height: Option<u64>,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Take no new deposits to addresses; what is held for them still ends.
    Remove {
        /// The chain's name in the configuration.
        chain: ChainName,
        /// The addresses.
        #[arg(required = true)]
        addresses: Vec<String>,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
    /// List watched addresses.
    List {
        /// Only of this chain.
        #[arg(long)]
        chain: Option<ChainName>,
        /// Only this address.
        #[arg(long)]
        address: Option<String>,
        /// Only with this label.
        #[arg(long)]
        reference: Option<String>,
        /// Paging and output.
        #[command(flatten)]
        list: ListArgs,
    },
    /// Watch the addresses of a file of any length (JSON Lines or CSV: chain, address, reference, from_height). It is looked through first, so
    /// that a line that can't be read stops it before anything is added, and then added in parts: what was added before an
    /// error stays, and importing the file again is harmless.
    Import {
        /// The file; `-` reads stdin, which is not looked through first.
        file: PathBuf,
        /// Begin at this line: one that was broken off says where it stands.
        #[arg(long, default_value_t = 1)]
        from_line: u64,
        /// Read the chain again from this height on for every line that does not name one itself.
        #[arg(long, value_name = "HEIGHT")]
        from_height: Option<u64>,
        /// Machine-readable output.
        #[command(flatten)]
        json: JsonFlag,
    },
}

pub(super) async fn run(operator: &dyn Operator, command: WatchCommand) -> anyhow::Result<()> {
    match command {
        WatchCommand::Add { chain, address, reference, from_height, json } => {
            let (reference, from_height) = (reference.map(Into::into), from_height.map(Height));
            let entry = WatchRequest { chain, address, reference, from_height, line: None };
            show_added(&operator.watch_add(vec![entry]).await?, json.json)
        }
        WatchCommand::Remove { chain, addresses, json } => {
            let asked = addresses.len();
            let removed = operator.watch_remove(&chain, addresses).await?;
            if json.json {
                return print::json(&removed);
            }
            print::line(&format!("{} of {asked} addresses were watched and take no new deposits now", removed.count));
            Ok(())
        }
        WatchCommand::Import { file, from_line, from_height, json } => {
            show_added(&super::import::run(operator, &file, from_line, from_height.map(Height)).await?, json.json)
        }
        WatchCommand::List { chain, address, reference, list } => {
            let (mut after, mut left) = (None, list.limit);
            let mut rows = Vec::new();
            loop {
                let limit = super::deposits::page_limit(list.all, left);
                let page = operator
                    .watched(&WatchQuery {
                        chain: chain.clone(),
                        address: address.clone(),
                        reference: reference.clone(),
                        after,
                        limit,
                    })
                    .await?;
                left = left.saturating_sub(u32::try_from(page.items.len()).unwrap_or(u32::MAX));
                for item in page.items {
                    if list.json.json { print::json(&item)? } else { rows.push(row(item)) }
                }
                after = page.next;
                if after.is_none() || (!list.all && left == 0) {
                    break;
                }
            }
            if !list.json.json {
                print::line(&render(&["chain", "address", "reference", "from height", "origin", "state"], &rows));
                super::deposits::more(after.is_some());
            }
            Ok(())
        }
    }
}

fn row(item: Watched) -> Vec<String> {
    let word = |value: serde_json::Result<serde_json::Value>| {
        value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    vec![
        item.chain.to_string(),
        item.address,
        or_dash(item.reference),
        item.from_height.to_string(),
        word(serde_json::to_value(item.origin)),
        word(serde_json::to_value(item.state)),
    ]
}

fn show_added(added: &[WatchAdded], json: bool) -> anyhow::Result<()> {
    if json {
        return added.iter().try_for_each(print::json);
    }
    for one in added.iter().flat_map(|one| &one.relabelled) {
        let label = |text: &Option<std::sync::Arc<str>>| or_dash(text.as_ref());
        print::line(&format!("{} was watched as {} and is {} now", one.address, label(&one.from), label(&one.to)));
    }
    let row =
        |one: &WatchAdded| vec![one.chain.to_string(), one.count.to_string(), one.from_height.to_string(), or_dash(one.rescan)];
    print::line(&render(
        &["chain", "addresses", "covered from height", "history by rescan"],
        &added.iter().map(row).collect::<Vec<_>>(),
    ));
    Ok(())
}
