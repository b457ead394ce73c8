//! How things stood a while ago: a bounded ring in memory for plots and rates. A restart begins it anew.

use crate::view::Status;
use crate::{Figures, Metrics, Operator};
use confirmd_core::{ChainName, Clock, ConsumerName, SystemClock, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How often it is looked at all.
const TICK: Duration = Duration::from_secs(1);
/// Samples kept. When they are full, every second one goes and twice as much time passes between two.
const KEPT: usize = 360;
/// At most so much time passes between two samples: the ring then holds 6 h 24 min.
const BETWEEN_MAX_MS: u64 = 64_000;

/// How everything stood at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Sample {
    pub(super) at: Timestamp,
    pub(super) chains: BTreeMap<ChainName, ChainSample>,
    pub(super) consumers: BTreeMap<ConsumerName, ConsumerSample>,
}

/// One chain then. Counts are since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ChainSample {
    /// The highest since the sample before.
    pub(super) lag_blocks: Option<u64>,
    pub(super) confirmed: u64,
    pub(super) reverted: u64,
}

/// One consumer then. Counts are since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ConsumerSample {
    pub(super) delivered: u64,
    pub(super) delivery_ms: u64,
}

#[derive(Debug, Default)]
struct Ring {
    samples: VecDeque<Sample>,
    between_ms: u64,
}

impl Ring {
    fn push(&mut self, mut sample: Sample) {
        if let Some(last) = self.samples.back_mut()
            && sample.at.0 < last.at.0.saturating_add(self.between_ms)
        {
            // Within the last one's time: its place is taken, its highest lag is kept.
            for (name, chain) in &mut sample.chains {
                let before = last.chains.get(name).and_then(|before| before.lag_blocks);
                chain.lag_blocks = chain.lag_blocks.max(before);
            }
            sample.at = last.at;
            *last = sample;
            return;
        }
        if self.samples.len() >= KEPT {
            match self.between_ms {
                BETWEEN_MAX_MS.. => drop(self.samples.pop_front()),
                _ => self.thin(),
            }
        }
        self.samples.push_back(sample);
    }

    /// Keeps the later one of each two, with the higher lag of both.
    fn thin(&mut self) {
        self.between_ms = self.between_ms.saturating_mul(2).max(1_000);
        let mut kept = VecDeque::with_capacity(KEPT);
        let mut odd: Option<Sample> = None;
        for mut sample in std::mem::take(&mut self.samples) {
            let Some(before) = odd.take() else {
                odd = Some(sample);
                continue;
            };
            for (name, chain) in &mut sample.chains {
                let lag = before.chains.get(name).and_then(|before| before.lag_blocks);
                chain.lag_blocks = chain.lag_blocks.max(lag);
            }
            kept.push_back(sample);
        }
        kept.extend(odd);
        self.samples = kept;
    }
}

/// The ring, and word of changes.
#[derive(Debug)]
pub(crate) struct Samples {
    ring: Mutex<Ring>,
    changed: watch::Sender<u64>,
}

impl Default for Samples {
    fn default() -> Self {
        Self { ring: Mutex::new(Ring { samples: VecDeque::new(), between_ms: 500 }), changed: watch::Sender::new(0) }
    }
}

