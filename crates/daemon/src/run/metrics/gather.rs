//! What is read when somebody asks for the metrics.

use super::{Maker, Metrics, families as f, process};
use crate::operator::LocalOperator;
use crate::run::Tasks;
use async_trait::async_trait;
use confirmd_api::{ChainFigures, ConsumerFigures, Figures, OperatorError};
use confirmd_core::{
    ChainName, ConsumerName, ConsumerStatus, DeliveryFilter, DeliveryState, RescanState, SourceMeter, StoreError, Timestamp,
};
use confirmd_engine::{ChainStatus, Phase, RescanStatus};
use prometheus::{CounterVec, IntCounterVec, IntGaugeVec, TextEncoder};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;

/// How often it is looked whether a chain is at its node's tip.
const SAMPLE: Duration = Duration::from_secs(1);
const STATES: [&str; 8] =
    ["starting", "catching_up", "following", "behind", "waiting_for_fork", "halted", "unreachable", "stopped"];

/// Families that are set when somebody asks.
#[derive(Debug)]
pub(super) struct Gauges {
    tip: IntGaugeVec,
    trail: IntGaugeVec,
    floor: IntGaugeVec,
    lag_blocks: IntGaugeVec,
    lag_seconds: IntGaugeVec,
    state: IntGaugeVec,
    pending: IntGaugeVec,
    reported: IntGaugeVec,
    watched: IntGaugeVec,
    rescans: IntGaugeVec,
    rescan_left: IntGaugeVec,
    rescan_rate: IntGaugeVec,
    rescan_seconds: IntGaugeVec,
    deliveries: IntGaugeVec,
    paused: IntGaugeVec,
    oldest: IntGaugeVec,
    rpc: IntCounterVec,
    rpc_throttled: CounterVec,
    operations: IntGaugeVec,
    build: IntGaugeVec,
    cpu: CounterVec,
    memory: IntGaugeVec,
    files: IntGaugeVec,
    started: IntGaugeVec,
}

impl Gauges {
    pub(super) fn new(make: &Maker<'_>) -> Self {
        Self {
            tip: make.gauge(&f::TIP_HEIGHT),
            trail: make.gauge(&f::TRAIL_HEIGHT),
            floor: make.gauge(&f::FLOOR_HEIGHT),
            lag_blocks: make.gauge(&f::LAG_BLOCKS),
            lag_seconds: make.gauge(&f::LAG_SECONDS),
            state: make.gauge(&f::STATE),
            pending: make.gauge(&f::PENDING),
            reported: make.gauge(&f::REPORTED),
            watched: make.gauge(&f::WATCHED),
            rescans: make.gauge(&f::RESCANS),
            rescan_left: make.gauge(&f::RESCAN_LEFT),
            rescan_rate: make.gauge(&f::RESCAN_RATE),
            rescan_seconds: make.gauge(&f::RESCAN_SECONDS),
            deliveries: make.gauge(&f::DELIVERIES),
            paused: make.gauge(&f::PAUSED),
            oldest: make.gauge(&f::OLDEST),
            rpc: make.counter(&f::RPC),
            rpc_throttled: make.seconds(&f::RPC_THROTTLED),
            operations: make.gauge(&f::OPERATIONS),
            build: make.gauge(&f::BUILD),
            cpu: make.seconds(&f::CPU),
            memory: make.gauge(&f::MEMORY),
            files: make.gauge(&f::FILES),
            started: make.gauge(&f::STARTED),
        }
    }
}

impl Gauges {
    /// Forgets every label; what still is shows again with the next reading.
    pub(super) fn reset(&self) {
        let chains = [&self.tip, &self.trail, &self.floor, &self.lag_blocks, &self.lag_seconds, &self.state];
        let held = [&self.pending, &self.reported, &self.watched, &self.deliveries, &self.paused, &self.oldest];
        let rescans = [&self.rescans, &self.rescan_left, &self.rescan_rate, &self.rescan_seconds];
        chains.into_iter().chain(held).chain(rescans).for_each(|gauge| gauge.reset());
    }
}

/// Sets a gauge. Larger numbers than a gauge holds do not come up.
fn set(gauge: &IntGaugeVec, labels: &[&str], value: u64) {
    gauge.with_label_values(labels).set(i64::try_from(value).unwrap_or(i64::MAX));
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Brings a counter to what was counted elsewhere; there it may have begun anew.
fn raise(counter: &IntCounterVec, labels: &[&str], to: u64) {
    let counter = counter.with_label_values(labels);
    if to < counter.get() {
        counter.reset();
    }
    counter.inc_by(to.saturating_sub(counter.get()));
}

fn replace(counter: &CounterVec, labels: &[&str], to: Duration) {
    let counter = counter.with_label_values(labels);
    counter.reset();
    counter.inc_by(to.as_secs_f64());
}

fn state_of(phase: &Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting",
        Phase::CatchingUp => "catching_up",
        Phase::Following => "following",
        Phase::Behind { .. } => "behind",
        Phase::WaitingForFork { .. } => "waiting_for_fork",
        Phase::Halted { .. } => "halted",
        Phase::Unreachable { .. } => "unreachable",
    }
}

