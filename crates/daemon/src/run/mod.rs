//! `confirmd run`: everything an instance does, from start to stop.

mod books;
mod chains;
mod consumers;
mod embedded;
mod heads;
mod logs;
mod metrics;
mod observed;
mod operations;
mod pace;
mod progress;
mod prune;
mod reload;
mod signals;
mod state;
mod tasks;
mod traces;

pub(crate) use books::{feed, introduce};
pub use embedded::{Embedded, EmbeddedOptions};
pub(crate) use state::{OpenState, import as import_state, open as open_state, until_free_or_answering};

use crate::cli::RunArgs;
use crate::config::{Config, ConfigFile};
use crate::operator::{Chains, LocalOperator, ReloadAnswer, ReloadOrders, Shared, Stores};
use crate::stop::Stop;
use anyhow::Context as _;
use confirmd_api::instance::InstanceAddress;
use confirmd_api::server::{self, Bound, ServerOptions};
use confirmd_api::view::ConfigurationView;
use confirmd_core::{Clock, ConsumerName, NoticesWanted, Registry, SystemClock, with_causes};
use confirmd_store_sled::OpenOptions;
use indicatif::MultiProgress;
use logs::SetFilter;
use metrics::{CountedCommits, Gatherer, Metrics};
use observed::ObservedState;
use reload::Reloader;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tasks::{Part, Tasks};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use traces::{TracedCommits, Traces};

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
    let set_filter = logs::start(&file, args.log_format, &bars)?;
    let config = Config::build(file, registry)?;
    if config.chains.is_empty() {
        anyhow::bail!("{}: no chain is configured; `confirmd kinds` shows examples", config.file.path.display());
    }
    if config.sinks.is_empty() {
        tracing::warn!("no sink is configured: deposits are recorded, nobody is told");
    }
    // Signals count from here on, so that a slow start can be stopped, too.
    let stop = Stop::new();
    let mut signals = JoinSet::new();
    signals.spawn(signals::watch(stop.clone())?);
    let (orders, ordered) = mpsc::channel(1);
    signals.spawn(signals::reload(orders.clone())?);
    let reload = Reload { orders, ordered, registry: registry.clone(), set_filter };
    let started = tokio::select! {
        started = start(config, args, stop.clone(), &bars, reload) => started?,
        () = stop.stopped() => return Ok(ExitCode::SUCCESS),
    };
    stop.stopped().await;
    started.end().await;
    drop(signals);
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
    folder: PathBuf,
    store: OpenState,
    traces: Arc<Traces>,
}

impl Started {
    /// Ends everything after the stop, and lets the state go.
    pub(crate) async fn end(self) {
        tracing::info!("stopping");
        for name in self.tasks.end(STOP_LIMIT).await {
            tracing::warn!(task = name, "did not stop in time and was dropped; nothing is lost");
        }
        self.traces.end().await;
        self.instance.remove(&self.folder);
        if let Err(error) = self.store.close().await {
            tracing::warn!(error = %with_causes(&error), "the store did not close cleanly; nothing is lost");
        }
        tracing::info!("stopped");
    }
}

/// How a running instance takes its configuration over again.
#[derive(Debug)]
struct Reload {
    orders: ReloadOrders,
    ordered: mpsc::Receiver<ReloadAnswer>,
    registry: Registry,
    set_filter: SetFilter,
}

/// Checks what must hold, then starts every part. It runs until `stop` says so; then `Started::end` must be called.
async fn start(config: Config, args: &RunArgs, stop: Stop, bars: &MultiProgress, reload: Reload) -> anyhow::Result<Started> {
    let state_path = config.file.state.path.clone();
    let options = OpenOptions { init: args.init, restored: args.restored, ..OpenOptions::default() };
    let (store, unasked) = open_compared(&config, options).await?;
    let metrics = Metrics::new(&config, Arc::new(SystemClock));
    let observers = Observers { metrics: metrics.clone(), traces: Arc::default() };
    observers.traces.set(config.telemetry.as_ref()).await.context("telemetry")?;
    let stores = observers.around(&store);
    let options = ServerOptions {
        listen: config.file.api.listen,
        access: config.file.api.access().map_err(|error| config.file.faults(vec![error]))?,
        requests_per_second: config.file.api.requests_per_second,
    };
    let bound = server::bind(options).await.map_err(|error| anyhow::anyhow!("api.listen: {error}"))?;
    let operator = operator(&config, stores, Arc::new(SystemClock), stop.clone(), Some(reload.orders)).await?;
    store.wake_on_events(&operator.wake);
    let mut tasks = Tasks::new(stop);
    let bound = bound.with_metrics(Arc::new(Gatherer::new(&metrics, &operator)));
    let instance = serve(bound, operator.clone(), &state_path, &mut tasks)?;
    // Before anything has a line of its own to say.
    tracing::info!(version = crate::cli::VERSION, api = %instance.address, state = %state_path.display(),
        chains = config.chains.len(), sinks = config.sinks.len(), "confirmd runs");
    let parts = spawn_parts(&config, &operator, &observers, &unasked, &mut tasks);
    let traces = observers.traces.clone();
    let reloader = Reloader::new(config, parts, reload.registry, reload.set_filter, &operator, observers, &tasks);
    tasks.spawn("configuration", reloader.run(reload.ordered));
    metrics::sample(&metrics, &operator, &mut tasks);
    pace::spawn(&operator, &mut tasks);
    if !args.no_progress {
        progress::spawn(&operator, bars, &mut tasks);
    }
    Ok(Started { tasks, instance, folder: state_path, store, traces })
}

