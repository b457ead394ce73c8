//! Rescans under random schedules: blocks, reorgs, additions, pauses, restarts and commits that fail, in any order.

use super::rescans::since;
use super::*;
use confirmd_core::{Event, History, Position, RescanState, StoreError};
use confirmd_testkit::{MemoryDisk, MemoryStore};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const CONFIRMATIONS: u64 = 2;
const NAMES: [&str; 3] = ["alice", "bob", "carol"];

#[derive(Debug, Clone)]
enum Act {
    /// A block that pays these, and an orphaned transaction again.
    Mine {
        pays: Vec<u8>,
        again: bool,
    },
    /// The last blocks are replaced by one more.
    Fork {
        depth: u8,
    },
    Tick,
    /// One step of the rescans.
    Step,
    /// A step is read; the rest happens before it is decided on.
    Read,
    Add {
        who: u8,
        below: u8,
    },
    Order {
        id: u8,
        order: u8,
    },
    Restart,
    /// The next commit fails, written or not.
    Fail {
        written: bool,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (prop::collection::vec(0..3u8, 0..3), any::<bool>()).prop_map(|(pays, again)| Act::Mine { pays, again }),
        2 => (1..5u8).prop_map(|depth| Act::Fork { depth }),
        6 => Just(Act::Tick),
        6 => Just(Act::Step),
        3 => Just(Act::Read),
        3 => (0..3u8, 0..40u8).prop_map(|(who, below)| Act::Add { who, below }),
        1 => (1..5u8, 0..2u8).prop_map(|(id, order)| Act::Order { id, order }),
        1 => Just(Act::Restart),
        2 => any::<bool>().prop_map(|written| Act::Fail { written }),
    ]
}

struct Play {
    chain: ScriptedChain,
    disk: MemoryDisk,
    store: Option<Arc<MemoryStore>>,
    watcher: Option<Watcher>,
    read: Option<rescan::StepEnd>,
    made: u64,
    /// The lowest height each was asked from.
    asked: BTreeMap<u8, u64>,
    /// Payments that nobody asked for: in blocks that were followed when the address came, below the height it asked from.
    unasked: BTreeMap<u8, BTreeSet<String>>,
    orphaned: Vec<(String, u8)>,
}

impl Play {
    async fn new(span_max: u64) -> Self {
        let mut profile = scripted_profile("desk", 2, 6);
        profile.span_max = std::num::NonZeroU64::new(span_max).unwrap();
        let chain = ScriptedChain::new(profile);
        let (disk, made) = (MemoryDisk::default(), 0);
        let (asked, unasked, orphaned) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut play = Self { chain, disk, store: None, watcher: None, read: None, made, asked, unasked, orphaned };
        for height in 0..30_u8 {
            play.mine(&[height % 4], false);
        }
        play.open(true).await;
        play.tick().await;
        play
    }

    async fn open(&mut self, init: bool) {
        (self.read, self.watcher, self.store) = (None, None, None);
        let store = Arc::new(MemoryStore::open(&self.disk, init).unwrap());
        let (source, clock, wake) = (Arc::new(self.chain.clone()), Arc::new(SystemClock), Arc::new(Notify::new()));
        let deps = WatcherDeps { source, store: store.clone(), clock, wake, config_watch: Vec::new() };
        self.watcher = Some(Watcher::open(deps).await.unwrap());
        self.store = Some(store);
    }

    fn watcher(&mut self) -> &mut Watcher {
        self.watcher.as_mut().unwrap()
    }

    /// A commit of unknown outcome ends the process; the next one reads what is there.
    async fn survive<T>(&mut self, outcome: Result<T, WatchError>) {
        match outcome {
            Err(WatchError::Store(StoreError::Unknown { .. })) => self.open(false).await,
            other => drop(other.unwrap()),
        }
    }

    async fn tick(&mut self) {
        let outcome = self.watcher().tick().await;
        self.survive(outcome).await;
    }

    async fn step(&mut self) -> bool {
        let outcome = self.watcher().rescan_step().await;
        let more = matches!(outcome, Ok(true) | Err(_));
        self.survive(outcome).await;
        more
    }

    fn mine(&mut self, pays: &[u8], again: bool) {
        let mut block = Vec::new();
        for who in pays.iter().filter(|who| usize::from(**who) < NAMES.len()) {
            self.made += 1;
            block.push(Pay::new(&format!("{who}-{}", self.made), NAMES[usize::from(*who)], 1));
        }
        if let Some((tx, who)) = self.orphaned.pop().filter(|_| again) {
            block.push(Pay::new(&tx, NAMES[usize::from(who)], 1));
        }
        self.chain.mine(block);
    }

    fn fork(&mut self, depth: u8) {
        let tip = self.chain.tip_block().height;
        let left = self.chain.payments().into_iter().filter(|paid| paid.block.height > tip.minus(u64::from(depth)));
        let left = left.map(|paid| paid.key.tx_id.to_string());
        self.orphaned = left.map(|tx| (tx.clone(), tx.as_bytes()[0] - b'0')).collect();
        self.chain.fork(usize::from(depth));
        self.chain.mine_empty(u64::from(depth) + 1);
    }

