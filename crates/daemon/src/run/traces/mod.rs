//! One trace for each event, from the block that carries the payment to the attempt that delivers it.
//!
//! Engine, stores and sinks know nothing of it: a layer around each source notes when payments are read, an observer of commits records
//! what is decided and committed, a layer around each sink records the attempts. Ids follow from the event's id (ADR 0016), so nothing
//! is kept, and a crash, a restart or another instance goes on with the same trace. Recording waits for nobody: a full queue drops.

mod commits;
mod exporter;
mod otlp;
mod reads;
mod sink;
mod source;
mod span;

pub(super) use commits::TracedCommits;
pub(super) use sink::TracedSink;
pub(super) use source::TracedSource;

use crate::config::TelemetryConfig;
use confirmd_core::{AssetId, ChainId, ChainName, ChainProfile, Requirement, TraceContext, Transfer};
use exporter::Exporter;
use reads::{Read, Reads};
use span::Span;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::mpsc;

/// Spans that wait while the collector is slow or gone: some megabytes.
const QUEUE_MAX: usize = 8_192;

/// What layers ask whether something is to be recorded. Off until it is set.
#[derive(Debug, Default)]
pub(super) struct Traces {
    active: RwLock<Option<Active>>,
    chains: RwLock<BTreeMap<ChainId, KnownChain>>,
    reads: Mutex<Reads>,
}

#[derive(Debug)]
struct Active {
    recorder: Arc<Recorder>,
    exporter: Exporter,
}

/// What spans say of a chain that its events don't.
#[derive(Debug)]
struct KnownChain {
    name: ChainName,
    requirements: BTreeMap<AssetId, Requirement>,
}

/// Chooses and queues spans.
#[derive(Debug)]
struct Recorder {
    queue: mpsc::Sender<Span>,
    dropped: Arc<AtomicU64>,
    sample_percent: u32,
}

impl Recorder {
    /// Whether a trace is recorded: all instances say the same of it.
    fn takes(&self, trace_id: &[u8; 16]) -> bool {
        let [.., a, b, c, d, e, f, g] = *trace_id;
        let random = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
        let passed_over = u64::from(100_u32.saturating_sub(self.sample_percent));
        random.saturating_mul(100) >= passed_over << 56
    }

    /// The span that all others of a trace belong to.
    fn whole(trace_id: &[u8; 16]) -> [u8; 8] {
        TraceContext::span_named(trace_id, "deposit")
    }

    fn record(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Traces {
    fn recorder(&self) -> Option<Arc<Recorder>> {
        let active = self.active.read().unwrap_or_else(PoisonError::into_inner);
        active.as_ref().map(|active| active.recorder.clone())
    }

    /// Records for this collector from now on, or nothing. What the one before still has is sent, within a bound.
    pub(super) async fn set(&self, config: Option<&TelemetryConfig>) -> anyhow::Result<()> {
        let active = config.map(|config| {
            let (queue, queued) = mpsc::channel(QUEUE_MAX);
            let dropped = Arc::new(AtomicU64::new(0));
            let exporter = Exporter::start(config, queued, dropped.clone())?;
            let recorder = Arc::new(Recorder { queue, dropped, sample_percent: config.sample_percent });
            anyhow::Ok(Active { recorder, exporter })
        });
        self.replace(active.transpose()?).await;
        Ok(())
    }

    /// Sends what is left, within a bound.
    pub(super) async fn end(&self) {
        self.replace(None).await;
    }

    async fn replace(&self, active: Option<Active>) {
        let before = std::mem::replace(&mut *self.active.write().unwrap_or_else(PoisonError::into_inner), active);
        if let Some(before) = before {
            before.exporter.end().await;
        }
    }

    fn know(&self, profile: &ChainProfile) {
        let requirements = profile.assets.iter().map(|listed| (listed.asset.id.clone(), listed.requirement)).collect();
        let known = KnownChain { name: profile.name.clone(), requirements };
        self.chains.write().unwrap_or_else(PoisonError::into_inner).insert(profile.chain.clone(), known);
    }

    fn name(&self, chain: &ChainId) -> Option<String> {
        let chains = self.chains.read().unwrap_or_else(PoisonError::into_inner);
        chains.get(chain).map(|known| known.name.to_string())
    }

    fn requirement(&self, chain: &ChainId, asset: &AssetId) -> Option<Requirement> {
        let chains = self.chains.read().unwrap_or_else(PoisonError::into_inner);
        chains.get(chain)?.requirements.get(asset).copied()
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, chain: &ChainId, transfers: &[Transfer], read: Read) {
        if transfers.is_empty() || self.recorder().is_none() {
            return;
        }
        let mut reads = self.reads();
        transfers.iter().for_each(|transfer| reads.note(chain, &transfer.key, &transfer.block.hash, read));
    }

    fn read_at(&self, chain: &ChainId, transfer: &Transfer) -> Option<Read> {
        self.reads().of(chain, &transfer.key, &transfer.block.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_chosen_by_their_id_in_the_share_asked_for() {
        let takes = |sample_percent, random: u8| {
            let recorder = Recorder { queue: mpsc::channel(1).0, dropped: Arc::default(), sample_percent };
            let mut trace_id = [0; 16];
            trace_id[9..].fill(random);
            recorder.takes(&trace_id)
        };
        assert!((0..=255).all(|random| takes(100, random)));
        let share = |percent| (0..=255).filter(|random| takes(percent, *random)).count();
        assert_eq!((share(50), share(25), share(1)), (128, 64, 3));
    }

    #[tokio::test]
    async fn a_full_queue_drops_counts_and_never_waits() {
        let (queue, mut queued) = mpsc::channel(1);
        let recorder = Recorder { queue, dropped: Arc::default(), sample_percent: 100 };
        let span = || Span::new([1; 16], [2; 8], "block", (span::Nanos(1), span::Nanos(2)));
        (0..3).for_each(|_| recorder.record(span()));
        assert_eq!(recorder.dropped.load(Ordering::Relaxed), 2);
        assert!(queued.recv().await.is_some() && queued.try_recv().is_err());
    }
}