/// Opens the state, and compares it with the books of consumers that keep some. Where they have seen more, the state is an older
/// copy: it takes a new epoch, unless it has one, and takes over what they know. Also returns whose books could not be asked.
async fn open_compared(config: &Config, options: OpenOptions) -> anyhow::Result<(OpenState, BTreeSet<ConsumerName>)> {
    let section = &config.file.state;
    let (clock, restored) = (options.clock.clone(), options.restored);
    let mut store = state::open(section, options.clone()).await?;
    if restored {
        tracing::info!(epoch = store.state().epoch().0, "the restored state has a new epoch");
    }
    introduce(config, store.state());
    let stores = store.stores();
    can_start(config, &stores).await?;
    let compared = books::compare(config, &stores, clock.as_ref()).await?;
    drop(stores);
    if compared.ahead.is_empty() {
        return Ok((store, compared.unasked));
    }
    let epoch = store.state().epoch();
    if compared.ahead.iter().any(|(_, newest)| newest.feed.epoch == epoch) {
        store.close().await.context("close the state for a new epoch")?;
        drop(store);
        store = state::open(section, OpenOptions { init: false, restored: true, ..options }).await?;
        introduce(config, store.state());
    }
    for (consumer, newest) in &compared.ahead {
        tracing::warn!(sink = %consumer, event = %newest.event, position = newest.position.0, epoch = store.state().epoch().0,
            "the consumer was told of an event that this state does not know: it is an older copy, and goes on in a new epoch");
    }
    let stores = store.stores();
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
    consumers::check_sinks(config.sinks.iter()).await?;
    operations::check_sink(config.operations.as_ref()).await
}

/// What looks on at everything that passes between engine and adapters.
#[derive(Debug, Clone)]
struct Observers {
    metrics: Arc<Metrics>,
    traces: Arc<Traces>,
}

impl Observers {
    /// The store's three contracts, its commits counted and recorded.
    fn around(&self, store: &OpenState) -> Stores {
        let stores = store.stores();
        let observers = vec![TracedCommits::observer(self.traces.clone()), CountedCommits::observer(self.metrics.clone())];
        Stores { state: ObservedState::around(stores.state, observers), ..stores }
    }
}

/// Makes the consumers known, and whoever carries out an operator's orders.
async fn operator(
    config: &Config,
    stores: Stores,
    clock: Arc<dyn Clock>,
    stop: Stop,
    reload: Option<ReloadOrders>,
) -> anyhow::Result<Arc<LocalOperator>> {
    for sink in &config.sinks {
        let registered = stores.outbox.register(&sink.spec).await;
        registered.with_context(|| format!("sinks.{}", sink.name()))?;
    }
    let notices = Arc::new(NoticesWanted::default());
    notices.set(config.sinks.iter().map(|sink| &sink.spec.filter));
    Ok(Arc::new(LocalOperator {
        notices,
        chains: Chains::new(&config.chains),
        kinds: Shared::new(config.kinds()),
        sinks: Shared::new(config.sinks_by_name()),
        reload,
        configuration: Shared::new(Some(ConfigurationView {
            file: config.file.path.display().to_string(),
            loaded_at: clock.now().to_rfc3339(),
            refused: None,
        })),
        wake: Arc::new(Notify::new()),
        state_path: config.file.state.path.clone(),
        started_at: Some(clock.now()),
        stop,
        stores,
        clock,
    }))
}

/// What can be ended and started again alone, by its key in the configuration.
type Parts = BTreeMap<String, Part>;

/// The key of the teller of operational events.
const OPERATIONS: &str = "operations";

/// Starts everything that watches, delivers and forgets.
fn spawn_parts(
    config: &Config,
    operator: &Arc<LocalOperator>,
    observers: &Observers,
    unasked: &BTreeSet<ConsumerName>,
    tasks: &mut Tasks,
) -> Parts {
    let mut parts = BTreeMap::new();
    for (slot, chain) in operator.chains.iter().zip(&config.chains) {
        parts.insert(chain.key(), chains::spawn(&slot, chain, operator, &observers.traces, tasks));
    }
    let history = config.file.state.history.0;
    for sink in &config.sinks {
        let part = consumers::spawn(sink, unasked.contains(sink.name()), history, operator, observers, tasks);
        parts.insert(sink.key(), part);
    }
    if let Some(operations) = &config.operations {
        parts.insert(OPERATIONS.to_owned(), operations::spawn(operations, operator, &observers.metrics, tasks));
    }
    prune::spawn(history, operator, tasks);
    parts
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