    async fn add(&mut self, who: u8, below: u8) {
        let Some(tip) = self.watcher().state.trail.tip() else { return };
        let from = tip.height.0.saturating_sub(u64::from(below)).max(1);
        let name = NAMES[usize::from(who)];
        let new = since(name, from);
        let (answer, answered) = tokio::sync::oneshot::channel();
        let outcome = self.watcher().carry_out(Command::Add(vec![new], answer)).await;
        self.survive(outcome).await;
        // Of a command that failed it is looked up whether it was recorded.
        let recorded = self.watcher().state.watch.get(name.as_bytes()).is_some();
        let recorded = recorded && (answered.await.is_ok_and(|answer| answer.is_ok()) || self.has_asked(name, from));
        if recorded {
            let branch = self.chain.branch_to(&tip);
            let of_it = |paid: &confirmd_core::Transfer| paid.payment.address == ScriptedChain::address(name);
            let below: BTreeSet<String> = branch
                .iter()
                .filter(|block| block.block.height.0 < from)
                .flat_map(|block| &block.transfers)
                .filter(|paid| of_it(paid))
                .map(|paid| paid.key.tx_id.to_string())
                .collect();
            let lowest = self.asked.entry(who).or_insert(from);
            *lowest = (*lowest).min(from);
            let unasked = self.unasked.entry(who).or_insert_with(|| below.clone());
            unasked.retain(|tx| below.contains(tx));
        }
    }

    fn has_asked(&mut self, name: &str, from: u64) -> bool {
        let entry = self.watcher().state.watch.get(name.as_bytes());
        entry.is_some_and(|entry| entry.history.is_some_and(|asked| asked.from == Height(from)))
    }

    async fn act(&mut self, act: &Act) {
        match act {
            Act::Mine { pays, again } => self.mine(pays, *again),
            Act::Fork { depth } => self.fork(*depth),
            Act::Tick => self.tick().await,
            Act::Step => drop(self.step().await),
            Act::Read => match self.read.take() {
                Some(read) => {
                    let outcome = self.watcher().take_rescan_step(read).await;
                    self.survive(outcome).await;
                }
                None if self.watcher().begin_rescan_step(true) => self.read = Some(self.watcher().rescans.ended().await),
                None => {}
            },
            Act::Add { who, below } => self.add(*who, *below).await,
            Act::Order { id, order } => {
                let order = if *order == 0 { RescanOrder::Pause } else { RescanOrder::Resume };
                self.order(u64::from(*id), order).await;
            }
            Act::Restart => self.open(false).await,
            Act::Fail { written } => self.disk.fail_next_commit(*written),
        }
    }

    async fn order(&mut self, id: u64, order: RescanOrder) {
        let (answer, _answered) = tokio::sync::oneshot::channel();
        let outcome = self.watcher().carry_out(Command::Order(confirmd_core::RescanId(id), order, answer)).await;
        self.survive(outcome).await;
    }

    /// The faults end; everything is followed and read.
    async fn end(&mut self) {
        let reopened = self.watcher().state.version;
        self.chain.mine_empty(9);
        for _ in 0..30 {
            self.tick().await;
        }
        assert_eq!(self.watcher().state.trail.tip(), Some(self.chain.tip_block()), "from {reopened:?}");
        let ids: Vec<u64> = self.watcher().state.rescans.keys().map(|id| id.0).collect();
        for id in ids {
            if self.watcher().state.rescans[&confirmd_core::RescanId(id)].state == RescanState::Paused {
                self.order(id, RescanOrder::Resume).await;
            }
        }
        for _ in 0..400 {
            if !self.step().await {
                break;
            }
        }
        let open: Vec<_> = self.watcher().state.rescans.values().filter(|rescan| rescan.state != RescanState::Done).collect();
        assert!(open.is_empty(), "{open:?}");
    }

    async fn judge(&mut self) {
        let told = self.store.as_ref().unwrap().events(Position(0), 1000).await.unwrap();
        let told: Vec<Event> = told.into_iter().map(|record| record.event).collect();
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for event in &told {
            let tx = event.transfer.key.tx_id.to_string();
            let before = last.insert(tx.clone(), event.sequence.0).unwrap_or(0);
            assert_eq!(event.sequence.0, before + 1, "{tx}");
            let who = tx.as_bytes()[0] - b'0';
            assert!(self.asked.contains_key(&who), "{tx} was told and nobody asked");
        }
        let tip = self.chain.tip_block().height.0;
        let mut standing = BTreeSet::new();
        for paid in self.chain.payments() {
            let (tx, height) = (paid.key.tx_id.to_string(), paid.block.height.0);
            let who = tx.as_bytes()[0] - b'0';
            standing.insert(tx.clone());
            let sequence = last.get(&tx).copied().unwrap_or(0);
            match self.asked.get(&who) {
                Some(from) if height >= *from && height + CONFIRMATIONS <= tip + 1 => {
                    assert!(sequence % 2 == 1, "{tx} at {height} is asked for from {from} and has sequence {sequence}");
                }
                Some(_) if self.unasked[&who].contains(&tx) => assert_eq!(sequence, 0, "{tx} at {height} was not asked for"),
                _ => {}
            }
        }
        for (tx, sequence) in last.iter().filter(|(tx, _)| !standing.contains(*tx)) {
            assert!(sequence % 2 == 0, "{tx} stands and is on no block of the best chain");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn g1_g2_g5_what_was_asked_for_is_told_once_whatever_happens(
        span_max in prop_oneof![Just(1_u64), Just(4), Just(1000)],
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut play = Play::new(span_max).await;
            for act in &acts {
                play.act(act).await;
            }
            play.end().await;
            play.judge().await;
        });
    }
}
