#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use crate::{ConfigWatch, Watcher, WatcherDeps};
use confirmd_core::{ConsumerFilter, ConsumerSpec, DeliveryFilter, DeliveryState, SinkBooks, SinkProfile, Timestamp};
use confirmd_store_sled::{OpenOptions, SledStore};
use confirmd_testkit::{Pay, ScriptedChain, scripted_profile};
use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Wall time that follows tokio's paused time.
#[derive(Debug)]
struct PausedClock(tokio::time::Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_700_000_000_000).plus(self.0.elapsed())
    }
}

/// What a scripted sink does with one transaction's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Accept,
    Fail(SinkErrorKind),
    Hang,
}

/// Accepts everything, but for the transactions it is told to fail. Keeps what it was handed.
#[derive(Debug)]
struct ScriptedSink {
    profile: SinkProfile,
    does: Mutex<HashMap<String, Does>>,
    handed: Mutex<Vec<(String, u64, u32)>>,
    accepted: Mutex<Vec<(String, u64)>>,
    bodies: Mutex<HashMap<String, HashSet<Vec<u8>>>>,
    news: Notify,
}

impl ScriptedSink {
    fn new(batch_max: usize, concurrency: usize) -> Arc<Self> {
        let some = |n| NonZeroUsize::new(n).unwrap();
        let profile = SinkProfile { batch_max: some(batch_max), concurrency: some(concurrency) };
        Arc::new(Self {
            profile,
            does: Mutex::default(),
            handed: Mutex::default(),
            accepted: Mutex::default(),
            bodies: Mutex::default(),
            news: Notify::new(),
        })
    }

    fn when(&self, tx: &str, does: Does) {
        self.does.lock().unwrap().insert(tx.to_owned(), does);
    }

    fn accepted(&self) -> Vec<(String, u64)> {
        self.accepted.lock().unwrap().clone()
    }

    fn attempts(&self, tx: &str) -> Vec<u32> {
        self.handed.lock().unwrap().iter().filter(|(t, _, _)| t == tx).map(|(_, _, attempt)| *attempt).collect()
    }

    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            if holds(self) {
                return;
            }
            news.await;
        }
    }
}

#[async_trait::async_trait]
impl Sink for ScriptedSink {
    fn profile(&self) -> SinkProfile {
        self.profile
    }

    fn books(&self) -> Option<&dyn SinkBooks> {
        None
    }

    async fn check(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn deliver(&self, batch: &[Delivery]) -> Result<(), DeliverError> {
        for (accepted, delivery) in batch.iter().enumerate() {
            let tx = delivery.key.tx_id.to_string();
            self.handed.lock().unwrap().push((tx.clone(), delivery.sequence.0, delivery.attempt));
            self.bodies.lock().unwrap().entry(delivery.event.to_string()).or_default().insert(delivery.body.to_vec());
            let does = self.does.lock().unwrap().get(&tx).copied().unwrap_or(Does::Accept);
            self.news.notify_waiters();
            match does {
                Does::Accept => self.accepted.lock().unwrap().push((tx, delivery.sequence.0)),
                Does::Fail(kind) => return Err(DeliverError { accepted, error: SinkError::new(kind, "scripted failure") }),
                Does::Hang => std::future::pending().await,
            }
            self.news.notify_waiters();
        }
        Ok(())
    }
}

const TRANSIENT: Does = Does::Fail(SinkErrorKind::Transient { retry_after: None });

/// A chain whose deposits are reported at one confirmation, and a store that holds their events.
struct Bench {
    _directory: TempDir,
    store: Arc<SledStore>,
    chain: ScriptedChain,
    watcher: Watcher,
    clock: Arc<PausedClock>,
    wake: Arc<Notify>,
    stop: watch::Sender<bool>,
}

impl Bench {
    async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let clock = Arc::new(PausedClock(tokio::time::Instant::now()));
        let store = SledStore::open(
            directory.path().join("state"),
            OpenOptions { init: true, clock: clock.clone(), ..OpenOptions::default() },
        )
        .await
        .unwrap();
        let (store, wake) = (Arc::new(store), Arc::new(Notify::new()));
        let chain = ScriptedChain::new(scripted_profile("pump", 1, 6));
        let deps = WatcherDeps {
            source: Arc::new(chain.clone()),
            store: store.clone(),
            clock: clock.clone(),
            wake: wake.clone(),
            config_watch: vec![ConfigWatch { address: ScriptedChain::address("alice"), reference: None, from_height: None }],
        };
        let mut watcher = Watcher::open(deps).await.unwrap();
        watcher.tick().await.unwrap();
        let (stop, _) = watch::channel(false);
        Self { _directory: directory, store, chain, watcher, clock, wake, stop }
    }

