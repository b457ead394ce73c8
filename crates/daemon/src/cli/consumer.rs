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
        ConsumerCommand::Pause { consumer, why } => {
            let why = why.unwrap_or_else(|| "paused by an operator".to_owned());
            operator.pause(&consumer, Some(why)).await?;
            print::line(&format!("{consumer} is paused; its events wait until `confirmd consumer resume {consumer}`"));
        }
        ConsumerCommand::Resume { consumer } => {
            operator.pause(&consumer, None).await?;
            print::line(&format!("{consumer} goes on"));
        }
        ConsumerCommand::Rename { from, to } => {
            operator.rename(&from, &to).await?;
            print::line(&format!("the records of {from} belong to {to} now; call it [sinks.{to}] in the configuration"));
        }
        ConsumerCommand::Purge { consumer, yes } => {
            let undelivered = undelivered(operator, &consumer).await?;
            ask::confirm(&format!("{consumer} has {undelivered} undelivered events; they will be given up"), yes)?;
            let purged = operator.purge(&consumer).await?;
            print::line(&format!("{consumer} is forgotten, with {} undelivered events", purged.count));
        }
    }
    Ok(())
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
