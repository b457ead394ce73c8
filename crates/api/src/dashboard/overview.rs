//! Everything at a glance: what is wrong, and what to do about it.

use super::Dashboard;
use super::consumers;
use super::door::Viewer;
use super::fields::{Fields, segment};
use super::format::{ago, badge, block, foreign, grouped, span};
use super::layout::{Answer, Section, done, page};
use super::plot::{Plot, Point};
use super::rescans;
use super::samples::Sample;
use crate::view::{ChainView, Phase, Status};
use axum::Extension;
use axum::extract::State;
use confirmd_core::{ChainName, ConsumerName, Timestamp};
use maud::{Markup, html};

/// The first page.
pub(super) async fn show(State(here): State<Dashboard>, Extension(viewer): Extension<Viewer>, fields: Fields) -> Answer {
    let status = here.api.operator.status().await?;
    let (figures, now, samples) = (here.figures().await, here.now(), here.samples.all());
    let body = html! {
        h1.unseen { "Overview" }
        (done(&fields))
        div #overview data-live {
            (verdict(&status))
            section aria-labelledby="chains" {
                h2 #chains { "Chains" }
                div.cards {
                    @for chain in &status.chains { (chain_card(&viewer, chain, &samples, now)) }
                }
            }
            section aria-labelledby="consumers" {
                h2 #consumers { "Consumers" }
                @if status.consumers.is_empty() { p.quiet { "No consumer has records." } }
                div.cards {
                    @for consumer in &status.consumers {
                        (consumers::card(&viewer, consumer, &figures, &samples, now))
                    }
                }
            }
            section aria-labelledby="over-time" {
                h2 #over-time { "Over time" }
                p.quiet { "Kept in memory, up to 6 h; a restart begins it anew." }
                div.plots { (deposits_plot(&samples)) }
            }
            p.quiet.small { "Version " (status.version) " (" (status.revision) "), state " code { (status.state) } ", epoch " (status.epoch)
                @if let Some(at) = &status.started_at { ", started " (ago(at, now)) } }
        }
    };
    Ok(page(&viewer, Section::Overview, "Overview", now, body))
}

/// Where the chains are while nothing is wrong.
fn chains_now(chains: &[ChainView]) -> String {
    let busy = chains.iter().filter(|chain| chain.phase != Phase::Following);
    let busy: Vec<String> = busy.map(|chain| format!("{} is {}", chain.name, chain.phase.as_str())).collect();
    if busy.is_empty() { "Every chain follows its node".to_owned() } else { busy.join(", ") }
}

/// One line: is a person needed?
fn verdict(status: &Status) -> Markup {
    let mut wrong = status.not_ready();
    if let Some(refused) = status.configuration.as_ref().and_then(|configuration| configuration.refused.as_ref()) {
        wrong.push(format!("the configuration file was refused at {} and is not in effect: {}", refused.at, refused.problem));
    }
    for consumer in &status.consumers {
        if let Some(why) = &consumer.paused {
            wrong.push(format!("{} is paused: {why}", consumer.name));
        }
        if consumer.dead > 0 {
            wrong.push(format!("{} has {} dead letters", consumer.name, consumer.dead));
        }
    }
    html! {
        @if wrong.is_empty() {
            p.verdict.good { strong { "All is well." } " " (chains_now(&status.chains)) "; nothing waits for a person." }
        } @else {
            div.verdict.bad role="alert" {
                strong { "A person is needed." }
                ul { @for text in &wrong { li { (foreign(text)) } } }
            }
        }
    }
}

/// A phase: colour and word.
pub(super) fn phase_badge(phase: Phase) -> Markup {
    let class = match phase {
        Phase::Following => "good",
        Phase::Starting | Phase::CatchingUp | Phase::Behind | Phase::WaitingForFork => "wait",
        Phase::Halted | Phase::Unreachable | Phase::Stopped => "bad",
    };
    badge(class, phase.as_str())
}