    async fn pay(&mut self, txs: &[&str]) {
        self.chain.mine(txs.iter().map(|tx| Pay::new(tx, "alice", 5)));
        self.watcher.tick().await.unwrap();
    }

    /// Replaces the last block by two empty ones: its deposits are reverted.
    async fn take_back(&mut self) {
        self.chain.fork(1);
        self.chain.mine_empty(2);
        self.watcher.tick().await.unwrap();
    }

    async fn consumer(&self, name: &str) -> ConsumerName {
        let name = ConsumerName::new(name).unwrap();
        let spec = ConsumerSpec { name: name.clone(), filter: ConsumerFilter::default(), start: None };
        self.store.register(&spec).await.unwrap();
        name
    }

    fn pump(&self, consumer: &ConsumerName, sink: &Arc<ScriptedSink>) -> JoinHandle<Result<(), StoreError>> {
        let deps = PumpDeps {
            consumer: consumer.clone(),
            sink: sink.clone(),
            outbox: self.store.clone(),
            clock: self.clock.clone(),
            wake: self.wake.clone(),
            schedule: RetrySchedule::default(),
            seed: 7,
        };
        tokio::spawn(Pump::new(deps).run(self.stop.subscribe()))
    }

    async fn in_state(&self, consumer: &ConsumerName, state: DeliveryState) -> Vec<String> {
        let filter = DeliveryFilter { consumer: Some(consumer.clone()), state: Some(state), event: None };
        let list = self.store.list(&filter, None, 100).await.unwrap();
        list.into_iter().map(|record| format!("{}/{}", record.key.tx_id, record.sequence)).collect()
    }
}

fn event(tx: &str, sequence: u64) -> (String, u64) {
    (tx.to_owned(), sequence)
}

#[tokio::test(start_paused = true)]
async fn events_arrive_in_order_and_a_new_pump_repeats_nothing() {
    let mut bench = Bench::new().await;
    let consumer = bench.consumer("ledger").await;
    let sink = ScriptedSink::new(10, 1);
    let pump = bench.pump(&consumer, &sink);
    bench.pay(&["a", "b", "c"]).await;
    sink.until(|sink| sink.accepted().len() == 3).await;
    bench.stop.send(true).unwrap();
    pump.await.unwrap().unwrap();
    bench.stop = watch::channel(false).0;
    let _pump = bench.pump(&consumer, &sink);
    bench.pay(&["d"]).await;
    sink.until(|sink| sink.accepted().len() == 4).await;
    assert_eq!(sink.accepted(), [event("a", 1), event("b", 1), event("c", 1), event("d", 1)]);
}

