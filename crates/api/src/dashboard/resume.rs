//! Resuming a halted chain: first what it would do, then the order, which names the reorg it accepts.

use super::Dashboard;
use super::door::Viewer;
use super::fields::{At, Fields, query, segment};
use super::format::{badge, block, counted, deposit_path, foreign, grouped, short, time};
use super::layout::{Answer, Fault, Section, csrf, page};
use crate::OperatorError;
use crate::view::{HaltView, ResumeRequest, ResumeView};
use axum::Extension;
use axum::extract::State;
use axum::response::Redirect;
use confirmd_core::{BlockHash, BlockRef, ChainName, DepositKey, Height};
use maud::{Markup, html};

/// What resuming would do. Changes nothing.
pub(super) async fn preview(
    State(here): State<Dashboard>,
    Extension(viewer): Extension<Viewer>,
    At(name): At<ChainName>,
) -> Answer {
    let operator = &here.api.operator;
    let status = operator.status().await?;
    let chain = status.chains.iter().find(|chain| chain.name == name);
    let chain = chain.ok_or_else(|| OperatorError::not_found(format!("there is no chain {name}")))?;
    let Some(halt) = &chain.halt else {
        let text = format!("{name} is not halted: it is {}; there is nothing to resume", chain.phase.as_str());
        return Err(Fault(OperatorError::conflict(text)));
    };
    let seen = match &halt.reorg {
        Some(seen) => {
            let request = ResumeRequest { accept_reorg: true, ..ResumeRequest::default() };
            Some((seen, operator.preview(&name, request).await))
        }
        None => None,
    };
    let body = html! {
        h1 { "Resume " (name) }
        div.alert {
            p { strong { "Halted since " (time(&halt.at)) " UTC. " } (foreign(&halt.reason)) }
            p { strong { "What to do: " } (foreign(&halt.remedy)) }
        }
        (plainly(&viewer, &name, halt))
        @if let Some((seen, would)) = &seen { (accepting(&viewer, &name, seen, would.as_ref())) }
        p { a href={ "/chains/" (segment(name.as_str())) } { "Back to " (name) } }
    };
    Ok(page(&viewer, Section::Overview, &format!("Resume {name}"), here.now(), body))
}

fn plainly(viewer: &Viewer, name: &ChainName, halt: &HaltView) -> Markup {
    let action = format!("/chains/{}/resume", segment(name.as_str()));
    html! {
        section.panel aria-labelledby="plainly" {
            h2 #plainly { @if halt.reorg.is_some() { "The node was wrong and is repaired" } @else { "The cause is mended" } }
            p { "The node is asked again. If the cause is still there, the chain stays halted or halts again, and nothing is worse than before." }
            @if viewer.may_change {
                form method="post" action=(action) { (csrf(viewer)) button.main[halt.reorg.is_none()] type="submit" { "Resume " (name) } }
            }
        }
    }
}

fn accepting(viewer: &Viewer, name: &ChainName, seen: &BlockRef, would: Result<&ResumeView, &OperatorError>) -> Markup {
    let action = format!("/chains/{}/resume", segment(name.as_str()));
    html! {
        section.panel aria-labelledby="accepting" {
            h2 #accepting { "The network reorganised: accept the reorg" }
            p { "Only after a second, independent source names the node's block " (block(seen)) ", too." }
            @match would {
                Err(error) => { p.alert { strong { "What it would do can't be told now. " } (foreign(&error.text)) } }
                Ok(would) => {
                    (effects(name, would))
                    @if viewer.may_change {
                        form method="post" action=(action) {
                            (csrf(viewer))
                            @if !would.settled.is_empty() {
                                p { label.check { input type="checkbox" name="revert_settled" value="yes"; " Revert the " (counted(would.settled.len().try_into().unwrap_or(u64::MAX), "settled deposit", "settled deposits")) ", too (can't be done later)" } }
                            }
                            p { label.check { input type="checkbox" name="accept" required value={ (seen.height) ":" (seen.hash) };
                                " I accept the reorg named by block " span.number { (grouped(seen.height.0)) } " " code.whole { (seen.hash) } } }
                            button.danger type="submit" { "Accept this reorg and resume " (name) }
                        }
                    }
                }
            }
        }
    }
}

fn effects(name: &ChainName, would: &ResumeView) -> Markup {
    html! {
        p { "This is a preview; nothing has changed yet."
            @if let Some(ancestor) = &would.ancestor { " The trail would start anew at block " (block(ancestor)) "." } }
        (keys(name, "would be reverted: its consumers are told", "would be reverted: their consumers are told", &would.reverted))
        (keys(name, "pending one would be dropped", "pending ones would be dropped", &would.dropped))
        p { strong { (grouped(would.settled.len().try_into().unwrap_or(u64::MAX))) } " settled above the ancestor" }
        @if !would.settled.is_empty() {
            ul { @for one in &would.settled { li {
                "at " span.number { (grouped(one.height.0)) } " "
                @match &one.key {
                    Some(key) => { a href=(deposit_path(name, key.tx_id.as_str(), key.output_index)) { (short(key.tx_id.as_str())) ":" (key.output_index) } }
                    None => { (badge("wait", "its event has passed out of history: by hand")) }
                }
            } } }
        }
    }
}

fn keys(name: &ChainName, one: &str, more: &str, keys: &[DepositKey]) -> Markup {
    let count = u64::try_from(keys.len()).unwrap_or(u64::MAX);
    html! {
        p { strong { (grouped(count)) } " " @if count == 1 { (one) } @else { (more) } }
        @if !keys.is_empty() {
            ul { @for key in keys { li { a href=(deposit_path(name, key.tx_id.as_str(), key.output_index)) { (short(key.tx_id.as_str())) ":" (key.output_index) } } } }
        }
    }
}

/// Resumes it; with `accept`, after the reorg that it names.
pub(super) async fn resume(State(here): State<Dashboard>, At(name): At<ChainName>, fields: Fields) -> Result<Redirect, Fault> {
    let reorg = fields.get("accept").map(named).transpose()?;
    let request = ResumeRequest {
        accept_reorg: reorg.is_some(),
        revert_settled: reorg.is_some() && fields.get("revert_settled").is_some(),
        reorg,
    };
    here.api.operator.resume(&name, request).await?;
    Ok(Redirect::to(&format!("/chains/{}{}", segment(name.as_str()), query(&[("done", "resumed")]))))
}

/// `HEIGHT:HASH`.
fn named(text: &str) -> Result<BlockRef, OperatorError> {
    let wrong = || OperatorError::invalid(format!("{text:?} names no block; look at the preview again"));
    let (height, hash) = text.split_once(':').ok_or_else(wrong)?;
    Ok(BlockRef { height: Height(height.parse().map_err(|_| wrong())?), hash: BlockHash::new(hash).map_err(|_| wrong())? })
}
