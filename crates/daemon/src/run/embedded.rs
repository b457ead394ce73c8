//! An instance inside another program: everything that `confirmd run` composes, without what belongs to a process of its own
//! (signals, logging, the control API's socket, progress bars).

use super::OpenState;
use super::metrics::Metrics;
use super::traces::Traces;
use super::{Observers, STOP_LIMIT, Tasks, open_compared, operator, spawn_parts};
use crate::config::Config;
use crate::operator::LocalOperator;
use crate::stop::Stop;
use anyhow::Context as _;
use confirmd_api::Operator;
use confirmd_core::{Clock, SystemClock};
use confirmd_store_sled::OpenOptions;
use std::sync::Arc;

/// How an embedded instance is started.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// How the state is opened.
    pub store: OpenOptions,
    /// Where times in records and due times come from.
    pub clock: Arc<dyn Clock>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self { store: OpenOptions::default(), clock: Arc::new(SystemClock) }
    }
}

/// A running instance. Dropping it ends everything where it stands, which is as safe as a crash.
#[derive(Debug)]
pub struct Embedded {
    tasks: Tasks,
    operator: Arc<LocalOperator>,
    store: OpenState,
    stop: Stop,
    traces: Arc<Traces>,
}

impl Embedded {
    /// Opens the state that the configuration names, checks what must hold, and starts every part. Needs a tokio runtime.
    ///
    /// # Errors
    /// What would keep `confirmd run` from starting, in the same words.
    pub async fn start(config: &Config, options: EmbeddedOptions) -> anyhow::Result<Self> {
        let (store, unasked) = open_compared(config, options.store).await?;
        let metrics = Metrics::new(config, options.clock.clone());
        let observers = Observers { metrics, traces: Arc::default() };
        observers.traces.set(config.telemetry.as_ref()).await.context("telemetry")?;
        let stores = observers.around(&store);
        let stop = Stop::new();
        let operator = operator(config, stores, options.clock, stop.clone(), None).await?;
        store.wake_on_events(&operator.wake);
        let mut tasks = Tasks::new(stop.clone());
        spawn_parts(config, &operator, &observers, &unasked, &mut tasks);
        Ok(Self { tasks, operator, store, stop, traces: observers.traces })
    }

    /// Asks and orders as the control API does.
    pub fn operator(&self) -> Arc<dyn Operator> {
        self.operator.clone()
    }

    /// Returns when the instance has stopped by itself: the reason.
    pub async fn failed(&self) -> String {
        self.stop.stopped().await;
        self.stop.failure().unwrap_or_default()
    }

    /// Stops in order, and lets the state go. Returns the names of parts that did not stop in time and were dropped.
    ///
    /// # Errors
    /// When the state could not be closed in order; nothing is lost.
    pub async fn end(self) -> anyhow::Result<Vec<String>> {
        self.stop.now();
        let late = self.tasks.end(STOP_LIMIT).await;
        self.traces.end().await;
        self.store.close().await.context("the store did not close in order; nothing is lost")?;
        Ok(late)
    }
}
