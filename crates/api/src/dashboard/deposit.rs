//! The life of one deposit.

use super::Dashboard;
use super::door::Viewer;
use super::fields::{At, query};
use super::format::{amount, badge, block, delivery_state, deposit_state, foreign, grouped, short, time};
use super::layout::{Answer, Section, page};
use crate::view::{AttemptView, DeliveryWithAttempts, LifeStepView, RuleView};
use axum::Extension;
use axum::extract::State;
use confirmd_core::ChainName;
use maud::{Markup, html};

/// Everything that happened to it, as a timeline.
pub(super) async fn show(
    State(here): State<Dashboard>,
    Extension(viewer): Extension<Viewer>,
    At((chain, tx_id, output_index)): At<(ChainName, String, u32)>,
) -> Answer {
    let life = here.api.operator.deposit(&chain, &tx_id, output_index).await?;
    let deposit = &life.deposit;
    let reference = deposit.reference.as_deref();
    let body = html! {
        div #deposit data-live {
            h1 { (amount(deposit)) " " (deposit_state(deposit.state)) }
            section.panel {
                dl.wide {
                    div { dt { "Reference" } dd { @match reference { Some(text) => { a href={ "/deposits" (query(&[("q", text)])) } { (foreign(text)) } } None => { "none" } } } }
                    div { dt { "Address" } dd { a href={ "/deposits" (query(&[("q", &deposit.address)])) } { code.whole { (deposit.address) } } } }
                    div { dt { "Transaction" } dd { code.whole { (deposit.tx_id) } } }
                    div { dt { "Output" } dd.number { (deposit.output_index) } }
                    div { dt { "Chain" } dd { (chain) " " code { (deposit.chain) } } }
                    div { dt { "Asset" } dd { code.whole { (deposit.asset.id) } } }
                    div { dt { "Base units" } dd.number { (deposit.amount) } }
                    div { dt { "Block" } dd { span.number { (grouped(deposit.block.height.0)) } " " code.whole { (deposit.block.hash) } } }
                    div { dt { "Sequence" } dd.number { (deposit.sequence.0) } }
                }
            }
            section aria-labelledby="life" {
                h2 #life { "Its life" }
                ol.timeline { @for step in &life.life { (step_of(step)) } }
                @if life.life.is_empty() { p.quiet { "History holds no steps of it." } }
            }
            @if !life.deliveries.is_empty() {
                section aria-labelledby="deliveries" {
                    h2 #deliveries { "Deliveries that needed more than one attempt" }
                    @for one in &life.deliveries { (delivery(one)) }
                }
            }
        }
    };
    Ok(page(&viewer, Section::Deposits, "Deposit", here.now(), body))
}

fn step_of(step: &LifeStepView) -> Markup {
    let class = match step.what.as_str() {
        "confirmed" | "settled" => "good",
        "reverted" => "bad",
        "left" => "quiet",
        _ => "wait",
    };
    html! {
        li.(class) {
            (badge(class, &step.what)) " " (time(&step.at)) " UTC"
            div.step {
                @if let Some(at) = &step.block { p { "block " (block(at)) } }
                @if let Some(count) = step.confirmations { p { (grouped(count)) " confirmations" @if let Some(rule) = &step.rule { "; " (rule_of(rule)) } } }
                @if let Some(ancestor) = &step.ancestor { p { "the chains part after block " (block(ancestor)) } }
                @if let Some(floor) = step.floor { p { "final: the floor reached " (grouped(floor.0)) } }
                @if let Some(event) = &step.event {
                    p { "event " a href={ "/deliveries/" (event) } { code { (event) } } @if let Some(sequence) = step.sequence { ", sequence " (sequence.0) } }
                }
            }
        }
    }
}

fn rule_of(rule: &RuleView) -> Markup {
    html! {
        "the rule asks for " (rule.at_least)
        @if let Some(maturity) = rule.maturity { ", the chain itself for " (maturity) }
        @if let Some(tag) = &rule.tag { ", and for the chain's own " (foreign(tag)) @if let Some(height) = rule.tag_height { ", which was at " (grouped(height.0)) } }
    }
}

/// One delivery with its failed attempts.
pub(super) fn delivery(one: &DeliveryWithAttempts) -> Markup {
    let of = &one.delivery;
    html! {
        article.panel {
            h3 { (of.consumer) " " (delivery_state(of.state)) " " a href={ "/deliveries/" (of.event) } { (short(of.event.as_str())) } }
            @if let Some(blocking) = &of.blocked_by { p { "Waits behind " a href={ "/deliveries/" (blocking) } { (short(blocking.as_str())) } } }
            @if let Some(at) = &of.next_attempt_at { p.quiet { "The next attempt is due at " (time(at)) " UTC" } }
            @if one.failed.is_empty() { p.quiet { "No failed attempt is on record." } } @else { (attempts(&one.failed)) }
        }
    }
}

fn attempts(failed: &[AttemptView]) -> Markup {
    html! {
        table {
            caption.unseen { "Failed attempts, oldest first" }
            thead { tr { th.number scope="col" { "No." } th scope="col" { "When (UTC)" } th.number scope="col" { "Status" } th scope="col" { "What went wrong" } } }
            tbody { @for one in failed {
                tr {
                    td.number data-label="No." { (one.number) }
                    td data-label="When" { (time(&one.at)) }
                    td.number data-label="Status" { @match one.status { Some(status) => { (status) } None => { "–" } } }
                    td.text data-label="Error" { (foreign(&one.error)) @if let Some(excerpt) = &one.excerpt { br; span.quiet { "It answered: " } (foreign(excerpt)) } }
                }
            } }
        }
    }
}
