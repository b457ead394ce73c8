//! `confirmd chain resume`

use super::args::ChainCommand;
use super::{ask, print};
use anyhow::{anyhow, bail};
use confirmd_api::Operator;
use confirmd_api::view::{Phase, ResumeRequest, ResumeView};
use confirmd_core::ChainName;

pub(super) async fn run(operator: &dyn Operator, command: ChainCommand) -> anyhow::Result<()> {
    let ChainCommand::Resume { chain, accept_reorg, revert_settled, yes, json } = command;
    let halt = halt_of(operator, &chain).await?;
    print::to_stderr(&format!("{chain} is halted {halt}"));
    if accept_reorg {
        let settled = if revert_settled { "; settled deposits above it are taken back, too" } else { "" };
        let what = format!(
            "The node's chain will be taken for the right one: everything reported above the common ancestor is taken back{settled}"
        );
        ask::confirm(&what, yes)?;
    }
    let report = operator.resume(&chain, ResumeRequest { accept_reorg, revert_settled }).await?;
    if json.json { print::json(&report) } else { show(&chain, &report) }
}

/// Why the chain stands still, naming the reorg if it was one.
async fn halt_of(operator: &dyn Operator, name: &ChainName) -> anyhow::Result<String> {
    let status = operator.status().await?;
    let known: Vec<&str> = status.chains.iter().map(|chain| chain.name.as_str()).collect();
    let chain = status.chains.iter().find(|chain| chain.name == *name);
    let chain = chain.ok_or_else(|| anyhow!("no chain is called {name} in the configuration; known: {}", known.join(", ")))?;
    if chain.phase != Phase::Halted {
        bail!("{name} is not halted: it is {}", chain.phase.as_str());
    }
    Ok(chain.detail.clone().unwrap_or_default())
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
