//! What runs, and how it ends.

use crate::stop::Stop;
use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;
use tokio::task::{Id, JoinSet};

/// Named tasks that end when the instance stops.
#[derive(Debug)]
pub(super) struct Tasks {
    set: JoinSet<()>,
    names: HashMap<Id, String>,
    stop: Stop,
}

impl Tasks {
    pub(super) fn new(stop: Stop) -> Self {
        Self { set: JoinSet::new(), names: HashMap::new(), stop }
    }

    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Starts a task. It must end soon after the stop.
    pub(super) fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.set.spawn(task);
        self.names.insert(handle.id(), name.into());
    }

    /// Waits for every task at most so long, then drops the rest. Returns the names of those.
    pub(super) async fn end(mut self, limit: Duration) -> Vec<String> {
        let all = async {
            while let Some(ended) = self.set.join_next_with_id().await {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                self.names.remove(&id);
            }
        };
        if tokio::time::timeout(limit, all).await.is_ok() {
            return Vec::new();
        }
        self.set.shutdown().await;
        let mut names: Vec<String> = self.names.into_values().collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_stop_is_dropped_and_named() {
        let mut tasks = Tasks::new(Stop::new());
        let stop = tasks.stop().clone();
        tasks.spawn("good", async move { stop.stopped().await });
        tasks.spawn("stuck", std::future::pending());
        tasks.stop().now();
        assert_eq!(tasks.end(Duration::from_secs(10)).await, ["stuck"]);
    }
}
