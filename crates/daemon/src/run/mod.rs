//! `confirmd run`: everything an instance does, from start to stop.

mod books;
mod chains;
mod consumers;
mod embedded;
mod logs;
mod metrics;
mod operations;
mod pace;
mod progress;
mod prune;
mod signals;
mod state;
mod tasks;

pub(crate) use books::{feed, introduce};
pub use embedded::{Embedded, EmbeddedOptions};
pub(crate) use state::{open as open_state, until_free_or_answering};

use crate::cli::RunArgs;
use crate::config::{Config, ConfigFile};
use crate::operator::{Chains, LocalOperator, Stores};
use crate::stop::Stop;
use anyhow::Context as _;
use confirmd_api::instance::InstanceAddress;
use confirmd_api::server::{self, Bound, ServerOptions};
use confirmd_core::{Clock, ConsumerName, Registry, StateStore, SystemClock, with_causes};
use confirmd_store_sled::OpenOptions;
use confirmd_store_sled::SledStore;
use indicatif::MultiProgress;
use metrics::{Gatherer, MeteredState, Metrics};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tasks::Tasks;
use tokio::sync::Notify;

/// What keeps an instance from starting on this state, if anything does.
pub(crate) async fn state_problems(config: &Config, stores: &Stores) -> anyhow::Result<()> {
    state::belongs_to(config, stores).await?;
    consumers::none_left_behind(config, stores).await
}

