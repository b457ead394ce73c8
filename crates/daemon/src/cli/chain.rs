//! `confirmd chain`

use super::args::ChainCommand;
use super::{ask, print, table};
use anyhow::{anyhow, bail};
use confirmd_api::Operator;
use confirmd_api::view::{CatchUp, ChainDetail, HaltView, ResumeRequest, ResumeView};
use confirmd_core::{BlockRef, ChainName};

pub(super) async fn run(operator: &dyn Operator, command: ChainCommand) -> anyhow::Result<()> {
    match command {
        ChainCommand::Show { chain, json } => {
            let detail = operator.chain(&chain).await?;
            if json.json { print::json(&detail) } else { closely(&detail) }
        }
        ChainCommand::Resume { chain, accept_reorg, revert_settled, yes, json } => {
            let halt = halt_of(operator, &chain).await?;
            let mut request = ResumeRequest { accept_reorg, revert_settled, reorg: None };
            if accept_reorg {
                request.reorg = named(operator, &chain, halt, &request, yes).await?;
            }
            let report = operator.resume(&chain, request).await?;
            if json.json { print::json(&report) } else { show(&chain, &report) }
        }
    }
}

/// Why the chain stands still.
async fn halt_of(operator: &dyn Operator, name: &ChainName) -> anyhow::Result<HaltView> {
    let status = operator.status().await?;
    let known: Vec<&str> = status.chains.iter().map(|chain| chain.name.as_str()).collect();
    let chain = status.chains.iter().find(|chain| chain.name == *name);
    let chain = chain.ok_or_else(|| anyhow!("no chain is called {name} in the configuration; known: {}", known.join(", ")))?;
    match &chain.halt {
        Some(halt) => Ok(halt.clone()),
        None => bail!("{name} is not halted: it is {}", chain.phase.as_str()),
    }
}

/// Shows what accepting would do, asks, and names the reorg.
async fn named(
    operator: &dyn Operator,
    chain: &ChainName,
    halt: HaltView,
    request: &ResumeRequest,
    yes: bool,
) -> anyhow::Result<Option<BlockRef>> {
    let preview = operator.preview(chain, request.clone()).await?;
    let mut what = format!("{chain} is halted since {}: {}\n", halt.at, halt.reason);
    match &preview.ancestor {
        None => what.push_str("The node no longer contradicts our record: nothing is taken back"),
        Some(ancestor) => what.push_str(&format!(
            "The node's chain will be taken for the right one from block {ancestor} on: {} taken back, {} dropped while pending, {} above it{}",
            print::counted(preview.reverted.len(), "reported deposit", "reported deposits"),
            preview.dropped.len(),
            print::counted(preview.settled.len(), "settled deposit", "settled deposits"),
            if request.revert_settled { " taken back, too, where history holds them" } else { " listed and not touched" },
        )),
    }
    ask::confirm(&what, yes)?;
    Ok(halt.reorg)
}

fn closely(detail: &ChainDetail) -> anyhow::Result<()> {
    let chain = &detail.chain;
    print::line(&format!("{} ({}) is {}", chain.name, chain.chain, chain.phase.as_str()));
    if let Some(text) = &chain.detail {
        print::line(text);
    }
    let block = |block: &Option<BlockRef>| table::or_dash(block.as_ref());
    print::line(&format!(
        "our tip {}, the node's {}, floor {}",
        block(&chain.tip),
        block(&chain.source_tip),
        table::or_dash(chain.floor)
    ));
    if let Some(blocks) = chain.lag_blocks {
        let seconds = detail.lag_seconds.map(|seconds| format!(", {}", print::counted(seconds, "second", "seconds")));
        print::line(&format!("lag: {}{}", print::counted(blocks, "block", "blocks"), seconds.unwrap_or_default()));
    }
    if let Some(catch_up) = &chain.catch_up {
        print::line(&catching_up(catch_up));
    }
    for one in &detail.endpoints {
        print::line(&format!("{}  {}: {}", if one.ok { "ok  " } else { "warn" }, one.subject, one.text));
    }
    if let Some(requests) = &chain.requests {
        let rate = requests.per_minute.map(|rate| format!(", {rate} a minute")).unwrap_or_default();
        let limit = requests.limit_per_second.map(|limit| format!(" of {limit} a second for each endpoint")).unwrap_or_default();
        print::line(&format!(
            "requests: {} answered, {} failed, {} throttled{rate}; {} s waited for the limit{limit}",
            requests.answered,
            requests.failed,
            requests.throttled,
            requests.waited_ms / 1_000
        ));
    }
    super::rescan::lines(chain).iter().for_each(|line| print::line(line));
    if let Some(error) = &detail.endpoints_error {
        print::line(&format!("warn  node: {error}"));
    }
    for reorg in &detail.reorgs {
        print::line(&format!(
            "{}: {} above {} replaced{}, {} taken back, {} dropped while pending",
            reorg.at,
            print::counted(reorg.depth, "block", "blocks"),
            reorg.ancestor,
            if reorg.accepted { " (accepted by an operator)" } else { "" },
            print::counted(reorg.reverted, "deposit", "deposits"),
            reorg.dropped
        ));
    }
    Ok(())
}

fn show(chain: &ChainName, report: &ResumeView) -> anyhow::Result<()> {
    print::line(&format!("{chain} is resumed"));
    let Some(ancestor) = &report.ancestor else { return Ok(()) };
    print::line(&format!("the trail starts anew at block {ancestor}"));
    for key in &report.reverted {
        print::line(&format!("taken back: {key}"));
    }
    for key in &report.dropped {
        print::line(&format!("dropped while pending: {key}"));
    }
    for one in &report.settled {
        let key = one.key.as_ref().map_or_else(|| "a deposit older than `state.history`".to_owned(), ToString::to_string);
        let end = if one.reverted { "settled, taken back" } else { "settled, NOT taken back: check it against the node's chain" };
        print::line(&format!("{end}: {key}, in a block at height {}", one.height));
    }
    Ok(())
}

/// How fast, and for how long still.
pub(super) fn catching_up(catch_up: &CatchUp) -> String {
    let left = catch_up.seconds_left.map(|left| format!(", about {} left", print::counted(left, "second", "seconds")));
    format!("catches up at {} blocks a minute{}", catch_up.blocks_per_minute, left.unwrap_or_default())
}