fn is_at_tip(status: &ChainStatus) -> bool {
    let heights = (status.trail_tip.as_ref(), status.source_tip.as_ref());
    status.phase == Phase::Following && matches!(heights, (Some(ours), Some(node)) if ours.height >= node.height)
}

/// Notes again and again which chains are at their nodes' tips.
pub(crate) fn sample(metrics: &Arc<Metrics>, operator: &Arc<LocalOperator>, tasks: &mut Tasks) {
    let (metrics, operator, stop) = (metrics.clone(), operator.clone(), tasks.stop().clone());
    tasks.spawn("metrics", async move {
        loop {
            metrics.note_tips(&operator);
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = tokio::time::sleep(SAMPLE) => {}
            }
        }
    });
}

impl Metrics {
    fn note_tips(&self, operator: &LocalOperator) {
        let now = self.clock.now();
        let mut at_tip = self.at_tip.lock().unwrap_or_else(PoisonError::into_inner);
        for slot in operator.chains.iter() {
            // A chain that never was at its tip lags since the start.
            let since = at_tip.entry(slot.name.clone()).or_insert(now);
            if slot.handle().is_some_and(|handle| is_at_tip(&handle.status())) {
                *since = now;
            }
        }
    }

    fn show_chain(&self, name: &ChainName, status: Option<&ChainStatus>) {
        let (gauges, chain) = (&self.gauges, name.as_str());
        let state = status.map_or("stopped", |status| state_of(&status.phase));
        for word in STATES {
            set(&gauges.state, &[chain, word], u64::from(word == state));
        }
        let since = self.at_tip.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied();
        let lag = since.map_or(Duration::ZERO, |since| self.clock.now().since(since));
        let at_tip = status.is_some_and(is_at_tip);
        set(&gauges.lag_seconds, &[chain], if at_tip { 0 } else { lag.as_secs() });
        let Some(status) = status else { return };
        let (trail, tip) = (status.trail_tip.as_ref(), status.source_tip.as_ref());
        if let Some(tip) = tip {
            set(&gauges.tip, &[chain], tip.height.0);
        }
        if let Some(trail) = trail {
            set(&gauges.trail, &[chain], trail.height.0);
            set(&gauges.floor, &[chain], status.floor.0);
        }
        if let (Some(trail), Some(tip)) = (trail, tip) {
            set(&gauges.lag_blocks, &[chain], tip.height.0.saturating_sub(trail.height.0));
        }
        set(&gauges.pending, &[chain], count(status.pending));
        set(&gauges.reported, &[chain], count(status.reported));
        set(&gauges.watched, &[chain], count(status.watched));
        self.show_rescans(chain, status);
    }

    fn show_rescans(&self, chain: &str, status: &ChainStatus) {
        let gauges = &self.gauges;
        for state in ["running", "paused", "failed"] {
            let of_it = status.rescans.iter().filter(|one| one.rescan.state.as_str() == state);
            set(&gauges.rescans, &[chain, state], count(of_it.count()));
        }
        let running = || status.rescans.iter().filter(|one| one.rescan.state == RescanState::Running);
        let most = |of: &dyn Fn(&RescanStatus) -> Option<u64>| running().filter_map(of).max().unwrap_or_default();
        set(&gauges.rescan_left, &[chain], most(&|one| Some(one.rescan.heights_left())));
        set(&gauges.rescan_rate, &[chain], most(&|one| one.heights_per_second));
        set(&gauges.rescan_seconds, &[chain], most(&|one| one.seconds_left));
    }

    fn show_consumer(&self, status: &ConsumerStatus, oldest: Option<Timestamp>) {
        let (gauges, name) = (&self.gauges, status.name.as_str());
        let queued = status.waiting.saturating_sub(status.retrying).saturating_sub(status.blocked);
        let states = [("queued", queued), ("retrying", status.retrying), ("blocked", status.blocked), ("dead", status.dead)];
        for (state, number) in states {
            set(&gauges.deliveries, &[name, state], number);
        }
        set(&gauges.paused, &[name], u64::from(status.paused.is_some()));
        let age = oldest.map_or(Duration::ZERO, |at| self.clock.now().since(at));
        set(&gauges.oldest, &[name], age.as_secs());
    }

    fn show_requests(&self, chain: &ChainName, meter: &SourceMeter) {
        let (gauges, name, counts) = (&self.gauges, chain.as_str(), meter.counts());
        let outcomes = [("answered", counts.answered), ("failed", counts.failed), ("throttled", counts.throttled)];
        for (outcome, number) in outcomes {
            raise(&gauges.rpc, &[name, outcome], number);
        }
        replace(&gauges.rpc_throttled, &[name], counts.waited);
    }

