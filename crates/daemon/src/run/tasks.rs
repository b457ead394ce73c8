//! What runs, and how it ends.

use crate::stop::Stop;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, Id, JoinSet};

/// Named tasks that end when the instance stops. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Tasks {
    running: Arc<Mutex<Running>>,
    stop: Stop,
}

#[derive(Debug, Default)]
struct Running {
    set: JoinSet<()>,
    names: HashMap<Id, String>,
}

/// A task that can be ended alone.
#[derive(Debug)]
pub(super) struct Part {
    stop: Stop,
    ended: oneshot::Receiver<()>,
    abort: AbortHandle,
}

impl Part {
    /// Stops it and waits for its end, at most so long; then it is dropped, which is as safe as a crash. Returns whether it ended by
    /// itself.
    pub(super) async fn end(mut self, limit: Duration) -> bool {
        self.stop.now();
        if tokio::time::timeout(limit, &mut self.ended).await.is_ok() {
            return true;
        }
        self.abort.abort();
        let _ = self.ended.await;
        false
    }
}

impl Tasks {
    pub(super) fn new(stop: Stop) -> Self {
        Self { running: Arc::default(), stop }
    }

    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Starts a task. It must end soon after the stop.
    pub(super) fn spawn(&self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // What ended meanwhile is forgotten.
        while let Some(ended) = running.set.try_join_next_with_id() {
            let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
            running.names.remove(&id);
        }
        let handle = running.set.spawn(task);
        running.names.insert(handle.id(), name.into());
        handle
    }

    /// Starts a task that can also be ended alone. It must end soon after the stop it is given.
    pub(super) fn spawn_part<T>(&self, name: impl Into<String>, task: impl FnOnce(Stop) -> T) -> Part
    where
        T: Future<Output = ()> + Send + 'static,
    {
        let (stop, (running, ended)) = (self.stop.part(), oneshot::channel());
        let task = task(stop.clone());
        let abort = self.spawn(name, async move {
            // Dropped with the task, whichever way it ends.
            let _running = running;
            task.await;
        });
        Part { stop, ended, abort }
    }

    /// Waits for every task at most so long, then drops the rest. Returns the names of those.
    pub(super) async fn end(self, limit: Duration) -> Vec<String> {
        let Running { mut set, mut names } = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        let all = async {
            while let Some(ended) = set.join_next_with_id().await {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                names.remove(&id);
            }
        };
        if tokio::time::timeout(limit, all).await.is_ok() {
            return Vec::new();
        }
        set.shutdown().await;
        let mut names: Vec<String> = names.into_values().collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_stop_is_dropped_and_named() {
        let tasks = Tasks::new(Stop::new());
        let stop = tasks.stop().clone();
        tasks.spawn("good", async move { stop.stopped().await });
        tasks.spawn("stuck", std::future::pending());
        tasks.stop().now();
        assert_eq!(tasks.end(Duration::from_secs(10)).await, ["stuck"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_ends_alone_and_one_that_does_not_stop_is_dropped() {
        let tasks = Tasks::new(Stop::new());
        let good = tasks.spawn_part("good", |stop| async move { stop.stopped().await });
        let stuck = tasks.spawn_part("stuck", |_| std::future::pending());
        let other = tasks.spawn_part("other", |stop| async move { stop.stopped().await });
        assert!(good.end(Duration::from_secs(10)).await);
        assert!(!stuck.end(Duration::from_secs(10)).await);
        assert!(!other.stop.is_stopped());
        tasks.stop().now();
        assert!(tasks.end(Duration::from_secs(10)).await.is_empty());
    }
}
