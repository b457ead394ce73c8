//! `confirmd watch`

use super::args::WatchCommand;
use super::print;
use super::table::{or_dash, render};
use confirmd_api::Operator;
use confirmd_api::view::{WatchAdded, WatchQuery, WatchRequest, Watched};

pub(super) async fn run(operator: &dyn Operator, command: WatchCommand) -> anyhow::Result<()> {
    match command {
        WatchCommand::Add { chain, address, reference, json } => {
            let entry = WatchRequest { chain, address, reference: reference.map(Into::into), from_height: None, line: None };
            show_added(&operator.watch_add(vec![entry]).await?, json.json)
        }
        WatchCommand::Remove { chain, addresses } => {
            let asked = addresses.len();
            let removed = operator.watch_remove(&chain, addresses).await?;
            print::line(&format!("{} of {asked} addresses were watched and take no new deposits now", removed.count));
            Ok(())
        }
        WatchCommand::Import { file, from_line, json } => {
            show_added(&super::import::run(operator, &file, from_line).await?, json.json)
        }
        WatchCommand::List { chain, address, reference, list } => {
            let (mut after, mut left) = (None, list.limit);
            let mut rows = Vec::new();
            loop {
                let limit = Some(if list.all { 1_000 } else { left });
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
    let row = |one: &WatchAdded| vec![one.chain.to_string(), one.count.to_string(), one.from_height.to_string()];
    print::line(&render(&["chain", "addresses", "covered from height"], &added.iter().map(row).collect::<Vec<_>>()));
    Ok(())
}