fn chain_card(viewer: &Viewer, chain: &ChainView, samples: &[Sample], now: Timestamp) -> Markup {
    let path = format!("/chains/{}", segment(chain.name.as_str()));
    html! {
        article.card.halted[chain.phase == Phase::Halted] {
            h3 { a href=(path) { (chain.name) } " " (phase_badge(chain.phase)) }
            (halt_panel(viewer, chain, now))
            dl {
                div { dt { "Tip" } dd { @match &chain.tip { Some(tip) => { (block(tip)) }, None => { "none yet" } } } }
                div { dt { "Lag" } dd { (lag(chain)) } }
                div { dt { "Deposits" } dd { (grouped(chain.pending)) " pending, " (grouped(chain.reported)) " revertible" } }
                div { dt { "Last reorg" } dd {
                    @match &chain.last_reorg {
                        Some(reorg) => { (grouped(reorg.orphaned)) " blocks, " (grouped(reorg.reverted)) " reverted, " (ago(&reorg.at, now)) }
                        None => { "none since the start" }
                    }
                } }
                @for rescan in &chain.rescans { div { dt { "Rescan " (rescan.id) } dd { (rescans::progress(rescan)) } } }
                @if let Some(requests) = &chain.requests { div { dt { "Requests" } dd {
                    @match requests.per_minute { Some(rate) => { (grouped(rate)) " a minute" } None => { "rate not known yet" } }
                    @if let Some(limit) = requests.limit_per_second { ", limit " (grouped(limit)) " a second" }
                } } }
            }
            (lag_plot(&chain.name, samples))
        }
    }
}

/// Why it stands still or what is odd, in words, and the way out.
pub(super) fn halt_panel(viewer: &Viewer, chain: &ChainView, now: Timestamp) -> Markup {
    html! {
        @if let Some(halt) = &chain.halt {
            div.alert {
                p { strong { "Halted " (ago(&halt.at, now)) ". " } (foreign(&halt.reason)) }
                p { strong { "What to do: " } (foreign(&halt.remedy)) }
                @if viewer.may_change {
                    p { a.button.main href={ "/chains/" (segment(chain.name.as_str())) "/resume" } { "Resume " (chain.name) "…" } }
                }
            }
        } @else if let Some(detail) = &chain.detail {
            p.notice { (foreign(detail)) }
        } @else if let Some(alarm) = &chain.alarm {
            p.notice { (foreign(alarm)) }
        }
    }
}

fn lag(chain: &ChainView) -> Markup {
    html! {
        @match chain.lag_blocks {
            Some(1) => { "1 block" }
            Some(blocks) => { (grouped(blocks)) " blocks" }
            None => { "unknown" }
        }
        @if let Some(catch_up) = &chain.catch_up {
            ", " (grouped(catch_up.blocks_per_minute)) " a minute"
            @if let Some(left) = catch_up.seconds_left { ", " (span(left)) " left" }
        }
    }
}

/// Blocks behind the node.
pub(super) fn lag_plot(chain: &ChainName, samples: &[Sample]) -> Markup {
    let points: Vec<Point> =
        samples.iter().filter_map(|sample| Some((sample.at, sample.chains.get(chain)?.lag_blocks?))).collect();
    Plot { title: "Lag", unit: " blocks", class: "blue", empty: "Nothing is known yet." }.line(&points)
}

/// What came between one sample and the next.
fn steps(samples: &[Sample], count: impl Fn(&Sample) -> u64) -> Vec<Point> {
    let pairs = samples.iter().zip(samples.iter().skip(1));
    pairs.map(|(before, after)| (after.at, count(after).saturating_sub(count(before)))).filter(|(_, step)| *step > 0).collect()
}

fn deposits_plot(samples: &[Sample]) -> Markup {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return html! {} };
    let confirmed = steps(samples, |sample| sample.chains.values().map(|chain| chain.confirmed).sum());
    let reverted = steps(samples, |sample| sample.chains.values().map(|chain| chain.reverted).sum());
    html! {
        (Plot { title: "Deposits confirmed", unit: "", class: "green", empty: "None within this time." }.bars(first.at, last.at, &confirmed, true))
        (Plot { title: "Deposits reverted", unit: "", class: "red", empty: "None within this time." }.bars(first.at, last.at, &reverted, true))
    }
}

/// Mean time from decided to accepted, sample by sample.
pub(super) fn latency_plot(consumer: &ConsumerName, samples: &[Sample]) -> Markup {
    let of = samples.iter().filter_map(|sample| Some((sample.at, *sample.consumers.get(consumer)?))).collect::<Vec<_>>();
    let pairs = of.iter().zip(of.iter().skip(1));
    let means = pairs.filter_map(|((_, before), (at, after))| {
        let took = after.delivery_ms.saturating_sub(before.delivery_ms);
        Some((*at, took.checked_div(after.delivered.checked_sub(before.delivered)?)?))
    });
    let empty = "Nothing was delivered within this time.";
    Plot { title: "Delivery latency", unit: " ms", class: "blue", empty }.line(&means.collect::<Vec<_>>())
}
