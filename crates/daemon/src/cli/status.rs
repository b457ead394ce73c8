//! `confirmd status`

use super::table::or_dash;
use super::{consumer, print, table};
use confirmd_api::Operator;
use confirmd_api::view::ChainView;

const HEAD: [&str; 10] = [
    "chain",
    "phase",
    "height",
    "node's tip",
    "blocks behind",
    "floor",
    "watched",
    "pending",
    "reported",
    "requests a minute (limit a second)",
];

pub(super) async fn run(operator: &dyn Operator, json: bool) -> anyhow::Result<()> {
    let status = operator.status().await?;
    if json {
        return print::json(&status);
    }
    let since = status.started_at.as_ref().map(|at| format!("runs since {at}"));
    print::line(&format!(
        "confirmd {} ({}), state {} of epoch {}: {}",
        status.version,
        status.revision,
        status.state,
        status.epoch,
        since.unwrap_or_else(|| "no instance runs".to_owned())
    ));
    if let Some(refused) = status.configuration.as_ref().and_then(|configuration| configuration.refused.as_ref()) {
        print::line(&format!("the configuration file was refused at {} and is not in effect: {}", refused.at, refused.problem));
    }
    print::line("");
    let rows: Vec<_> = status.chains.iter().map(row).collect();
    print::line(&table::render(&HEAD, &rows));
    for chain in &status.chains {
        super::rescan::lines(chain).iter().for_each(|line| print::line(line));
        if let Some(catch_up) = &chain.catch_up {
            print::line(&format!("{}: {}", chain.name, super::chain::catching_up(catch_up)));
        }
        if let Some(detail) = &chain.detail {
            print::line(&format!("{}: {detail}", chain.name));
        }
        if let Some(reorg) = &chain.last_reorg {
            print::line(&format!(
                "{}: last reorg at {}: {} above {} replaced, {} taken back",
                chain.name,
                reorg.at,
                print::counted(reorg.orphaned, "block", "blocks"),
                reorg.ancestor,
                print::counted(reorg.reverted, "deposit", "deposits")
            ));
        }
    }
    print::line("");
    print::line(&consumer::render(&status.consumers));
    consumer::remedies(&status.consumers).iter().for_each(|line| print::line(line));
    Ok(())
}

fn row(chain: &ChainView) -> Vec<String> {
    vec![
        chain.name.to_string(),
        chain.phase.as_str().to_owned(),
        or_dash(chain.tip.as_ref().map(|tip| tip.height)),
        or_dash(chain.source_tip.as_ref().map(|tip| tip.height)),
        or_dash(chain.lag_blocks),
        or_dash(chain.floor),
        chain.watched.to_string(),
        chain.pending.to_string(),
        chain.reported.to_string(),
        or_dash(chain.requests.as_ref().map(|requests| {
            let limit = requests.limit_per_second.map(|limit| format!(" ({limit})")).unwrap_or_default();
            format!("{}{limit}", or_dash(requests.per_minute))
        })),
    ]
}
