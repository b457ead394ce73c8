//! Deliveries: dead letters in groups, and the list with its buttons.

use super::Dashboard;
use super::consumers::controls;
use super::door::Viewer;
use super::fields::{Fields, query};
use super::format::{ago, counted, delivery_state, foreign, grouped, short, span, word};
use super::layout::{Answer, Section, choice, csrf, done, more, page};
use crate::view::{ConsumerView, DeadGroup, DeadQuery, DeliveryQuery, DeliveryView};
use axum::Extension;
use axum::extract::State;
use confirmd_core::{ConsumerName, DeliveryState, Timestamp};
use maud::{Markup, html};
use sha2::{Digest, Sha256};

const ROWS: u32 = 50;
const STATES: [DeliveryState; 6] = [
    DeliveryState::Queued,
    DeliveryState::Retrying,
    DeliveryState::Dead,
    DeliveryState::Blocked,
    DeliveryState::Skipped,
    DeliveryState::Delivered,
];
/// Deposits a second that come due when many are requeued, unless the form says otherwise.
pub(super) const PER_SECOND: &str = "50";

/// What is not delivered.
pub(super) async fn list(State(here): State<Dashboard>, Extension(viewer): Extension<Viewer>, fields: Fields) -> Answer {
    let operator = &here.api.operator;
    let consumer: Option<ConsumerName> = fields.parsed("consumer")?;
    let state: Option<DeliveryState> = fields.word("state")?;
    let asked = DeliveryQuery {
        consumer: consumer.clone(),
        state,
        after: fields.get("after").map(crate::Cursor::new),
        limit: Some(ROWS),
        ..DeliveryQuery::default()
    };
    let consumers = operator.consumers().await?;
    let groups = operator.dead_letters(&DeadQuery { consumer: consumer.clone() }).await?;
    let found = operator.deliveries(&asked).await?;
    let now = here.now();
    let names: Vec<String> = consumers.iter().map(|one| one.name.to_string()).collect();
    let states: Vec<String> = STATES.iter().map(word).collect();
    let body = html! {
        h1 { "Deliveries" }
        (done(&fields))
        form.search method="get" action="/deliveries" {
            (choice("consumer", "Consumer", "any", fields.text("consumer"), &names))
            (choice("state", "State", "any", fields.text("state"), &states))
            button type="submit" { "Show" }
        }
        div #deliveries data-live {
            @if let Some(one) = consumer.as_ref().and_then(|name| consumers.iter().find(|one| one.name == *name)) { (of_consumer(&viewer, one)) }
            (dead(&viewer, &groups, now))
            section aria-labelledby="undelivered" {
                h2 #undelivered { @match state { Some(state) => { "Deliveries: " (word(&state)) } None => { "Not delivered" } } }
                @if found.items.is_empty() {
                    p.empty { @if state.is_none() { "Everything is delivered." } @else { "None is in this state." } }
                } @else { (table(&viewer, &found.items, now)) }
                (more(&fields, found.next.as_ref()))
            }
        }
    };
    Ok(page(&viewer, Section::Deliveries, "Deliveries", now, body))
}

fn of_consumer(viewer: &Viewer, one: &ConsumerView) -> Markup {
    html! {
        section.panel {
            @if let Some(why) = &one.paused { p.alert { strong { (one.name) " is paused: " } (foreign(why)) } }
            p { (grouped(one.waiting)) " waiting, " (grouped(one.retrying)) " retrying, " (grouped(one.blocked)) " blocked, " (counted(one.dead, "dead letter", "dead letters")) }
            @if viewer.may_change { (controls(viewer, one)) }
        }
    }
}

/// Dead letters that failed alike, each group with its button.
fn dead(viewer: &Viewer, groups: &[DeadGroup], now: Timestamp) -> Markup {
    let mut consumers: Vec<&ConsumerName> = groups.iter().map(|group| &group.consumer).collect();
    consumers.sort();
    consumers.dedup();
    html! {
        section aria-labelledby="dead" {
            h2 #dead { "Dead letters" }
            @if groups.is_empty() { p.empty { "None. Every event is delivered or still being tried." } }
            @for group in groups { (group_card(viewer, group, now)) }
            @if viewer.may_change {
                @for consumer in consumers {
                    @let total: u64 = groups.iter().filter(|group| group.consumer == *consumer).map(|group| group.count).sum();
                    form.controls method="post" action="/deliveries/requeue" {
                        (csrf(viewer))
                        input type="hidden" name="scope" value="all";
                        input type="hidden" name="consumer" value=(consumer);
                        (pace(&format!("pace-{consumer}")))
                        button.main type="submit" { "Requeue all " (grouped(total)) " of " (consumer) }
                    }
                }
            }
        }
    }
}

fn pace(id: &str) -> Markup {
    html! {
        label for=(id) { "at most" } input.narrow #(id) name="per_second" type="number" min="1" max="10000" value=(PER_SECOND); span { "deposits a second" }
    }
}

