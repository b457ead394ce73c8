//! The configured chains, and the watchers that run on them.

use crate::config::ChainConfig;
use confirmd_api::OperatorError;
use confirmd_api::view::RequestsView;
use confirmd_core::{Address, ChainId, ChainName, ChainSource, SourceCounts, SourceMeter};
use confirmd_engine::WatcherHandle;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

/// Five minutes of notes.
const NOTES_KEPT: usize = 60;

/// A number as it was at the moments of the last minutes, oldest first.
#[derive(Debug, Default)]
struct Notes(Mutex<VecDeque<(Instant, u64)>>);

impl Notes {
    fn all(&self) -> MutexGuard<'_, VecDeque<(Instant, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, number: u64) {
        let mut all = self.all();
        all.push_back((Instant::now(), number));
        if all.len() > NOTES_KEPT {
            all.pop_front();
        }
    }
}

fn per_minute((began, before): (Instant, u64), (ended, number): (Instant, u64)) -> Option<u64> {
    number.saturating_sub(before).saturating_mul(60).checked_div(ended.duration_since(began).as_secs())
}

/// One configured chain.
#[derive(Debug)]
pub(crate) struct ChainSlot {
    /// The operator's name.
    pub name: ChainName,
    /// Built from the configuration.
    pub source: Arc<dyn ChainSource>,
    /// Counts the requests to its nodes.
    pub meter: SourceMeter,
    /// Addresses that stand in the configuration file.
    configured: HashSet<Address>,
    watcher: RwLock<Option<WatcherHandle>>,
    heights: Notes,
    requests: Notes,
}

impl ChainSlot {
    /// No watcher runs yet.
    pub(crate) fn new(config: &ChainConfig) -> Self {
        let configured = config.watch.iter().map(|one| one.address.clone()).collect();
        Self {
            name: config.name.clone(),
            source: config.source.clone(),
            meter: config.meter.clone(),
            configured,
            watcher: RwLock::default(),
            heights: Notes::default(),
            requests: Notes::default(),
        }
    }

    /// Notes where the trail ends now, and how much its nodes were asked.
    pub(crate) fn note_pace(&self) {
        match self.handle().and_then(|handle| handle.status().trail_tip) {
            Some(tip) => self.heights.note(tip.height.0),
            None => self.heights.all().clear(),
        }
        self.requests.note(asked(&self.meter.counts()));
    }

    /// Blocks a minute since the oldest note; `None` before there are two.
    pub(super) fn blocks_per_minute(&self) -> Option<u64> {
        let heights = self.heights.all();
        per_minute(*heights.front()?, *heights.back()?)
    }

    /// What its nodes were asked.
    pub(super) fn requests(&self) -> RequestsView {
        let counts = self.meter.counts();
        let oldest = self.requests.all().front().copied();
        let per_minute = oldest.and_then(|oldest| per_minute(oldest, (Instant::now(), asked(&counts))));
        RequestsView {
            answered: counts.answered,
            failed: counts.failed,
            throttled: counts.throttled,
            waited_ms: u64::try_from(counts.waited.as_millis()).unwrap_or(u64::MAX),
            per_minute,
            limit_per_second: counts.limit_per_second,
        }
    }

    /// CAIP-2.
    pub(crate) fn id(&self) -> &ChainId {
        &self.source.profile().chain
    }

    /// Whether an address stands in the configuration file: a command can't take it away, the next start would add it.
    pub(super) fn is_configured(&self, address: &Address) -> bool {
        self.configured.contains(address)
    }

    /// Puts the running watcher in, or takes it out.
    pub(crate) fn set(&self, handle: Option<WatcherHandle>) {
        *self.watcher.write().unwrap_or_else(PoisonError::into_inner) = handle;
    }

    /// The running watcher.
    pub(crate) fn handle(&self) -> Option<WatcherHandle> {
        self.watcher.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The running watcher if an instance runs, which must then be there.
    pub(super) fn running(&self, instance: bool) -> Result<Option<WatcherHandle>, OperatorError> {
        match (self.handle(), instance) {
            (None, true) => Err(OperatorError::unavailable(format!(
                "the watcher of {} is being started again; try again in a moment, or see the log",
                self.name
            ))),
            (handle, _) => Ok(handle),
        }
    }
}

fn asked(counts: &SourceCounts) -> u64 {
    counts.answered.saturating_add(counts.failed).saturating_add(counts.throttled)
}

/// The configured chains, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chains {
    slots: Arc<RwLock<Vec<Arc<ChainSlot>>>>,
    /// Chains whose configuration is wrong, and how; only while no instance runs.
    broken: BTreeMap<String, String>,
}

impl Chains {
    /// Of built chains.
    pub(crate) fn new(chains: &[ChainConfig]) -> Self {
        let slots = chains.iter().map(|chain| Arc::new(ChainSlot::new(chain))).collect();
        Self { slots: Arc::new(RwLock::new(slots)), broken: BTreeMap::new() }
    }

    /// Puts other slots in the place of all.
    pub(crate) fn replace(&self, mut slots: Vec<Arc<ChainSlot>>) {
        slots.sort_by(|one, other| one.name.cmp(&other.name));
        *self.slots.write().unwrap_or_else(PoisonError::into_inner) = slots;
    }

    fn slots(&self) -> Vec<Arc<ChainSlot>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers the chains that could not be built; asking for one gives its error.
    #[must_use]
    pub(crate) fn with_broken(mut self, names: impl Iterator<Item = String>, why: &str) -> Self {
        let known: Vec<String> = self.iter().map(|slot| slot.name.to_string()).collect();
        self.broken = names.filter(|name| !known.contains(name)).map(|name| (name, why.to_owned())).collect();
        self
    }

    /// Each as of now, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<ChainSlot>> {
        self.slots().into_iter()
    }

    /// By the operator's name; unknown ones list the known.
    pub(super) fn get(&self, name: &ChainName) -> Result<Arc<ChainSlot>, OperatorError> {
        let slots = self.slots();
        if let Some(slot) = slots.iter().find(|slot| slot.name == *name) {
            return Ok(slot.clone());
        }
        if let Some(why) = self.broken.get(name.as_str()) {
            return Err(OperatorError::invalid(why.clone()));
        }
        let known: Vec<&str> = slots.iter().map(|slot| slot.name.as_str()).collect();
        Err(OperatorError::not_found(format!("no chain is called {name} in the configuration; known: {}", known.join(", "))))
    }

    /// The operator's name of a chain id.
    pub(super) fn name_of(&self, id: &ChainId) -> Option<ChainName> {
        self.iter().find(|slot| slot.id() == id).map(|slot| slot.name.clone())
    }
}