    fn show_process(&self, started: Option<Timestamp>) {
        let gauges = &self.gauges;
        set(&gauges.build, &[env!("CARGO_PKG_VERSION"), env!("CONFIRMD_REVISION")], 1);
        set(&gauges.operations, &[], self.operations_waiting.load(Relaxed));
        if let Some(started) = started {
            set(&gauges.started, &[], started.seconds());
        }
        if let Some(time) = process::cpu() {
            replace(&gauges.cpu, &[], time);
        }
        if let Some(bytes) = process::memory() {
            set(&gauges.memory, &[], bytes);
        }
        if let Some(open) = process::files() {
            set(&gauges.files, &[], open);
        }
    }
}

/// Answers `/metrics`.
#[derive(Debug)]
pub(crate) struct Gatherer {
    metrics: Arc<Metrics>,
    operator: Arc<LocalOperator>,
    /// One at a time: what is read elsewhere is put in piece by piece.
    turn: Mutex<()>,
}

impl Gatherer {
    pub(crate) fn new(metrics: &Arc<Metrics>, operator: &Arc<LocalOperator>) -> Self {
        Self { metrics: metrics.clone(), operator: operator.clone(), turn: Mutex::default() }
    }

    async fn read(&self) -> Result<(), StoreError> {
        for slot in self.operator.chains.iter() {
            self.metrics.show_chain(&slot.name, slot.handle().map(|handle| handle.status()).as_ref());
            self.metrics.show_requests(&slot.name, &slot.meter);
        }
        for status in self.operator.stores.outbox.consumers().await? {
            let oldest = match status.waiting {
                0 => None,
                _ => self.oldest(&status.name).await?,
            };
            self.metrics.show_consumer(&status, oldest);
        }
        self.metrics.show_process(self.operator.started_at);
        Ok(())
    }

    async fn read_figures(&self) -> Result<Figures, StoreError> {
        let counted = |name: &ChainName, event| self.metrics.deposits.with_label_values(&[name.as_str(), event]).get();
        let of_chain = |name: &ChainName| ChainFigures {
            chain: name.clone(),
            confirmed: counted(name, "confirmed"),
            reverted: counted(name, "reverted"),
        };
        let names: Vec<ChainName> = self.operator.chains.iter().map(|slot| slot.name.clone()).collect();
        let mut figures = Figures { chains: names.iter().map(of_chain).collect(), consumers: Vec::new() };
        for status in self.operator.stores.outbox.consumers().await? {
            let name = status.name.as_str();
            let took = Duration::try_from_secs_f64(self.metrics.delivery.with_label_values(&[name]).get_sample_sum());
            let oldest = match status.waiting {
                0 => None,
                _ => self.oldest(&status.name).await?,
            };
            figures.consumers.push(ConsumerFigures {
                delivered: self.metrics.attempts.with_label_values(&[name, "delivered"]).get(),
                delivery_ms: u64::try_from(took.unwrap_or_default().as_millis()).unwrap_or(u64::MAX),
                oldest,
                failing: self.metrics.failing(&status.name).map(|failing| (failing.since, failing.error)),
                consumer: status.name,
            });
        }
        Ok(figures)
    }

    /// When the oldest event was decided that is queued or retrying.
    async fn oldest(&self, consumer: &ConsumerName) -> Result<Option<Timestamp>, StoreError> {
        let stores = &self.operator.stores;
        let mut oldest = None;
        for state in [DeliveryState::Queued, DeliveryState::Retrying] {
            let filter = DeliveryFilter { consumer: Some(consumer.clone()), state: Some(state), event: None };
            if let Some(first) = stores.outbox.list(&filter, None, 1).await?.into_iter().next()
                && let Some(record) = stores.history.event(&first.event).await?
            {
                let at = record.event.decided_at;
                oldest = Some(oldest.map_or(at, |known: Timestamp| known.min(at)));
            }
        }
        Ok(oldest)
    }
}

#[async_trait]
impl confirmd_api::Metrics for Gatherer {
    async fn text(&self) -> Result<String, OperatorError> {
        let _turn = self.turn.lock().await;
        self.read().await.map_err(|error| {
            self.operator.stop.on(&error);
            OperatorError::from(error)
        })?;
        let text = TextEncoder::new().encode_to_string(&self.metrics.registry.gather());
        text.map_err(|error| OperatorError::failed(format!("the metrics can't be written: {error}")))
    }
    async fn figures(&self) -> Result<Figures, OperatorError> {
        self.read_figures().await.map_err(|error| {
            self.operator.stop.on(&error);
            OperatorError::from(error)
        })
    }
}