/// Names a group in a form: a form would change line breaks within its error.
pub(super) fn name_of(group: &DeadGroup) -> String {
    let digest = Sha256::digest(format!("{:?} {}", group.status, group.error).as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn group_card(viewer: &Viewer, group: &DeadGroup, now: Timestamp) -> Markup {
    let (first, last) = (Timestamp::from_rfc3339(&group.first_at), Timestamp::from_rfc3339(&group.last_at));
    let lasted = first.zip(last).map(|(first, last)| last.since(first).as_secs());
    let status = group.status.map(|status| status.to_string());
    html! {
        article.card.halted {
            h3 { (group.consumer) ": " (counted(group.count, "delivery", "deliveries"))
                @if let Some(lasted) = lasted.filter(|lasted| *lasted > 0) { ", " (span(lasted)) }
                @match &status { Some(status) => { ", all " (status) } None => { ", no HTTP status" } } }
            p { (foreign(&group.error)) }
            @if let Some(excerpt) = &group.excerpt { p { span.quiet { "One was answered: " } (foreign(excerpt)) } }
            p.quiet { "Last attempts: first " (ago(&group.first_at, now)) ", last " (ago(&group.last_at, now)) "; for example " a href={ "/deliveries/" (group.example) } { (short(group.example.as_str())) } }
            @if viewer.may_change {
                form.controls method="post" action="/deliveries/requeue" {
                    (csrf(viewer))
                    input type="hidden" name="scope" value="group";
                    input type="hidden" name="consumer" value=(group.consumer);
                    input type="hidden" name="group" value=(name_of(group));
                    input type="hidden" name="per_second" value=(PER_SECOND);
                    button type="submit" { "Requeue " @match group.count { 1 => { "this one" } count => { "these " (grouped(count)) } } }
                }
            }
        }
    }
}

fn table(viewer: &Viewer, found: &[DeliveryView], now: Timestamp) -> Markup {
    let may_requeue =
        |one: &DeliveryView| viewer.may_change && !matches!(one.state, DeliveryState::Queued | DeliveryState::Delivered);
    let any = found.iter().any(may_requeue);
    let table = html! {
        table {
            caption.unseen { "Deliveries in the order of their events" }
            thead { tr {
                @if any { th.select scope="col" { input.with-script type="checkbox" data-all="delivery" aria-label="Select all of this page"; } }
                th scope="col" { "Consumer" } th scope="col" { "State" } th scope="col" { "Event" } th scope="col" { "Deposit" } th.number scope="col" { "Attempts" } th scope="col" { "Last error" } th scope="col" { "Next" }
                @if any { th scope="col" { span.unseen { "Order" } } }
            } }
            tbody { @for one in found { (row(one, any, may_requeue(one), now)) } }
        }
    };
    html! {
        @if any {
            form method="post" action="/deliveries/requeue" {
                (csrf(viewer))
                input type="hidden" name="scope" value="selected";
                (table)
                p.controls { button type="submit" { "Requeue the selected ones" } }
            }
        } @else { (table) }
    }
}

fn row(one: &DeliveryView, any: bool, may_requeue: bool, now: Timestamp) -> Markup {
    let named = format!("{} {}", one.consumer, one.event);
    let deposit = query(&[("q", &format!("{}:{}", one.tx_id, one.output_index))]);
    html! {
        tr {
            @if any { td.select data-label="Select" { @if may_requeue { input type="checkbox" name="delivery" value=(named) aria-label={ "Select " (one.event) " for " (one.consumer) }; } } }
            td data-label="Consumer" { (one.consumer) }
            td data-label="State" { (delivery_state(one.state)) }
            td data-label="Event" { a href={ "/deliveries/" (one.event) } { (short(one.event.as_str())) } " " span.quiet { (word(&one.kind)) } }
            td data-label="Deposit" { a href={ "/deposits" (deposit) } { (short(one.tx_id.as_str())) ":" (one.output_index) } }
            td.number data-label="Attempts" { (one.attempts) }
            td.text data-label="Last error" { @match &one.last_attempt { Some(last) => { (foreign(&last.error)) " " span.quiet { (ago(&last.at, now)) } } None => { "–" } } }
            td data-label="Next" { @match &one.next_attempt_at { Some(at) => { (due(at, now)) } None => { "–" } } }
            @if any { td { @if may_requeue { button name="only" value=(named) type="submit" aria-label={ "Requeue " (one.event) " for " (one.consumer) } { "Requeue" } } } }
        }
    }
}

fn due(at: &str, now: Timestamp) -> Markup {
    let left = Timestamp::from_rfc3339(at).map_or(0, |at| at.since(now).as_secs());
    html! { time datetime=(at) title=(at) { @if left == 0 { "now" } @else { "in " (span(left)) } } }
}
