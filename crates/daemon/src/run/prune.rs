//! Forgets old history, once an hour.

use super::Tasks;
use crate::operator::LocalOperator;
use confirmd_core::with_causes;
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(3_600);
/// Not in the first moments, which belong to the chains.
const FIRST: Duration = Duration::from_secs(120);

pub(super) fn spawn(history: Duration, operator: &Arc<LocalOperator>, tasks: &mut Tasks) {
    let (operator, stop) = (operator.clone(), tasks.stop().clone());
    tasks.spawn("history", async move {
        let mut wait = FIRST;
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = tokio::time::sleep(wait) => wait = EVERY,
            }
            let before = operator.clock.now().minus(history);
            match operator.stores.history.prune(before).await {
                Ok(0) => {}
                Ok(events) => tracing::info!(events, before = %before, "history pruned"),
                Err(error) => {
                    tracing::error!(error = %with_causes(&error), "history could not be pruned");
                    stop.on(&error);
                }
            }
        }
    });
}