#[tokio::test(start_paused = true)]
async fn g6_nine_attempts_over_two_days_then_a_visible_dead_letter_that_a_requeue_delivers() {
    let mut bench = Bench::new().await;
    let consumer = bench.consumer("ledger").await;
    let sink = ScriptedSink::new(1, 4);
    sink.when("a", TRANSIENT);
    let _pump = bench.pump(&consumer, &sink);
    let began = tokio::time::Instant::now();
    bench.pay(&["a", "b"]).await;
    sink.until(|sink| sink.attempts("a").len() == 9).await;
    let hours = began.elapsed().as_secs() / 3600;
    assert!((35..54).contains(&hours), "{hours} h");
    // The burial is recorded after the ninth attempt came back.
    while bench.in_state(&consumer, DeliveryState::Dead).await.is_empty() {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(Duration::from_secs(30 * 86_400)).await;
    assert_eq!(sink.attempts("a"), (1..=9).collect::<Vec<_>>());
    assert_eq!(bench.in_state(&consumer, DeliveryState::Dead).await, ["a/1"]);
    assert_eq!(sink.accepted(), [event("b", 1)]);
    sink.when("a", Does::Accept);
    assert_eq!(bench.store.requeue(&consumer, &[]).await.unwrap(), 1);
    bench.wake.notify_waiters();
    sink.until(|sink| sink.accepted().contains(&event("a", 1))).await;
    assert_eq!(sink.bodies.lock().unwrap().values().map(HashSet::len).max(), Some(1), "G7: one body per id");
}

#[tokio::test(start_paused = true)]
async fn g8_a_reverted_event_waits_for_its_confirmed_one_and_other_keys_go_on() {
    let mut bench = Bench::new().await;
    let consumer = bench.consumer("ledger").await;
    let sink = ScriptedSink::new(1, 4);
    sink.when("a", TRANSIENT);
    let _pump = bench.pump(&consumer, &sink);
    bench.pay(&["a"]).await;
    bench.take_back().await;
    bench.pay(&["b"]).await;
    sink.until(|sink| sink.accepted() == [event("b", 1)]).await;
    sink.until(|sink| sink.attempts("a").len() == 2).await;
    sink.when("a", Does::Accept);
    sink.until(|sink| sink.accepted().len() == 3).await;
    assert_eq!(sink.accepted(), [event("b", 1), event("a", 1), event("a", 2)]);
}

#[tokio::test(start_paused = true)]
async fn g9_a_hanging_consumer_changes_nothing_for_another_one() {
    let mut bench = Bench::new().await;
    let (slow, quick) = (bench.consumer("slow").await, bench.consumer("quick").await);
    let (hanging, healthy) = (ScriptedSink::new(1, 1), ScriptedSink::new(1, 1));
    hanging.when("a", Does::Hang);
    let _pumps = (bench.pump(&slow, &hanging), bench.pump(&quick, &healthy));
    bench.pay(&["a", "b"]).await;
    bench.pay(&["c"]).await;
    healthy.until(|sink| sink.accepted().len() == 3).await;
    assert_eq!(hanging.accepted(), []);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_due_while_every_call_is_out_is_waited_for_without_spinning() {
    let mut bench = Bench::new().await;
    let consumer = bench.consumer("ledger").await;
    let sink = ScriptedSink::new(1, 1);
    sink.when("a", TRANSIENT);
    sink.when("b", Does::Hang);
    let _pump = bench.pump(&consumer, &sink);
    bench.pay(&["a", "b"]).await;
    sink.until(|sink| sink.attempts("b").len() == 1).await;
    // The retry of "a" is long due; a pump that looks again and again keeps the paused time from going on.
    let hour_passes = tokio::time::sleep(Duration::from_secs(3_600));
    let mut turns = 0;
    let mut hour_passes = std::pin::pin!(hour_passes);
    while hour_passes.as_mut().now_or_never().is_none() {
        turns += 1;
        assert!(turns < 100_000, "the pump spins");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(sink.attempts("a"), [1]);
}

#[tokio::test(start_paused = true)]
async fn d10_a_fatal_answer_pauses_the_consumer_spends_no_attempt_and_loses_nothing() {
    let mut bench = Bench::new().await;
    let consumer = bench.consumer("ledger").await;
    let sink = ScriptedSink::new(1, 1);
    sink.when("a", Does::Fail(SinkErrorKind::Fatal));
    let _pump = bench.pump(&consumer, &sink);
    bench.pay(&["a", "b"]).await;
    sink.until(|sink| sink.attempts("a").len() == 1).await;
    while bench.store.consumers().await.unwrap()[0].paused.is_none() {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(Duration::from_secs(86_400)).await;
    assert_eq!(sink.attempts("a"), [1]);
    sink.when("a", Does::Accept);
    bench.store.pause(&consumer, None).await.unwrap();
    bench.wake.notify_waiters();
    sink.until(|sink| sink.accepted().len() == 2).await;
    assert_eq!((sink.accepted(), sink.attempts("a")), (vec![event("a", 1), event("b", 1)], vec![1, 1]));
}

#[tokio::test(start_paused = true)]
async fn k3_the_prefix_of_a_batch_is_kept_and_the_rest_is_handed_over_without_the_failed_key() {
    let mut bench = Bench::new().await;
    let consumer = bench.consumer("ledger").await;
    let sink = ScriptedSink::new(10, 1);
    sink.when("b", TRANSIENT);
    let _pump = bench.pump(&consumer, &sink);
    bench.pay(&["a", "b", "c"]).await;
    sink.until(|sink| sink.accepted().len() == 2).await;
    assert_eq!(sink.accepted(), [event("a", 1), event("c", 1)]);
    assert_eq!(sink.attempts("c"), [1], "an untried event spends no attempt");
}

#[tokio::test(start_paused = true)]
async fn the_other_sides_retry_after_is_waited_for() {
    let mut bench = Bench::new().await;
    let consumer = bench.consumer("ledger").await;
    let sink = ScriptedSink::new(1, 1);
    sink.when("a", Does::Fail(SinkErrorKind::Transient { retry_after: Some(Duration::from_secs(3600)) }));
    let _pump = bench.pump(&consumer, &sink);
    let began = tokio::time::Instant::now();
    bench.pay(&["a"]).await;
    sink.until(|sink| sink.attempts("a").len() == 2).await;
    assert!(began.elapsed() >= Duration::from_secs(3600), "{:?}", began.elapsed());
}
