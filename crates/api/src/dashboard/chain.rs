//! One chain closely; its node is asked.

use super::Dashboard;
use super::door::Viewer;
use super::fields::At;
use super::fields::{Fields, query};
use super::format::{ago, badge, block, foreign, grouped, span};
use super::layout::{Answer, Section, done, page};
use super::overview::{halt_panel, lag_plot, phase_badge};
use super::{reorgs, rescans};
use crate::view::ChainDetail;
use axum::Extension;
use axum::extract::State;
use confirmd_core::ChainName;
use maud::{Markup, html};

/// The page of a chain.
pub(super) async fn show(
    State(here): State<Dashboard>,
    Extension(viewer): Extension<Viewer>,
    At(name): At<ChainName>,
    fields: Fields,
) -> Answer {
    let detail = here.api.operator.chain(&name).await?;
    let (now, samples) = (here.now(), here.samples.all());
    let chain = &detail.chain;
    let body = html! {
        (done(&fields))
        div #chain data-live {
            h1 { (chain.name) " " (phase_badge(chain.phase)) }
            (halt_panel(&viewer, chain, now))
            section.panel {
                dl.wide {
                    div { dt { "Network" } dd { code { (chain.chain) } } }
                    div { dt { "Our tip" } dd { @match &chain.tip { Some(tip) => { (block(tip)) } None => { "none yet" } } } }
                    div { dt { "The node's tip" } dd { @match &chain.source_tip { Some(tip) => { (block(tip)) } None => { "unknown" } } } }
                    div { dt { "Lag" } dd { @match chain.lag_blocks { Some(lag) => { (grouped(lag)) " blocks" } None => { "unknown" } }
                        @if let Some(seconds) = detail.lag_seconds { ", " (span(seconds)) } } }
                    div { dt { "Final at and below" } dd { @match chain.floor { Some(floor) => { (grouped(floor.0)) } None => { "unknown" } } } }
                    div { dt { "Deposits" } dd { a href={ "/deposits" (query(&[("chain", chain.name.as_str()), ("state", "pending")])) } { (grouped(chain.pending)) " pending" }
                        ", " a href={ "/deposits" (query(&[("chain", chain.name.as_str()), ("state", "confirmed")])) } { (grouped(chain.reported)) " revertible" } } }
                    div { dt { "Watched" } dd { a href={ "/addresses" (query(&[("chain", chain.name.as_str())])) } { (grouped(chain.watched)) " addresses" } } }
                    @if let Some(at) = &chain.updated_at { div { dt { "Looked last" } dd { (ago(at, now)) } } }
                }
                (lag_plot(&chain.name, &samples))
            }
            (rescans::section(chain, now))
            (reorgs::section(&detail.reorgs, now))
            (node(&detail))
        }
    };
    Ok(page(&viewer, Section::Overview, chain.name.as_str(), now, body))
}

fn node(detail: &ChainDetail) -> Markup {
    html! {
        section aria-labelledby="node" {
            h2 #node { "Its node" }
            p.quiet { (grouped(detail.connections)) " connections since the start: reconnects and changes of endpoint count." }
            @if let Some(requests) = &detail.chain.requests {
                p.quiet { "Requests: " (grouped(requests.answered)) " answered, " (grouped(requests.failed)) " failed, " (grouped(requests.throttled)) " throttled"
                    @if let Some(rate) = requests.per_minute { ", " (grouped(rate)) " a minute" }
                    "; " (span(requests.waited_ms / 1_000)) " waited for the limit"
                    @if let Some(limit) = requests.limit_per_second { " of " (grouped(limit)) " a second for each endpoint" } "." }
            }
            @if let Some(error) = &detail.endpoints_error { p.alert { (foreign(error)) } }
            @if !detail.endpoints.is_empty() {
                table {
                    caption.unseen { "What the node says of itself" }
                    thead { tr { th scope="col" { "Subject" } th scope="col" { "State" } th scope="col" { "What was found" } } }
                    tbody {
                        @for one in &detail.endpoints {
                            tr {
                                td data-label="Subject" { (foreign(&one.subject)) }
                                td data-label="State" { @if one.ok { (badge("good", "ok")) } @else { (badge("bad", "not ok")) } }
                                td.text data-label="Found" { (foreign(&one.text)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
