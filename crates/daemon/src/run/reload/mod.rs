//! Takes the configuration file over again while the instance runs: all of it or nothing. Every part that changed is stopped and started
//! again alone, from what is on disk, as at a start; the others are not touched (G9).

mod outline;

use super::logs::{self, SetFilter};
use super::tasks::{Part, Tasks};
use super::{OPERATIONS, Observers, Parts, books, chains, consumers, feed, operations, state_problems};
use crate::config::{ChainConfig, Config, ConfigFile, SinkConfig};
use crate::operator::{ChainSlot, LocalOperator, ReloadAnswer};
use anyhow::{Context as _, bail};
use confirmd_api::OperatorError;
use confirmd_api::view::{ConfigurationView, PartChange, RefusedView, Reloaded, ReloadedPart};
use confirmd_core::{ConsumerName, Registry, StoreError, with_causes};
use outline::{FILTER, Outline, TELEMETRY};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// A watcher may be stopped anywhere; this is for one that does not listen.
const CHAIN_LIMIT: Duration = Duration::from_secs(10);
/// Deliveries under way are waited for, so that none is made twice.
const SINK_LIMIT: Duration = Duration::from_secs(60);

/// What became of which part, by key.
type Changes = BTreeMap<String, PartChange>;

/// Holds what is in effect.
#[derive(Debug)]
pub(super) struct Reloader {
    config: Config,
    outline: Outline,
    parts: Parts,
    registry: Registry,
    set_filter: SetFilter,
    operator: Arc<LocalOperator>,
    observers: Observers,
    tasks: Tasks,
}

impl Reloader {
    pub(super) fn new(
        config: Config,
        parts: Parts,
        registry: Registry,
        set_filter: SetFilter,
        operator: &Arc<LocalOperator>,
        observers: Observers,
        tasks: &Tasks,
    ) -> Self {
        let (operator, tasks) = (operator.clone(), tasks.clone());
        Self { outline: Outline::of(&config), config, parts, registry, set_filter, operator, observers, tasks }
    }

    /// Does what is ordered, one order after the other, until the instance stops.
    pub(super) async fn run(mut self, mut ordered: mpsc::Receiver<ReloadAnswer>) {
        let stop = self.tasks.stop().clone();
        loop {
            let answer = tokio::select! {
                biased;
                () = stop.stopped() => return,
                answer = ordered.recv() => answer,
            };
            let Some(answer) = answer else { return };
            let outcome = tokio::select! {
                biased;
                () = stop.stopped() => return,
                outcome = self.reload() => outcome,
            };
            // Whoever asked by a signal reads the log.
            let _ = answer.send(outcome);
        }
    }

    async fn reload(&mut self) -> Result<Reloaded, OperatorError> {
        let outcome = self.take_over().await;
        let (now, before) = (self.operator.clock.now().to_rfc3339(), self.operator.configuration.get());
        let view = |refused: Option<RefusedView>| {
            let loaded_at = match (&refused, before.as_ref()) {
                (Some(_), Some(before)) => before.loaded_at.clone(),
                _ => now.clone(),
            };
            let file = self.config.file.path.display().to_string();
            self.operator.configuration.set(Some(ConfigurationView { file, loaded_at, refused }));
        };
        match outcome {
            Ok(changes) => {
                view(None);
                tracing::info!(parts = changes.len(), "the configuration was taken over");
                let parts = changes.into_iter().map(|(key, change)| ReloadedPart { key, change });
                Ok(Reloaded { parts: parts.collect() })
            }
            Err(error) => {
                let problem = format!("{error:#}");
                view(Some(RefusedView { at: now.clone(), problem: problem.clone() }));
                tracing::error!(error = problem, "the configuration is refused; everything goes on as it was");
                Err(OperatorError::conflict(format!("{problem}\nnothing was changed: everything goes on as it was")))
            }
        }
    }

