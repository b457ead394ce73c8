//! `confirmd consumer`

use super::args::ConsumerCommand;
use super::table::or_dash;
use super::{ask, print, table};
use confirmd_api::view::ConsumerView;
use confirmd_api::{Operator, OperatorError};
use confirmd_core::ConsumerName;

pub(super) async fn run(operator: &dyn Operator, command: ConsumerCommand) -> anyhow::Result<()> {
    match command {
        ConsumerCommand::List(args) => {
            let consumers = operator.consumers().await?;
            if args.json {
                return consumers.iter().try_for_each(print::json);
            }
            print::line(&render(&consumers));
        }
        ConsumerCommand::Pause { consumer, why, json } => {
            let why = why.unwrap_or_else(|| "paused by an operator".to_owned());
            let now = operator.pause(&consumer, Some(why.clone())).await?;
            if json.json {
                return print::json(&now);
            }
            let kept = now.paused.filter(|kept| *kept != why).map(|kept| format!(" already ({kept})")).unwrap_or_default();
            print::line(&format!("{consumer} is paused{kept}; its events wait until `confirmd consumer resume {consumer}`"));
        }
        ConsumerCommand::Resume { consumer, json } => {
            let now = operator.pause(&consumer, None).await?;
            if json.json {
                return print::json(&now);
            }
            print::line(&format!("{consumer} goes on"));
        }
        ConsumerCommand::Test { consumer, json } => {
            let result = operator.test_event(&consumer).await?;
            if json.json {
                print::json(&result)?;
            } else if result.delivered {
                print::line(&format!("{consumer} took the test event {} in {} ms", result.event, result.took_ms));
            }
            if let Some(error) = result.error {
                anyhow::bail!("{consumer} did not take the test event {}: {error}", result.event);
            }
        }
        ConsumerCommand::Rename { from, to, json } => {
            operator.rename(&from, &to).await?;
            if json.json {
                return print::json(&serde_json::json!({ "from": from, "to": to }));
            }
            print::line(&format!("the records of {from} belong to {to} now; call it [sinks.{to}] in the configuration"));
        }
        // Asks the consumer's other side, not the state: `adopt.rs`.
        ConsumerCommand::Adopt { .. } => {}
        ConsumerCommand::Purge { consumer, yes, json } => {
            let undelivered = undelivered(operator, &consumer).await?;
            ask::confirm(&format!("{consumer} has {}; they will be given up", events(undelivered)), yes)?;
            let purged = operator.purge(&consumer).await?;
            if json.json {
                return print::json(&purged);
            }
            print::line(&format!("{consumer} is forgotten, with {}", events(purged.count)));
        }
    }
    Ok(())
}

fn events(count: u64) -> String {
    print::counted(count, "undelivered event", "undelivered events")
}

/// What to do about consumers that need an operator, a line each.
pub(super) fn remedies(consumers: &[ConsumerView]) -> Vec<String> {
    let mut lines = Vec::new();
    for one in consumers {
        let name = &one.name;
        if let Some(why) = &one.paused {
            lines.push(format!("{name}: paused ({why}); mend the cause, then `confirmd consumer resume {name}`"));
        }
        if one.dead > 0 {
            let dead = print::counted(one.dead, "dead letter", "dead letters");
            lines.push(format!(
                "{name}: {dead}; `confirmd deliveries dead --consumer {name}` says why; mend the receiver, then `confirmd deliveries requeue {name} --all-dead`"
            ));
        }
        if one.kind.is_none() {
            lines.push(format!("{name}: not in the configuration; put it back, or `confirmd consumer rename` or `purge` it"));
        }
    }
    lines
}

async fn undelivered(operator: &dyn Operator, name: &ConsumerName) -> Result<u64, OperatorError> {
    let consumers = operator.consumers().await?;
    let found = consumers.iter().find(|consumer| consumer.name == *name);
    Ok(found.map_or(0, |consumer| consumer.waiting.saturating_add(consumer.dead)))
}

/// A table of consumers.
pub(super) fn render(consumers: &[ConsumerView]) -> String {
    let row = |one: &ConsumerView| {
        vec![
            one.name.to_string(),
            one.kind.clone().unwrap_or_else(|| "not configured".to_owned()),
            one.waiting.to_string(),
            one.retrying.to_string(),
            one.dead.to_string(),
            one.blocked.to_string(),
            or_dash(one.paused.as_ref()),
        ]
    };
    let rows: Vec<_> = consumers.iter().map(row).collect();
    table::render(&["consumer", "kind", "waiting", "retrying", "dead", "blocked", "paused"], &rows)
}
