//! Notes how far each chain is now and then: how fast it catches up follows from it.

use super::Tasks;
use crate::operator::LocalOperator;
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(5);

pub(super) fn spawn(operator: &Arc<LocalOperator>, tasks: &mut Tasks) {
    let (operator, stop) = (operator.clone(), tasks.stop().clone());
    tasks.spawn("pace of the chains", async move {
        loop {
            tokio::select! {
                () = stop.stopped() => return,
                () = tokio::time::sleep(EVERY) => operator.chains.iter().for_each(|slot| slot.note_pace()),
            }
        }
    });
}