    /// Checks everything before anything is changed.
    async fn take_over(&mut self) -> anyhow::Result<Changes> {
        let file = ConfigFile::read(&self.config.file.path)?;
        let filter = logs::filter(&file)?;
        let mut config = Config::build(file, &self.registry)?;
        if config.chains.is_empty() {
            bail!("{}: no chain is configured; `confirmd kinds` shows examples", config.file.path.display());
        }
        let outline = Outline::of(&config);
        let changes = self.outline.changes(&outline)?;
        let mut rebuilt: BTreeSet<ConsumerName> = BTreeSet::new();
        for sink in &mut config.sinks {
            // A sink whose own keys are as they were goes on: it may hold a file or a connection.
            match self.config.sinks.iter().find(|old| old.name() == sink.name()) {
                Some(old) if self.outline.same_adapter(&outline, &sink.key()) => sink.sink = old.sink.clone(),
                _ => drop(rebuilt.insert(sink.name().clone())),
            }
        }
        let rebuilt: Vec<&SinkConfig> = config.sinks.iter().filter(|sink| rebuilt.contains(sink.name())).collect();
        state_problems(&config, &self.operator.stores).await?;
        rebuilt
            .iter()
            .filter_map(|sink| sink.sink.books())
            .for_each(|books| books.fed_by(feed(self.operator.stores.state.as_ref())));
        consumers::check_sinks(rebuilt.iter().copied()).await?;
        if changes.contains_key(OPERATIONS) {
            operations::check_sink(config.operations.as_ref()).await?;
        }
        let unasked = self.compared(&rebuilt).await?;
        self.register_new(&config, &changes).await?;
        if changes.contains_key(FILTER) {
            self.set_filter.set(filter)?;
        }
        self.apply(config, outline, &changes, &unasked).await;
        Ok(changes)
    }

    /// Compares the books of sinks with the state. Returns whose books could not be asked.
    async fn compared(&self, sinks: &[&SinkConfig]) -> anyhow::Result<BTreeSet<ConsumerName>> {
        let mut unasked = BTreeSet::new();
        for sink in sinks {
            let Some(books) = sink.sink.books() else { continue };
            let history = self.config.file.state.history.0;
            match books::ahead(books, &self.operator.stores, history, self.operator.clock.as_ref()).await? {
                Ok(None) => {}
                Ok(Some(newest)) => bail!(
                    "sinks.{}: it was told of event {} that this state does not know; restart, and the state takes over what it knows",
                    sink.name(),
                    newest.event
                ),
                Err(error) => {
                    let error = with_causes(&error);
                    tracing::warn!(sink = %sink.name(), error, "its books can't be compared with the state now; nothing is delivered to it before they are");
                    unasked.insert(sink.name().clone());
                }
            }
        }
        Ok(unasked)
    }

    /// Makes new consumers known: all of them or none.
    async fn register_new(&self, config: &Config, changes: &Changes) -> anyhow::Result<()> {
        let outbox = self.operator.stores.outbox.as_ref();
        let known = outbox.consumers().await.context("read the consumers")?;
        let mut made: Vec<&ConsumerName> = Vec::new();
        for sink in config.sinks.iter().filter(|sink| changes.get(&sink.key()) == Some(&PartChange::Added)) {
            let Err(error) = outbox.register(&sink.spec).await else {
                if !known.iter().any(|known| known.name == *sink.name()) {
                    made.push(sink.name());
                }
                continue;
            };
            self.operator.stop.on(&error);
            for name in made {
                outbox.purge(name).await.with_context(|| format!("forget the new consumer {name} again"))?;
            }
            return Err(error).context(sink.key());
        }
        Ok(())
    }

