//! What a watcher keeps in memory of its rescans: whose addresses are read for, where it reads next, and at what pace. All of it can
//! be made anew from the state.

use super::read::{StepError, StepRead};
use super::step::StepEnd;
use confirmd_core::{ChainState, Change, Height, HeightRange, Rescan, RescanId, RescanScope, RescanState, WatchSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Blocks in the first step; grows while steps are quick.
const FIRST_SPAN: u64 = 50;
/// A step is to take about so long: a live tick that begins meanwhile shares the node with no more than the rest of it.
const STEP_TARGET: Duration = Duration::from_millis(500);
/// Additions of one import come one after the other: they are waited for, so that one pass reads for all.
const QUIET: Duration = Duration::from_secs(2);
/// But not for ever.
const QUIET_MAX: Duration = Duration::from_secs(30);
/// Between a step that failed and the next try.
const TROUBLE_REST: Duration = Duration::from_secs(5);

/// A step that is being read.
#[derive(Debug)]
pub(super) struct Step {
    task: JoinHandle<Result<StepRead, StepError>>,
    began: Instant,
    /// For which rescans, with how many addresses each had then.
    pub(super) of: BTreeMap<RescanId, u64>,
}

impl Drop for Step {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// See the module.
#[derive(Debug)]
pub(in crate::watcher) struct Rescans {
    /// Addresses of rescans that are not read yet, as they came.
    waiting: BTreeMap<RescanId, WatchSet>,
    /// Rescans that are read, with how many addresses each has; all of those are in `watch`.
    boarded: BTreeMap<RescanId, u64>,
    pub(super) watch: Arc<WatchSet>,
    /// The newest rescan that was seen.
    newest: RescanId,
    asked: Option<(Instant, Instant)>,
    cursor: Height,
    span: u64,
    step: Option<Step>,
    not_before: Option<Instant>,
    /// Percent of the time that may be spent reading.
    share: u32,
    ended_at: Option<Instant>,
    /// Thousandths of a height a second.
    rate_milli: u64,
    pub(super) trouble: Option<String>,
}

impl Rescans {
    pub(in crate::watcher) fn new(state: &ChainState) -> Self {
        Self {
            waiting: BTreeMap::new(),
            boarded: BTreeMap::new(),
            watch: Arc::default(),
            newest: state.rescans.last_key_value().map_or(RescanId(0), |(id, _)| *id),
            asked: None,
            cursor: Height::default(),
            span: FIRST_SPAN,
            step: None,
            not_before: None,
            share: 50,
            ended_at: None,
            rate_milli: 0,
            trouble: None,
        }
    }

    pub(in crate::watcher) fn set_share(&mut self, percent: u32) {
        self.share = percent.clamp(1, 100);
    }

    /// Nothing in memory is right any more: the state was loaded anew.
    pub(in crate::watcher) fn reset(&mut self, state: &ChainState) {
        *self = Self { share: self.share, span: self.span, ..Self::new(state) };
    }

    /// Follows committed changes; `state` is the one after them.
    pub(in crate::watcher) fn apply(&mut self, changes: &[Change], state: &ChainState) {
        // A change set may name an address before the rescan that it asks for.
        for change in changes {
            if let Change::RescanPut(rescan) = change {
                self.put(rescan);
            }
        }
        for change in changes {
            if let Change::WatchPut(entry) = change
                && let Some(waiting) = entry.history.and_then(|history| self.waiting.get_mut(&history.rescan))
            {
                waiting.put_address(entry.clone());
            }
        }
        debug_assert!(self.waiting.keys().all(|id| state.rescans.contains_key(id)), "what waits is recorded");
    }

    fn put(&mut self, rescan: &Rescan) {
        if rescan.state != RescanState::Running {
            self.waiting.remove(&rescan.id);
            self.boarded.remove(&rescan.id);
            if self.boarded.is_empty() {
                self.watch = Arc::default();
            }
        } else if rescan.is_untouched() {
            let now = Instant::now();
            self.asked = Some((self.asked.map_or(now, |(first, _)| first), now));
            if rescan.id > self.newest && rescan.scope == RescanScope::Asked {
                self.waiting.insert(rescan.id, WatchSet::default());
            }
        }
        self.newest = self.newest.max(rescan.id);
    }

    /// Rescans that take no more addresses.
    pub(in crate::watcher) fn busy(&self) -> BTreeSet<RescanId> {
        self.boarded.keys().copied().collect()
    }

    /// When the next step may begin, if something is to be read; `None` while one is under way.
    pub(super) fn next_at(&self, state: &ChainState) -> Option<Instant> {
        let open = state.rescans.values().any(|rescan| rescan.state == RescanState::Running);
        if self.step.is_some() || !open {
            return None;
        }
        let quiet = self.boarding_at().filter(|_| self.boarded.is_empty());
        Some(self.not_before.into_iter().chain(quiet).max().unwrap_or_else(Instant::now))
    }

    fn boarding_at(&self) -> Option<Instant> {
        self.asked.map(|(first, last)| (last + QUIET).min(first + QUIET_MAX))
    }

    /// Takes the running rescans in whose additions have come to rest; at once with `force`.
    pub(super) fn board(&mut self, state: &ChainState, force: bool) {
        let count = |id: &RescanId| state.rescans.get(id).map(|rescan| rescan.addresses);
        if self.boarded.iter().any(|(id, addresses)| count(id) != Some(*addresses)) {
            // Somebody else added addresses to a rescan we read: it has to be seen anew who is in it.
            self.reset(state);
        }
        if !force && self.boarding_at().is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.asked = None;
        let new = state.rescans.values().filter(|rescan| rescan.state == RescanState::Running);
        let new: Vec<&Rescan> = new.filter(|rescan| !self.boarded.contains_key(&rescan.id)).collect();
        if new.is_empty() {
            return;
        }
        let mut unknown = BTreeSet::new();
        for rescan in &new {
            self.boarded.insert(rescan.id, rescan.addresses);
            match (&rescan.scope, self.waiting.remove(&rescan.id)) {
                (RescanScope::Asked, Some(addresses)) => self.take_in(addresses),
                (RescanScope::Asked, None) => drop(unknown.insert(rescan.id)),
                _ => self.take_in(state.watch.clone()),
            }
        }
        if !unknown.is_empty() {
            let watch = Arc::make_mut(&mut self.watch);
            let named =
                |entry: &confirmd_core::WatchEntry| entry.history.is_some_and(|history| unknown.contains(&history.rescan));
            state.watch.addresses().filter(named).for_each(|entry| watch.put_address(entry));
        }
    }

    /// The smaller set goes into the larger one.
    fn take_in(&mut self, addresses: WatchSet) {
        let mut larger = Arc::new(addresses);
        if self.watch.len() > larger.len() {
            std::mem::swap(&mut larger, &mut self.watch);
        }
        let smaller = std::mem::replace(&mut self.watch, larger);
        let watch = Arc::make_mut(&mut self.watch);
        smaller.addresses().for_each(|entry| watch.put_address(entry));
    }

    /// The assets that are read for, as they are listed now.
    pub(super) fn align_assets(&mut self, state: &ChainState) {
        let only: Option<BTreeSet<_>> = self
            .boarded
            .keys()
            .filter_map(|id| state.rescans.get(id))
            .map(|rescan| match &rescan.scope {
                RescanScope::Asset(id) => Some(id.clone()),
                _ => None,
            })
            .collect();
        let wanted = |id| only.as_ref().is_none_or(|only| only.contains(id));
        let listed: BTreeMap<_, _> =
            state.watch.assets().filter(|listed| wanted(&listed.asset.id)).map(|listed| (&listed.asset.id, listed)).collect();
        if self.watch.assets().count() == listed.len() && self.watch.assets().all(|has| listed.get(&has.asset.id) == Some(&has)) {
            return;
        }
        let watch = Arc::make_mut(&mut self.watch);
        let held: Vec<_> = watch.assets().map(|listed| listed.asset.id.clone()).collect();
        held.iter().for_each(|id| watch.forget_asset(id));
        listed.into_values().for_each(|listed| watch.put_asset(listed.clone()));
    }

    /// What to read next: from the lowest height that was not read at or above where the last step ended, and for whom.
    pub(super) fn choose(&self, state: &ChainState, tip: Height) -> Option<(HeightRange, BTreeMap<RescanId, u64>)> {
        let boarded = || self.boarded.keys().filter_map(|id| state.rescans.get(id));
        let left = || boarded().flat_map(|rescan| &rescan.left).filter(|range| range.from <= tip);
        let ahead = left().filter(|range| range.to >= self.cursor).map(|range| range.from.max(self.cursor)).min();
        let from = ahead.filter(|from| *from <= tip).or_else(|| left().map(|range| range.from).min())?;
        let to = left().filter(|range| range.contains(from)).map(|range| range.to).max()?;
        let range = HeightRange::new(from, to.min(tip).min(from.plus(self.span.saturating_sub(1))))?;
        let of = boarded().filter(|rescan| rescan.left.iter().any(|left| left.meets(&range)));
        Some((range, of.map(|rescan| (rescan.id, rescan.addresses)).collect()))
    }

    pub(super) fn begin(&mut self, task: JoinHandle<Result<StepRead, StepError>>, of: BTreeMap<RescanId, u64>) {
        self.step = Some(Step { task, began: Instant::now(), of });
    }

    /// The step under way has ended; pending while there is none. Loses nothing when it is dropped.
    pub(in crate::watcher) async fn ended(&mut self) -> StepEnd {
        let Some(step) = &mut self.step else { return std::future::pending().await };
        let outcome = (&mut step.task).await;
        let (took, of) = (step.began.elapsed(), std::mem::take(&mut step.of));
        self.step = None;
        self.rest(took);
        match outcome {
            Ok(read) => (read, of),
            Err(error) => {
                let lost = confirmd_core::SourceError::transient("reading history ended before its answer").with_source(error);
                (Err(lost.into()), of)
            }
        }
    }

    /// Reading takes no more than its share of the time.
    fn rest(&mut self, took: Duration) {
        let rest = took.saturating_mul(100_u32.saturating_sub(self.share)) / self.share.max(1);
        self.not_before = Some(Instant::now() + rest);
        self.span = match took {
            took if took > STEP_TARGET.saturating_mul(2) => (self.span / 2).max(1),
            took if took < STEP_TARGET / 2 => self.span.saturating_mul(2),
            _ => self.span,
        };
    }

    pub(super) fn limit_span(&mut self, span_max: u64) {
        self.span = self.span.clamp(1, span_max.max(1));
    }

    /// A step failed; it is tried again after a while.
    pub(super) fn stumbled(&mut self, text: String, at_least: Option<Duration>) {
        self.trouble = Some(text);
        self.span = (self.span / 2).max(1);
        self.not_before = Some(Instant::now() + TROUBLE_REST.max(at_least.unwrap_or_default()));
    }

    /// A step was taken over.
    pub(super) fn went_on(&mut self, range: &HeightRange, cut: bool) {
        self.trouble = None;
        self.cursor = range.to.next();
        if cut {
            self.span = range.len();
        }
        let now = Instant::now();
        if let Some(before) = self.ended_at {
            let elapsed_ms = u64::try_from(now.duration_since(before).as_millis()).unwrap_or(u64::MAX).max(1);
            let rate = range.len().saturating_mul(1_000_000) / elapsed_ms;
            self.rate_milli =
                if self.rate_milli == 0 { rate } else { (self.rate_milli / 4).saturating_mul(3).saturating_add(rate / 4) };
        }
        self.ended_at = Some(now);
    }

    /// Heights a second lately, and how long a rescan will take at that; only for one that is being read.
    pub(super) fn speed(&self, rescan: &Rescan) -> Option<(u64, Duration)> {
        if !self.boarded.contains_key(&rescan.id) || self.rate_milli == 0 {
            return None;
        }
        let left = rescan.heights_left().saturating_mul(1000) / self.rate_milli.max(1);
        Some((self.rate_milli.div_ceil(1000), Duration::from_secs(left)))
    }
}
