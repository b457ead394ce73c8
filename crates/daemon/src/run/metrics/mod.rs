//! What is counted, and how it is shown at `/metrics`.
//!
//! Engine, stores and sinks know nothing of it: a layer around the store counts what is committed, one around each sink what is tried,
//! and everything that can be asked for (heights, queues) is read when somebody asks.

mod commits;
mod decided;
pub(crate) mod families;
mod gather;
mod process;
mod sink;

pub(super) use commits::CountedCommits;
pub(super) use gather::{Gatherer, sample};
pub(super) use sink::MeteredSink;

use crate::config::Config;
use confirmd_core::{ChainId, ChainName, Clock, ConsumerName, EventId, EventKind, Timestamp};
use decided::Decided;
use families::{Family, Kind};
use prometheus::core::Collector;
use prometheus::{CounterVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// An event of a commit: which, which way, when.
type Decision = (EventId, EventKind, Timestamp);

/// A consumer no attempt for which has succeeded since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failing {
    /// When the first of these attempts failed.
    pub(super) since: Timestamp,
    /// What the last one said.
    pub(super) error: String,
    /// Nothing can be delivered before an operator acts.
    pub(super) fatal: bool,
}

/// The counters of an instance.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    clock: Arc<dyn Clock>,
    names: RwLock<BTreeMap<ChainId, ChainName>>,
    reorgs: IntCounterVec,
    reorg_depth: HistogramVec,
    deposits: IntCounterVec,
    commit: HistogramVec,
    attempts: IntCounterVec,
    delivery: HistogramVec,
    gauges: gather::Gauges,
    decided: Mutex<Decided>,
    failing: Mutex<BTreeMap<ConsumerName, Failing>>,
    /// When each chain was last known to be at its node's tip.
    at_tip: Mutex<BTreeMap<ChainName, Timestamp>>,
    /// Operational events that wait.
    pub(super) operations_waiting: AtomicU64,
}

/// Makes and registers families. The table's test sees that it can't fail.
struct Maker<'a>(&'a Registry);

impl Maker<'_> {
    fn registered<T: Collector + Clone + 'static>(&self, made: prometheus::Result<T>) -> T {
        let made = made.expect("invariant: the table's names are valid");
        self.0.register(Box::new(made.clone())).expect("invariant: the table's names are unique");
        made
    }

    fn counter(&self, family: &Family) -> IntCounterVec {
        self.registered(IntCounterVec::new(Opts::new(family.name, family.help), family.labels))
    }

    fn seconds(&self, family: &Family) -> CounterVec {
        self.registered(CounterVec::new(Opts::new(family.name, family.help), family.labels))
    }

    fn gauge(&self, family: &Family) -> IntGaugeVec {
        self.registered(IntGaugeVec::new(Opts::new(family.name, family.help), family.labels))
    }

    fn histogram(&self, family: &Family) -> HistogramVec {
        let Kind::Histogram(bounds) = family.kind else { unreachable!("invariant: asked for histograms only") };
        self.registered(HistogramVec::new(HistogramOpts::new(family.name, family.help).buckets(bounds.to_vec()), family.labels))
    }
}

impl Metrics {
    /// Nothing counted yet; every label that the configuration knows is there.
    pub(super) fn new(config: &Config, clock: Arc<dyn Clock>) -> Arc<Self> {
        let registry = Registry::new();
        let make = Maker(&registry);
        let metrics = Self {
            names: RwLock::default(),
            reorgs: make.counter(&families::REORGS),
            reorg_depth: make.histogram(&families::REORG_DEPTH),
            deposits: make.counter(&families::DEPOSITS),
            commit: make.histogram(&families::COMMIT),
            attempts: make.counter(&families::ATTEMPTS),
            delivery: make.histogram(&families::DELIVERY),
            gauges: gather::Gauges::new(&make),
            decided: Mutex::default(),
            failing: Mutex::default(),
            at_tip: Mutex::default(),
            operations_waiting: AtomicU64::new(0),
            registry,
            clock,
        };
        metrics.commit.with_label_values::<&str>(&[]);
        metrics.follow(config);
        Arc::new(metrics)
    }

    /// Shows every label that a configuration knows, and no gauge that it does not.
    pub(super) fn follow(&self, config: &Config) {
        let names: BTreeMap<_, _> = config.chains.iter().map(|chain| (chain.id().clone(), chain.name.clone())).collect();
        self.gauges.reset();
        for chain in names.values() {
            self.reorgs.with_label_values(&[chain.as_str()]);
            self.reorg_depth.with_label_values(&[chain.as_str()]);
            for event in ["confirmed", "reverted"] {
                self.deposits.with_label_values(&[chain.as_str(), event]);
            }
        }
        for sink in &config.sinks {
            self.delivery.with_label_values(&[sink.name().as_str()]);
            for outcome in ["delivered", "transient", "rejected", "fatal"] {
                self.attempts.with_label_values(&[sink.name().as_str(), outcome]);
            }
        }
        let known = |consumer: &ConsumerName| config.sinks.iter().any(|sink| sink.name() == consumer);
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).retain(|consumer, _| known(consumer));
        let known = |chain: &ChainName| config.chains.iter().any(|known| known.name == *chain);
        self.at_tip.lock().unwrap_or_else(PoisonError::into_inner).retain(|chain, _| known(chain));
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// A commit went through; `depth` is how many heights it went back.
    fn committed(&self, chain: &ChainId, events: Vec<Decision>, took: Duration, depth: u64) {
        self.commit.with_label_values::<&str>(&[]).observe(took.as_secs_f64());
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let Some(chain) = names.get(chain).map(ChainName::as_str) else { return };
        if depth > 0 {
            self.reorgs.with_label_values(&[chain]).inc();
            let depth = f64::from(u32::try_from(depth).unwrap_or(u32::MAX));
            self.reorg_depth.with_label_values(&[chain]).observe(depth);
        }
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        for (event, kind, at) in events {
            self.deposits.with_label_values(&[chain, kind.word()]).inc();
            decided.note(event, at);
        }
    }

    /// How a consumer fails, if every attempt does.
    pub(super) fn failing(&self, consumer: &ConsumerName) -> Option<Failing> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).get(consumer).cloned()
    }
}
