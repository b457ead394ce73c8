//! `confirmd deliveries`

use super::args::DeliveriesCommand;
use super::table::or_dash;
use super::{ask, print, table};
use confirmd_api::Operator;
use confirmd_api::view::{DeadGroup, DeadQuery, DeliveryDetail, DeliveryQuery, DeliveryView, Replay, Requeue};
use confirmd_core::ConsumerName;

pub(super) async fn run(operator: &dyn Operator, command: DeliveriesCommand) -> anyhow::Result<()> {
    match command {
        DeliveriesCommand::List { consumer, state, event, list } => {
            let query = DeliveryQuery { consumer, state: state.map(Into::into), event, after: None, limit: None };
            self::list(operator, query, list.limit, list.all, list.json.json).await
        }
        DeliveriesCommand::Show { event, json } => {
            let detail = operator.delivery(&event).await?;
            if json.json { print::json(&detail) } else { show(&detail) }
        }
        DeliveriesCommand::Dead { consumer, json } => dead(operator, consumer, json.json).await,
        DeliveriesCommand::Replay { consumer, events, from, before, per_second, json } => {
            let request = Replay { events, decided_from: from, decided_before: before, per_second };
            let queued = operator.replay(&consumer, request).await?;
            if json.json {
                return print::json(&queued);
            }
            let count = print::counted(queued.count, "delivery", "deliveries");
            print::line(&format!("{count} to {consumer} will be sent again under the same ids"));
            Ok(())
        }
        DeliveriesCommand::Requeue { consumer, events, all_dead, status, per_second, json } => {
            let queued = operator.requeue(&consumer, Requeue { events, all_dead, status, per_second, error: None }).await?;
            if json.json {
                return print::json(&queued);
            }
            let count = print::counted(queued.count, "delivery", "deliveries");
            let are = if queued.count == 1 { "is" } else { "are" };
            print::line(&match (queued.count, all_dead) {
                (0, true) if status.is_some() => format!(
                    "no dead letter of {consumer} has this status: nothing is queued again; `confirmd deliveries dead` shows which there are"
                ),
                (0, true) => format!("{consumer} has no dead letter: nothing is queued again"),
                (0, false) => format!("none of these waits for {consumer}: nothing is queued again"),
                _ => format!("{count} to {consumer} {are} queued again with fresh attempts"),
            });
            Ok(())
        }
        DeliveriesCommand::Skip { consumer, event, yes, json } => {
            ask::confirm(&format!("{consumer} will never be told of {event}"), yes)?;
            operator.skip(&consumer, &event).await?;
            if json.json {
                return print::json(&serde_json::json!({ "consumer": consumer, "event": event }));
            }
            print::line(&format!("{event} is given up for {consumer}, on record; what waited behind it goes on"));
            Ok(())
        }
    }
}

async fn dead(operator: &dyn Operator, consumer: Option<ConsumerName>, json: bool) -> anyhow::Result<()> {
    let groups = operator.dead_letters(&DeadQuery { consumer }).await?;
    if json {
        return groups.iter().try_for_each(print::json);
    }
    if groups.is_empty() {
        print::line("there are no dead letters");
        return Ok(());
    }
    let row = |group: DeadGroup| {
        vec![
            group.consumer.to_string(),
            group.count.to_string(),
            or_dash(group.status),
            group.first_at,
            group.last_at,
            group.example.to_string(),
            group.error,
        ]
    };
    let head = ["consumer", "count", "status", "first", "last", "one of them", "error"];
    print::line(&table::render(&head, &groups.into_iter().map(row).collect::<Vec<_>>()));
    Ok(())
}

async fn list(operator: &dyn Operator, mut query: DeliveryQuery, limit: u32, all: bool, json: bool) -> anyhow::Result<()> {
    let mut left = limit;
    let mut rows = Vec::new();
    loop {
        query.limit = super::deposits::page_limit(all, left);
        let page = operator.deliveries(&query).await?;
        left = left.saturating_sub(u32::try_from(page.items.len()).unwrap_or(u32::MAX));
        for item in &page.items {
            if json { print::json(item)? } else { rows.push(row(item)) }
        }
        query.after = page.next;
        if query.after.is_none() || (!all && left == 0) {
            break;
        }
    }
    if !json {
        let head = ["consumer", "event", "kind", "seq", "state", "attempts", "next attempt", "last failure"];
        print::line(&table::render(&head, &rows));
        super::deposits::more(query.after.is_some());
    }
    Ok(())
}

fn word<T: serde::Serialize>(value: T) -> String {
    or_dash(serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)))
}

fn row(item: &DeliveryView) -> Vec<String> {
    let failure = item.last_attempt.as_ref().map(|attempt| match attempt.status {
        Some(status) => format!("{status} {}", attempt.error),
        None => attempt.error.clone(),
    });
    let behind = item.blocked_by.as_ref().map(|event| format!("behind {event}"));
    vec![
        item.consumer.to_string(),
        item.event.to_string(),
        word(item.kind),
        item.sequence.to_string(),
        word(item.state),
        item.attempts.to_string(),
        or_dash(item.next_attempt_at.as_ref()),
        or_dash(failure.or(behind)),
    ]
}

fn show(detail: &DeliveryDetail) -> anyhow::Result<()> {
    let body = match &detail.body {
        Some(body) => serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(body.get())?)?,
        None => "the body is older than `state.history`".to_owned(),
    };
    print::line(&body);
    for one in &detail.deliveries {
        let delivery = &one.delivery;
        print::line("");
        print::line(&format!(
            "{}: {}, {}",
            delivery.consumer,
            word(delivery.state),
            print::counted(delivery.attempts, "attempt", "attempts")
        ));
        if let Some(event) = &delivery.blocked_by {
            print::line(&format!("  waits behind {event}"));
        }
        if let Some(at) = &delivery.next_attempt_at {
            print::line(&format!("  next attempt at {at}"));
        }
        for attempt in &one.failed {
            let status = attempt.status.map(|status| format!(" ({status})")).unwrap_or_default();
            print::line(&format!("  attempt {} at {}{status}: {}", attempt.number, attempt.at, attempt.error));
            if let Some(excerpt) = attempt.excerpt.as_ref().filter(|excerpt| !attempt.error.contains(excerpt.as_str())) {
                print::line(&format!("    answered: {excerpt}"));
            }
        }
    }
    Ok(())
}
