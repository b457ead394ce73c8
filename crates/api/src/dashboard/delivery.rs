//! One event: its body, and how it went with each consumer.

use super::Dashboard;
use super::deposit::delivery as delivery_card;
use super::door::Viewer;
use super::fields::{At, Fields, query};
use super::format::foreign;
use super::layout::{Answer, Fault, Section, button, csrf, page};
use crate::view::DeliveryView;
use axum::Extension;
use axum::extract::State;
use axum::response::Redirect;
use confirmd_core::{ConsumerName, DeliveryState, EventId};
use maud::{Markup, html};

/// The page of an event.
pub(super) async fn show(State(here): State<Dashboard>, Extension(viewer): Extension<Viewer>, At(event): At<EventId>) -> Answer {
    let detail = here.api.operator.delivery(&event).await?;
    let body = detail.body.as_ref().map(|body| readable(body.get()));
    let body = html! {
        h1 { "Event" }
        p { code.whole { (event) } }
        div #delivery data-live {
            @for one in &detail.deliveries {
                (delivery_card(one))
                @if viewer.may_change { (orders(&viewer, &one.delivery)) }
            }
            @if detail.deliveries.is_empty() { p.quiet { "No consumer has a delivery of it any more." } }
        }
        section aria-labelledby="body" {
            h2 #body { "What consumers get" }
            @match body { Some(body) => { pre tabindex="0" { (foreign(&body)) } } None => { p.quiet { "The body has passed out of history." } } }
        }
    };
    Ok(page(&viewer, Section::Deliveries, "Event", here.now(), body))
}

/// Indented; a body that is no JSON stays as it is.
fn readable(body: &str) -> String {
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(body);
    parsed.ok().and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| body.to_owned())
}

fn orders(viewer: &Viewer, of: &DeliveryView) -> Markup {
    let named = format!("{} {}", of.consumer, of.event);
    html! {
        @if matches!(of.state, DeliveryState::Dead | DeliveryState::Blocked | DeliveryState::Retrying | DeliveryState::Skipped) {
            div.controls { (button(viewer, "/deliveries/requeue", "main", &format!("Requeue for {}", of.consumer), &[("scope", "selected"), ("only", &named)])) }
        }
        @if matches!(of.state, DeliveryState::Dead | DeliveryState::Blocked | DeliveryState::Retrying) {
            form.controls method="post" action={ "/deliveries/" (of.event) "/skip" } {
                (csrf(viewer))
                input type="hidden" name="consumer" value=(of.consumer);
                label.check { input type="checkbox" name="sure" value="yes" required; " " (of.consumer) " never hears of it from us; it is booked by hand" }
                button.danger type="submit" { "Give it up" }
            }
        }
    }
}

/// Gives an event up for one consumer.
pub(super) async fn skip(State(here): State<Dashboard>, At(event): At<EventId>, fields: Fields) -> Result<Redirect, Fault> {
    let consumer: ConsumerName = fields.needed("consumer")?;
    let _sure: String = fields.needed("sure")?;
    here.api.operator.skip(&consumer, &event).await?;
    Ok(Redirect::to(&format!("/deliveries{}", query(&[("done", "skipped"), ("consumer", consumer.as_str())]))))
}
