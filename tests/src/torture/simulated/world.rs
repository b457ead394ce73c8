//! Everything outside the instance: chains behind their endpoints, receivers, time, chance, and the crashes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use confirmd_testkit::Receiver;
use confirmd_testkit::receiver::ReceiverOptions;

use super::chain::{Chain, View};
use super::clock::VirtualClock;
use super::crash::Lives;
use super::dice::Dice;
use super::record::Record;
use super::weather::Weather;
use super::{node_side, receiver_side};

/// Signs the deliveries of a run; nothing else.
pub(super) const SECRET: &str = "whsec_dG9ydHVyZS1zZWNyZXQtb2YtdGhlLXNpbXVsYXRpb24=";

/// What an endpoint or a receiver is like now.
#[derive(Debug, Clone, Default)]
pub(super) struct Condition {
    pub(super) weather: Weather,
    pub(super) view: View,
}

/// Who answers at a host name.
#[derive(Debug, Clone, Copy)]
enum Host {
    Node(usize),
    Receiver(usize),
    /// No host: the disk on which the file sink writes.
    Disk,
}

/// A run's world.
#[derive(Debug)]
pub(super) struct World {
    pub(super) clock: Arc<VirtualClock>,
    /// For what the world does by itself.
    pub(super) script: Dice,
    /// For what becomes of each request.
    pub(super) luck: Dice,
    pub(super) record: Record,
    pub(super) lives: Lives,
    pub(super) chains: Vec<Chain>,
    /// By name; `ledger` hears everything, `shop` perhaps less.
    pub(super) receivers: Vec<Receiver>,
    hosts: BTreeMap<String, Host>,
    conditions: Mutex<BTreeMap<String, Condition>>,
    /// From now on nothing goes wrong any more.
    calm: AtomicBool,
    pub(super) ticks: AtomicU64,
    pub(super) deliveries: AtomicU64,
    problems: Mutex<Vec<String>>,
}

impl World {
    /// A world with endpoints as told for each chain, and two receivers.
    pub(super) fn new(seed: u64, root: &Path, chains: Vec<Chain>, endpoints: &[u64], aloud: bool) -> anyhow::Result<Self> {
        let mut hosts = BTreeMap::new();
        for (index, (chain, endpoints)) in chains.iter().zip(endpoints).enumerate() {
            hosts.extend((0..*endpoints).map(|n| (node_host(chain.name, n), Host::Node(index))));
        }
        hosts.extend(RECEIVERS.iter().enumerate().map(|(index, name)| (format!("{name}.test"), Host::Receiver(index))));
        hosts.insert(DISK.to_owned(), Host::Disk);
        let receiver = |_: &&str| Receiver::detached(ReceiverOptions { secrets: vec![SECRET.to_owned()], now: None });
        Ok(Self {
            clock: Arc::new(VirtualClock::new()),
            script: Dice::new(seed.wrapping_mul(2)),
            luck: Dice::new(seed.wrapping_mul(2).wrapping_add(1)),
            record: Record::new(aloud),
            lives: Lives::new(root)?,
            receivers: RECEIVERS.iter().map(receiver).collect::<std::io::Result<_>>()?,
            conditions: Mutex::new(hosts.keys().map(|host| (host.clone(), Condition::default())).collect()),
            chains,
            hosts,
            calm: AtomicBool::new(false),
            ticks: AtomicU64::new(0),
            deliveries: AtomicU64::new(0),
            problems: Mutex::default(),
        })
    }

    /// What serves a new connection to `host` of this life; `None` refuses it.
    pub(super) fn answer_at(self: &Arc<Self>, host: &str, life: u64) -> Option<Router> {
        if !self.lives.counts(life) || self.condition(host).weather == Weather::Down {
            self.record.fact(&self.clock, "refused", host.as_bytes());
            return None;
        }
        match *self.hosts.get(host)? {
            Host::Node(index) => Some(node_side::router(self.clone(), host.to_owned(), index, life)),
            Host::Receiver(index) => Some(receiver_side::router(self.clone(), host.to_owned(), index, life)),
            Host::Disk => None,
        }
    }

    /// How a host is doing.
    pub(super) fn condition(&self, host: &str) -> Condition {
        if self.calm.load(SeqCst) {
            return Condition::default();
        }
        self.conditions().get(host).cloned().unwrap_or_default()
    }

    /// One host's weather, and how its node sees its chain, change.
    pub(super) fn change_conditions(&self) {
        let hosts: Vec<_> = self.hosts.iter().collect();
        let Some((host, kind)) = self.script.pick(&hosts) else { return };
        let view = match kind {
            Host::Node(index) => self.chains.get(*index).map(|chain| chain.view(&self.script)).unwrap_or_default(),
            Host::Receiver(_) | Host::Disk => View::default(),
        };
        let condition = Condition { weather: Weather::next(&self.script), view };
        self.record.line(&self.clock, format_args!("{host}: {condition:?}"));
        self.conditions().insert((*host).clone(), condition);
    }

    /// From now on nothing goes wrong any more.
    pub(super) fn calm_down(&self) {
        self.calm.store(true, SeqCst);
        self.lives.light(0, false);
        self.clock.set_ahead(Duration::ZERO);
    }

    /// A point where it may crash.
    pub(super) fn point(&self, what: &str) {
        self.record.fact(&self.clock, what, b"");
        if self.lives.point() {
            self.record.line(&self.clock, format_args!("*** crash at: {what}"));
        }
    }

    /// Waits for ever if the life that asks is over.
    pub(super) async fn only_for(&self, life: u64) {
        if !self.lives.counts(life) {
            std::future::pending::<()>().await;
        }
    }

    /// Something that must never happen.
    pub(super) fn problem(&self, what: String) {
        self.record.line(&self.clock, format_args!("!!! {what}"));
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    /// Everything of that kind.
    pub(super) fn problems(&self) -> Vec<String> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn conditions(&self) -> MutexGuard<'_, BTreeMap<String, Condition>> {
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receivers' names, which are their consumers' too.
pub(super) const RECEIVERS: [&str; 2] = ["ledger", "shop"];

/// The name under which the archive's disk has its weather.
pub(super) const DISK: &str = "archive.disk";

/// The host name of a chain's n-th endpoint.
pub(super) fn node_host(chain: &str, n: u64) -> String {
    format!("{chain}-{n}.test")
}