    /// Nothing is refused from here on.
    async fn apply(&mut self, config: Config, outline: Outline, changes: &Changes, unasked: &BTreeSet<ConsumerName>) {
        for (key, change) in changes {
            tracing::info!(key, change = change.as_str(), "a part of the configuration changes");
        }
        let mut old: BTreeMap<&str, Option<Part>> = changes.keys().map(|key| (key.as_str(), self.parts.remove(key))).collect();
        let mut part = |key: &str| old.get_mut(key).and_then(Option::take);
        let changed = |key: &str| changes.contains_key(key);
        let gone = changes.keys().filter(|key| key.starts_with("chains."));
        let chain_parts: Vec<Part> = gone.filter_map(|key| part(key)).collect();
        let sinks: Vec<(&SinkConfig, Option<Part>)> =
            config.sinks.iter().filter(|sink| changed(&sink.key())).map(|sink| (sink, part(&sink.key()))).collect();
        let rest: Vec<Part> = changes.keys().filter_map(|key| part(key)).collect();
        self.observers.metrics.follow(&config);
        self.operator.kinds.set(config.kinds());
        self.operator.sinks.set(config.sinks_by_name());
        let (chains, sinks, rest) = futures::join!(
            self.chains(&config.chains, changes, chain_parts),
            futures::future::join_all(sinks.into_iter().map(|(sink, part)| self.sink(sink, part, unasked.contains(sink.name())))),
            futures::future::join_all(rest.into_iter().map(|part| part.end(SINK_LIMIT))),
        );
        drop(rest);
        // Behind the filters: what is asked for from here on finds whom it is for.
        self.operator.notices.set(config.sinks.iter().map(|sink| &sink.spec.filter));
        if changed(TELEMETRY)
            && let Err(error) = self.observers.traces.set(config.telemetry.as_ref()).await
        {
            tracing::error!(error = format!("{error:#}"), "traces go on as they were");
        }
        let mut parts: Vec<(String, Part)> = chains;
        parts.extend(sinks);
        if let Some(operations) = config.operations.as_ref().filter(|_| changed(OPERATIONS)) {
            let part = operations::spawn(operations, &self.operator, &self.observers.metrics, &self.tasks);
            parts.push((OPERATIONS.to_owned(), part));
        }
        self.parts.extend(parts);
        (self.config, self.outline) = (config, outline);
    }

    /// Ends the watchers of chains that changed or are gone, all of them before any is started: an entry may have another name now.
    async fn chains(&self, chains: &[ChainConfig], changes: &Changes, old: Vec<Part>) -> Vec<(String, Part)> {
        futures::future::join_all(old.into_iter().map(|part| part.end(CHAIN_LIMIT))).await;
        let before: Vec<Arc<ChainSlot>> = self.operator.chains.iter().collect();
        let mut slots = Vec::with_capacity(chains.len());
        let mut begin = Vec::new();
        for chain in chains {
            let kept = before.iter().find(|slot| slot.name == chain.name).filter(|_| !changes.contains_key(&chain.key()));
            let slot = kept.cloned().unwrap_or_else(|| Arc::new(ChainSlot::new(chain)));
            if kept.is_none() {
                begin.push((slot.clone(), chain));
            }
            slots.push(slot);
        }
        self.operator.chains.replace(slots);
        begin
            .into_iter()
            .map(|(slot, chain)| (chain.key(), chains::spawn(&slot, chain, &self.operator, &self.observers.traces, &self.tasks)))
            .collect()
    }

    /// Ends a consumer's pump, then starts it anew.
    async fn sink(&self, sink: &SinkConfig, old: Option<Part>, unasked: bool) -> (String, Part) {
        if let Some(old) = old
            && !old.end(SINK_LIMIT).await
        {
            tracing::warn!(sink = %sink.name(), "a delivery under way did not end in time and is made again under its id");
        }
        // Takes back what was handed out and never reported, and the filter as it is now.
        if let Err(error) = self.operator.stores.outbox.register(&sink.spec).await {
            self.not_registered(sink, &error);
        }
        let history = self.config.file.state.history.0;
        (sink.key(), consumers::spawn(sink, unasked, history, &self.operator, &self.observers, &self.tasks))
    }

    fn not_registered(&self, sink: &SinkConfig, error: &StoreError) {
        tracing::error!(sink = %sink.name(), error = %with_causes(error), "the consumer's records could not be brought up to date");
        self.operator.stop.on(error);
    }
}