/// How long everything may take to stop; then it is dropped, which is as safe as a crash.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Runs until told to stop. An error is something that kept the instance from starting or going on.
pub(crate) async fn run(file: &Path, args: &RunArgs, registry: &Registry) -> anyhow::Result<ExitCode> {
    let file = ConfigFile::read(file)?;
    let bars = MultiProgress::new();
    logs::start(&file, args.log_format, &bars)?;
    let config = Config::build(file, registry)?;
    if config.chains.is_empty() {
        anyhow::bail!("{}: no chain is configured; `confirmd kinds` shows examples", config.file.path.display());
    }
    if config.sinks.is_empty() {
        tracing::warn!("no sink is configured: deposits are recorded, nobody is told");
    }
    // Signals count from here on, so that a slow start can be stopped, too.
    let stop = Stop::new();
    let signals = tokio::spawn(signals::watch(stop.clone())?);
    let started = tokio::select! {
        started = start(&config, args, stop.clone(), &bars) => started?,
        () = stop.stopped() => return Ok(ExitCode::SUCCESS),
    };
    stop.stopped().await;
    started.end().await;
    signals.abort();
    match stop.failure() {
        Some(why) => Err(anyhow::anyhow!("{why}")),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// What runs.
#[derive(Debug)]
pub(crate) struct Started {
    tasks: Tasks,
    instance: InstanceAddress,
    store: Arc<SledStore>,
}

impl Started {
    /// Ends everything after the stop, and lets the state go.
    pub(crate) async fn end(self) {
        tracing::info!("stopping");
        for name in self.tasks.end(STOP_LIMIT).await {
            tracing::warn!(task = name, "did not stop in time and was dropped; nothing is lost");
        }
        self.instance.remove(self.store.path());
        if let Err(error) = self.store.close().await {
            tracing::warn!(error = %with_causes(&error), "the store did not close cleanly; nothing is lost");
        }
        tracing::info!("stopped");
    }
}

/// Checks what must hold, then starts every part. It runs until `stop` says so; then `Started::end` must be called.
pub(crate) async fn start(config: &Config, args: &RunArgs, stop: Stop, bars: &MultiProgress) -> anyhow::Result<Started> {
    let state_path = config.file.state.path.clone();
    let options = OpenOptions { init: args.init, restored: args.restored, ..OpenOptions::default() };
    let (store, unasked) = open_compared(config, options).await?;
    let metrics = Metrics::new(config, Arc::new(SystemClock));
    let stores = metered(store.clone(), &metrics);
    let options = ServerOptions {
        listen: config.file.api.listen,
        access: config.file.api.access().map_err(|error| config.file.faults(vec![error]))?,
        requests_per_second: config.file.api.requests_per_second,
    };
    let bound = server::bind(options).await.map_err(|error| anyhow::anyhow!("api.listen: {error}"))?;
    let operator = operator(config, stores, Arc::new(SystemClock), stop.clone()).await?;
    let mut tasks = Tasks::new(stop);
    let bound = bound.with_metrics(Arc::new(Gatherer::new(config, &metrics, &operator)));
    let instance = serve(bound, operator.clone(), &state_path, &mut tasks)?;
    // Before anything has a line of its own to say.
    tracing::info!(version = crate::cli::VERSION, api = %instance.address, state = %state_path.display(),
        chains = config.chains.len(), sinks = config.sinks.len(), "confirmd runs");
    spawn_parts(config, &operator, &metrics, &unasked, &mut tasks);
    metrics::sample(&metrics, &operator, &mut tasks);
    pace::spawn(&operator, &mut tasks);
    if !args.no_progress {
        progress::spawn(&operator, bars, &mut tasks);
    }
    Ok(Started { tasks, instance, store })
}

/// Opens the state, and compares it with the books of consumers that keep some. Where they have seen more, the state is an older
/// copy: it takes a new epoch, unless it has one, and takes over what they know. Also returns whose books could not be asked.
async fn open_compared(config: &Config, options: OpenOptions) -> anyhow::Result<(Arc<SledStore>, BTreeSet<ConsumerName>)> {
    let path = &config.file.state.path;
    let (clock, restored) = (options.clock.clone(), options.restored);
    let mut store = state::open(path, options.clone()).await?;
    if restored {
        tracing::info!(epoch = StateStore::epoch(store.as_ref()).0, "the restored state has a new epoch");
    }
    introduce(config, store.as_ref());
    let stores = Stores::of(store.clone());
    can_start(config, &stores).await?;
    let compared = books::compare(config, &stores, clock.as_ref()).await?;
    drop(stores);
    if compared.ahead.is_empty() {
        return Ok((store, compared.unasked));
    }
    let epoch = StateStore::epoch(store.as_ref());
    if compared.ahead.iter().any(|(_, newest)| newest.feed.epoch == epoch) {
        store.close().await.context("close the state for a new epoch")?;
        drop(store);
        store = state::open(path, OpenOptions { init: false, restored: true, ..options }).await?;
        introduce(config, store.as_ref());
    }
    for (consumer, newest) in &compared.ahead {
        tracing::warn!(sink = %consumer, event = %newest.event, position = newest.position.0, epoch = StateStore::epoch(store.as_ref()).0,
            "the consumer was told of an event that this state does not know: it is an older copy, and goes on in a new epoch");
    }
    let stores = Stores::of(store.clone());
    for sink in &config.sinks {
        // What is taken over is told to every consumer, also to one that is new to this state.
        stores.outbox.register(&sink.spec).await.with_context(|| format!("sinks.{}", sink.name()))?;
    }
    books::take_all_over(config, &stores, &compared.ahead).await?;
    Ok((store, compared.unasked))
}

/// What must hold before anything starts.
async fn can_start(config: &Config, stores: &Stores) -> anyhow::Result<()> {
    state_problems(config, stores).await?;
    consumers::check_sinks(config).await?;
    operations::check_sink(config).await
}

/// The store's three contracts, its commits counted.
fn metered(store: Arc<SledStore>, metrics: &Arc<Metrics>) -> Stores {
    let stores = Stores::of(store);
    Stores { state: MeteredState::around(stores.state, metrics.clone()), ..stores }
}

/// Makes the consumers known, and whoever carries out an operator's orders.
async fn operator(config: &Config, stores: Stores, clock: Arc<dyn Clock>, stop: Stop) -> anyhow::Result<Arc<LocalOperator>> {
    for sink in &config.sinks {
        let registered = stores.outbox.register(&sink.spec).await;
        registered.with_context(|| format!("sinks.{}", sink.name()))?;
    }
    Ok(Arc::new(LocalOperator {
        chains: Chains::new(&config.chains),
        kinds: config.sinks.iter().map(|sink| (sink.name().clone(), sink.kind)).collect(),
        sinks: config.sinks.iter().map(|sink| (sink.name().clone(), sink.sink.clone())).collect(),
        wake: Arc::new(Notify::new()),
        state_path: config.file.state.path.clone(),
        started_at: Some(clock.now()),
        stop,
        stores,
        clock,
    }))
}

/// Starts everything that watches, delivers and forgets.
fn spawn_parts(
    config: &Config,
    operator: &Arc<LocalOperator>,
    metrics: &Arc<Metrics>,
    unasked: &BTreeSet<ConsumerName>,
    tasks: &mut Tasks,
) {
    chains::spawn(config, operator, tasks);
    consumers::spawn(config, operator, metrics, unasked, tasks);
    operations::spawn(config, operator, metrics, tasks);
    prune::spawn(config.file.state.history.0, operator, tasks);
}

fn serve(bound: Bound, operator: Arc<LocalOperator>, state: &Path, tasks: &mut Tasks) -> anyhow::Result<InstanceAddress> {
    let name = format!("{:x}-{:016x}", std::process::id(), fastrand::u64(..));
    let instance = InstanceAddress { address: bound.address(), instance: name.clone() };
    instance.write(state).with_context(|| format!("the state's folder {} can't be written to", state.display()))?;
    let stop = operator.stop.clone();
    tasks.spawn("API", async move {
        let stopped = operator.stop.clone();
        if let Err(error) = bound.serve(operator, name, async move { stopped.stopped().await }).await {
            stop.fail(format!("the API ended: {error}"));
        }
    });
    Ok(instance)
}
