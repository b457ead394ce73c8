//! Consumers: how each stands; pausing, going on, and a test.

use super::Dashboard;
use super::door::Viewer;
use super::fields::At;
use super::fields::{Fields, query, segment};
use super::format::{ago, badge, counted, foreign, grouped, span};
use super::layout::{Answer, Fault, Section, button, csrf, page};
use super::overview::latency_plot;
use super::samples::{Sample, per_minute};
use crate::Figures;
use crate::view::ConsumerView;
use axum::Extension;
use axum::extract::State;
use axum::response::Redirect;
use confirmd_core::{ConsumerName, Timestamp};
use maud::{Markup, html};

/// One consumer on the overview.
pub(super) fn card(viewer: &Viewer, consumer: &ConsumerView, figures: &Figures, samples: &[Sample], now: Timestamp) -> Markup {
    let counts = figures.consumers.iter().find(|one| one.consumer == consumer.name);
    let list = |state: &str| format!("/deliveries{}", query(&[("consumer", consumer.name.as_str()), ("state", state)]));
    html! {
        article.card.halted[consumer.dead > 0 || consumer.paused.is_some()] {
            h3 { a href={ "/deliveries" (query(&[("consumer", consumer.name.as_str())])) } { (consumer.name) } " " (state_badge(consumer)) }
            @if let Some(why) = &consumer.paused { p.alert { strong { "Paused: " } (foreign(why)) } }
            @if let Some((since, error)) = counts.and_then(|counts| counts.failing.as_ref()) {
                p.notice { "Every attempt fails since " (span(now.since(*since).as_secs())) ": " (foreign(error)) }
            }
            dl {
                div { dt { "Delivered" } dd {
                    @match counts { Some(counts) => { (grouped(per_minute(samples, &consumer.name, counts.delivered, now))) " a minute" } None => { "unknown" } }
                } }
                div { dt { "Waiting" } dd { a href=(list("queued")) { (grouped(consumer.waiting)) }
                    @if consumer.retrying > 0 { ", " a href=(list("retrying")) { (grouped(consumer.retrying)) " retrying" } }
                    @if consumer.blocked > 0 { ", " a href=(list("blocked")) { (grouped(consumer.blocked)) " blocked" } }
                } }
                div { dt { "Oldest undelivered" } dd {
                    @match counts.and_then(|counts| counts.oldest) { Some(at) => { (ago(&at.to_rfc3339(), now)) } None => { "none" } }
                } }
                div { dt { "Dead letters" } dd { @if consumer.dead > 0 { a.bad href=(list("dead")) { (grouped(consumer.dead)) } } @else { "0" } } }
            }
            (latency_plot(&consumer.name, samples))
            @if viewer.may_change { (controls(viewer, consumer)) }
        }
    }
}

fn state_badge(consumer: &ConsumerView) -> Markup {
    match (consumer.paused.is_some(), consumer.dead, consumer.retrying) {
        (true, ..) => badge("bad", "paused"),
        (_, 1.., _) => badge("bad", &counted(consumer.dead, "dead letter", "dead letters")),
        (_, _, 1..) => badge("wait", "retrying"),
        _ => badge("good", "delivering"),
    }
}

/// Pause or go on, and a test where that is safe.
pub(super) fn controls(viewer: &Viewer, consumer: &ConsumerView) -> Markup {
    let path = |what: &str| format!("/consumers/{}/{what}", segment(consumer.name.as_str()));
    let id = format!("why-{}", consumer.name);
    html! {
        div.controls {
            @if consumer.paused.is_some() {
                (button(viewer, &path("resume"), "main", &format!("Resume {}", consumer.name), &[]))
            } @else {
                form.inline method="post" action=(path("pause")) {
                    (csrf(viewer))
                    label.unseen for=(id) { "Why " (consumer.name) " is paused" }
                    input #(id) name="why" placeholder="why" maxlength="200";
                    button type="submit" { "Pause " (consumer.name) }
                }
            }
            @if consumer.kind.as_deref() == Some("webhook") { (button(viewer, &path("test"), "plain", "Send a test event", &[])) }
        }
    }
}

/// Stops attempts.
pub(super) async fn pause(State(here): State<Dashboard>, At(name): At<ConsumerName>, fields: Fields) -> Result<Redirect, Fault> {
    let why = fields.owned("why").unwrap_or_else(|| "paused on the page".to_owned());
    here.api.operator.pause(&name, Some(why)).await?;
    Ok(Redirect::to("/?done=paused"))
}

/// Goes on.
pub(super) async fn resume(State(here): State<Dashboard>, At(name): At<ConsumerName>) -> Result<Redirect, Fault> {
    here.api.operator.pause(&name, None).await?;
    Ok(Redirect::to("/?done=resumed"))
}

/// Sends one marked event and shows how it went.
pub(super) async fn test(
    State(here): State<Dashboard>,
    Extension(viewer): Extension<Viewer>,
    At(name): At<ConsumerName>,
) -> Answer {
    let result = here.api.operator.test_event(&name).await?;
    let body = html! {
        h1 { "Test of " (name) }
        section.panel {
            p { @if result.delivered { (badge("good", "accepted")) } @else { (badge("bad", "not accepted")) }
                " within " (grouped(result.took_ms)) " ms"
                @if let Some(status) = result.status { ", HTTP status " (status) } }
            @if let Some(error) = &result.error { p.alert { (foreign(error)) } }
            p.quiet { "Event " code { (result.event) } ", marked as a test; a receiver books nothing for it." }
            p { a href="/" { "To the overview" } }
        }
    };
    Ok(page(&viewer, Section::Overview, "Test event", here.now(), body))
}