impl Samples {
    /// Looks again and again, until it is dropped.
    pub(crate) async fn keep(self: Arc<Self>, operator: Arc<dyn Operator>, metrics: Option<Arc<dyn Metrics>>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let Ok(status) = operator.status().await else { continue };
            let figures = match &metrics {
                Some(metrics) => metrics.figures().await.unwrap_or_default(),
                None => Figures::default(),
            };
            self.take(&status, &figures, SystemClock.now());
        }
    }

    fn take(&self, status: &Status, figures: &Figures, at: Timestamp) {
        let seen = seen(status, figures);
        self.changed.send_if_modified(|known| std::mem::replace(known, seen) != seen);
        let mut sample = Sample { at, ..Sample::default() };
        for chain in &status.chains {
            let counts = figures.chains.iter().find(|one| one.chain == chain.name);
            let (confirmed, reverted) = counts.map_or((0, 0), |one| (one.confirmed, one.reverted));
            sample.chains.insert(chain.name.clone(), ChainSample { lag_blocks: chain.lag_blocks, confirmed, reverted });
        }
        for one in &figures.consumers {
            let of = ConsumerSample { delivered: one.delivered, delivery_ms: one.delivery_ms };
            sample.consumers.insert(one.consumer.clone(), of);
        }
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
    }

    /// Word of changes.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Everything kept, oldest first.
    pub(super) fn all(&self) -> Vec<Sample> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).samples.iter().cloned().collect()
    }
}

/// What pages are made fresh for. That a chain was looked at again and nothing was new is nothing to tell.
fn seen(status: &Status, figures: &Figures) -> u64 {
    let mut status = status.clone();
    status.chains.iter_mut().for_each(|chain| (chain.updated_at, chain.requests) = (None, None));
    let mut hasher = DefaultHasher::new();
    format!("{status:?}{figures:?}").hash(&mut hasher);
    hasher.finish()
}

/// Delivered a minute, over the last one (or two, where samples lie further apart); within the first minute, so far.
pub(super) fn per_minute(samples: &[Sample], consumer: &ConsumerName, delivered_now: u64, now: Timestamp) -> u64 {
    let ago = now.minus(Duration::from_secs(60));
    let then = samples.iter().rev().find(|sample| sample.at <= ago);
    let Some((at, then)) = then.and_then(|sample| Some((sample.at, sample.consumers.get(consumer)?))) else {
        return delivered_now;
    };
    delivered_now.saturating_sub(then.delivered).saturating_mul(60) / now.since(at).as_secs().max(60)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn sample(at: u64, lag: u64) -> Sample {
        let chain = ChainSample { lag_blocks: Some(lag), ..ChainSample::default() };
        Sample { at: Timestamp(at), chains: [(ChainName::new("btc").unwrap(), chain)].into(), consumers: BTreeMap::new() }
    }

    #[test]
    fn the_ring_is_bounded_covers_six_hours_and_loses_no_peak() {
        let mut ring = Ring { samples: VecDeque::new(), between_ms: 500 };
        let day = 24 * 3600;
        for second in 0..day {
            // One bad second, 3 h before the end.
            let lag = if second == day - 10_800 { 77 } else { 0 };
            ring.push(sample(second * 1_000, lag));
            assert!(ring.samples.len() <= KEPT);
        }
        let covered = ring.samples.back().unwrap().at.since(ring.samples.front().unwrap().at);
        assert!(covered >= Duration::from_secs(6 * 3600), "{covered:?}");
        assert!(ring.samples.iter().any(|one| one.chains.values().any(|chain| chain.lag_blocks == Some(77))));
        assert!(ring.samples.iter().zip(ring.samples.iter().skip(1)).all(|(one, two)| one.at < two.at));
    }

    #[test]
    fn a_rate_is_what_came_within_the_last_minute() {
        let consumer = ConsumerName::new("ledger").unwrap();
        let of = |second: u64, delivered| Sample {
            at: Timestamp::from_seconds(second),
            consumers: [(consumer.clone(), ConsumerSample { delivered, delivery_ms: 0 })].into(),
            ..Sample::default()
        };
        let samples = [of(0, 5), of(30, 10), of(60, 20), of(90, 40)];
        assert_eq!(per_minute(&samples, &consumer, 44, Timestamp::from_seconds(90)), 34);
        assert_eq!(per_minute(&samples, &consumer, 44, Timestamp::from_seconds(119)), 22);
        assert_eq!(per_minute(&samples[..1], &consumer, 7, Timestamp::from_seconds(10)), 2);
    }
}
