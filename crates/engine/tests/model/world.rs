//! An instance of two chains and up to three consumers, its operator, and the time.

mod operator;

use super::node::{ADDRESSES, Faulty, Node};
use super::oracle::{Chain, Oracle};
use super::sink::Scripted;
use super::step::{Case, MINIMUMS, Setup, Step};
use super::store::{Crash, Disk, Gate};
use confirmd_core::{
    Amount, ChainProfile, Clock, ConsumerFilter, ConsumerName, ConsumerSpec, ConsumerStart, Epoch, FinalityTag, ListedAsset,
    Notice, NoticesWanted, Outbox, Requirement, StartAt, Timestamp, WatchState,
};
use confirmd_engine::{ConfigWatch, Pump, PumpDeps, Resume, RetrySchedule, WatchError, Watcher, WatcherDeps, WatcherHandle};
use confirmd_testkit::{ScriptedChain, scripted_profile};
use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// Blocks that may still change.
pub(crate) const REORG_DEPTH: u64 = 6;
/// A retry comes no later than this behind a failed attempt.
const RETRY_LONGEST: u64 = 5;
/// An outside call takes no longer than this.
const CALL_LONGEST: u64 = 4;
/// A command is answered, or the process is gone.
const COMMAND_LONGEST: Duration = Duration::from_secs(30);
/// The state's first epoch; a rebuilt one takes the next.
const EPOCH: u64 = 1_790_000_000;

/// The time of the runtime, which is not the machine's.
#[derive(Debug)]
pub(crate) struct Virtual {
    began: Instant,
    /// How far the wall clock is ahead, now and at most.
    ahead_ms: Mutex<(i64, i64)>,
}

impl Virtual {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), ahead_ms: Mutex::default() }
    }

    fn jump(&self, minutes: i16) {
        let mut ahead = self.ahead_ms.lock().unwrap();
        ahead.0 += i64::from(minutes) * 60_000;
        ahead.1 = ahead.1.max(ahead.0);
    }

    /// Somebody sets the clock: it is not behind anything that it ever said.
    fn set_right(&self) {
        let mut ahead = self.ahead_ms.lock().unwrap();
        ahead.0 = ahead.1;
    }
}

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        let now = Timestamp::from_seconds(EPOCH).plus(self.began.elapsed());
        Timestamp(now.0.saturating_add_signed(self.ahead_ms.lock().unwrap().0))
    }
}

struct Process {
    gate: Arc<Gate>,
    handles: Vec<WatcherHandle>,
    tasks: Vec<JoinHandle<String>>,
    stop: watch::Sender<bool>,
    wake: Arc<Notify>,
}

/// See the module.
pub(crate) struct World {
    nodes: Vec<Node>,
    setups: Vec<Setup>,
    commanded: Vec<BTreeSet<u8>>,
    oracle: Arc<Mutex<Oracle>>,
    disk: Disk,
    crash: Arc<Crash>,
    clock: Arc<Virtual>,
    sinks: Vec<Arc<Scripted>>,
    starts: Vec<Option<ConsumerStart>>,
    rebuilt: u64,
    renamed: u64,
    process: Option<Process>,
    /// The naive truth holds: nothing but blocks, reorgs, faults and crashes so far.
    plain: bool,
}

/// What one case cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) commits: u64,
    pub(crate) events: u64,
    pub(crate) handed: u64,
    pub(crate) reorgs: u64,
}

/// Runs a case; an error says which promise was broken, and at which step.
pub(crate) async fn play(case: &Case, disk: Disk, clock: Arc<Virtual>) -> Result<Counts, String> {
    let mut world = World::new(disk, clock);
    world.start().await;
    world.pass(1).await?;
    for (at, step) in case.steps.iter().enumerate() {
        let done = world.step(step).await;
        done.map_err(|wrong| format!("at step {at}, {step:?}: {wrong}"))?;
    }
    let settled = world.settle(case.revert_settled).await;
    world.stop().await;
    settled.map_err(|wrong| format!("after the last step: {wrong}"))
}

fn profile(chain: usize, setup: &Setup, start: StartAt) -> ChainProfile {
    let mut profile = scripted_profile(["one", "two"][chain], 1, REORG_DEPTH);
    let native = profile.assets[0].asset.clone();
    let listed = |asset: usize| {
        let at_least = NonZeroU32::new(u32::from(setup.confirmations[asset]).clamp(1, 6)).unwrap();
        let tag = [None, Some(FinalityTag::Safe), Some(FinalityTag::Finalized)][usize::from(setup.tag) % 3];
        let mut named = native.clone();
        named.id = confirmd_core::AssetId::native(&profile.chain, u32::try_from(asset).unwrap() + 1).unwrap();
        named.symbol = ["COIN", "TOKEN", "FINAL"][asset].to_owned();
        let requirement = Requirement { at_least, tag: tag.filter(|_| asset == 2) };
        let minimum = MINIMUMS[usize::from(setup.minimum[asset]) % MINIMUMS.len()].map(Amount::from);
        ListedAsset { asset: named, requirement, minimum, delisted: false }
    };
    profile.assets = (0..3usize).filter(|asset| setup.delisted & (1 << asset) == 0).map(listed).collect();
    profile.start = start;
    profile.fork_grace = Duration::from_secs(3);
    profile.span_max = std::num::NonZeroU64::new(10).unwrap();
    profile
}

impl World {
    fn new(disk: Disk, clock: Arc<Virtual>) -> Self {
        let setups = vec![Setup::default(); 2];
        let nodes: Vec<Node> = (0..2).map(|chain| Node::new(profile(chain, &setups[chain], StartAt::Tip))).collect();
        nodes.iter().for_each(|node| (0..3).for_each(|_| node.mine(&[], 0, false)));
        let chains = nodes.iter().map(|node| {
            use confirmd_core::ChainSource;
            Chain::new(node.chain.profile().chain.clone(), node.clone(), REORG_DEPTH)
        });
        let oracle = Arc::new(Mutex::new(Oracle::new(chains.collect())));
        let mut world = Self {
            nodes,
            setups,
            commanded: vec![BTreeSet::new(); 2],
            oracle,
            disk,
            crash: Arc::default(),
            clock,
            sinks: Vec::new(),
            starts: Vec::new(),
            rebuilt: 0,
            renamed: 0,
            process: None,
            plain: true,
        };
        let asking = ConsumerFilter { notices: Notice::ALL.into(), ..ConsumerFilter::default() };
        world.join("steady", asking, ConsumerStart::Beginning);
        world.join("failing", ConsumerFilter::default(), ConsumerStart::Beginning);
        world
    }

    fn oracle(&self) -> MutexGuard<'_, Oracle> {
        self.oracle.lock().unwrap()
    }

    /// While no process runs.
    fn join(&mut self, name: &str, filter: ConsumerFilter, start: ConsumerStart) {
        let name = ConsumerName::new(name).unwrap();
        let mut oracle = self.oracle.lock().unwrap();
        let began = match start {
            ConsumerStart::Now => oracle.next(),
            ConsumerStart::Beginning => confirmd_core::Position(1),
        };
        oracle.join(name.clone(), filter, began);
        self.sinks.push(Arc::new(Scripted { name, oracle: self.oracle.clone(), plan: Mutex::new(VecDeque::new()) }));
        self.starts.push(Some(start));
    }

    fn source(&self, chain: usize) -> Faulty {
        let start = if self.rebuilt == 0 { StartAt::Tip } else { StartAt::Height(confirmd_core::Height(1)) };
        let profile = profile(chain, &self.setups[chain], start);
        Faulty { node: self.nodes[chain].clone(), source: self.nodes[chain].chain.with_profile(profile) }
    }

    /// Starts the process, as often as it takes.
    async fn start(&mut self) {
        for _ in 0..20 {
            let gate = self.open();
            let started = timeout(Duration::from_secs(1), self.launch(gate)).await;
            match started {
                Ok(Ok(process)) => return self.process = Some(process),
                Ok(Err(_)) | Err(_) => self.disk.close(),
            }
        }
        self.oracle().violated("the process does not start".to_owned());
    }

    /// Opens the store: it holds exactly what was committed.
    fn open(&mut self) -> Arc<Gate> {
        let inner = self.disk.open();
        let mut oracle = self.oracle.lock().unwrap();
        for at in 0..oracle.chains.len() {
            let loaded = super::store::at_once(inner.load(&oracle.chains[at].id)).unwrap().unwrap_or_default();
            if loaded != oracle.chains[at].mirror {
                oracle.violated(format!("G5: loaded {loaded:?}, committed {:?}", self.nodes[at]));
            }
        }
        for at in 0..oracle.chains.len() {
            let (recorded, wanted) = (super::store::small(inner.as_ref(), &oracle.chains[at].id), oracle.chains[at].small());
            if recorded != wanted {
                oracle.violated(format!("below their minimum are recorded {recorded:?}, the model says {wanted:?}"));
            }
        }
        drop(oracle);
        Arc::new(Gate::new(inner, self.oracle.clone(), self.crash.clone()))
    }

    async fn launch(&self, gate: Arc<Gate>) -> Result<Process, WatchError> {
        let (stop, stopping) = watch::channel(false);
        let wake = Arc::new(Notify::new());
        let (mut handles, mut tasks) = (Vec::new(), Vec::new());
        for (sink, start) in self.sinks.iter().zip(&self.starts) {
            let filter = self.oracle().books.iter().find(|book| book.name == sink.name).unwrap().filter.clone();
            gate.register(&ConsumerSpec { name: sink.name.clone(), filter, start: *start }).await?;
        }
        let notices = self.asked_for();
        let mut watchers = Vec::new();
        for chain in 0..self.nodes.len() {
            let configured = ADDRESSES[..2].iter().enumerate().filter(|(at, _)| self.setups[chain].watch & (1 << at) != 0);
            let config_watch = configured
                .map(|(_, text)| ConfigWatch {
                    address: ScriptedChain::address(text),
                    reference: Some((*text).into()),
                    from_height: None,
                })
                .collect();
            let (source, store, clock) = (Arc::new(self.source(chain)), gate.clone(), self.clock.clone());
            let deps = WatcherDeps { source, store, clock, wake: wake.clone(), config_watch };
            watchers.push(Watcher::open(deps).await?.notices(notices.clone()));
        }
        for watcher in watchers {
            handles.push(watcher.handle());
            let stopping = stopping.clone();
            tasks.push(tokio::spawn(async move { format!("a watcher ended: {:?}", watcher.run(stopping).await) }));
        }
        for sink in &self.sinks {
            let pump = Pump::new(PumpDeps {
                consumer: sink.name.clone(),
                sink: sink.clone(),
                outbox: gate.clone(),
                clock: self.clock.clone(),
                wake: wake.clone(),
                schedule: RetrySchedule { delays: [1, 2, 4].map(Duration::from_secs).to_vec(), jitter_percent: 20 },
                seed: 1,
            });
            let stopping = stopping.clone();
            tasks.push(tokio::spawn(async move { format!("a pump ended: {:?}", pump.run(stopping).await) }));
        }
        Ok(Process { gate, handles, tasks, stop, wake })
    }

    /// What the consumers that are there ask for beside the decisions.
    fn asked_for(&self) -> Arc<NoticesWanted> {
        let oracle = self.oracle();
        oracle.notices.set(oracle.books.iter().map(|book| &book.filter));
        oracle.notices.clone()
    }

    /// The process is gone, whatever it was doing.
    async fn kill(&mut self) {
        if let Some(Process { tasks, .. }) = self.process.take() {
            tasks.iter().for_each(JoinHandle::abort);
            for task in tasks {
                let _ = task.await;
            }
        }
        self.disk.close();
    }

    /// The process ends in order, if it still can.
    async fn stop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.stop.send(true);
            let ended = async {
                for task in &mut process.tasks {
                    let _ = task.await;
                }
            };
            let _ = timeout(Duration::from_secs(10), ended).await;
            process.tasks.retain(|task| !task.is_finished());
        }
        self.kill().await;
    }

    /// What a supervisor does: a process that is gone is started again.
    async fn mind(&mut self) -> Result<(), String> {
        if self.process.as_ref().is_none_or(|process| process.gate.is_dead()) {
            self.kill().await;
            self.start().await;
        }
        if let Some(process) = &mut self.process {
            let ended = process.tasks.iter().position(JoinHandle::is_finished);
            if let Some(at) = ended.filter(|_| !process.gate.is_dead()) {
                let why = match process.tasks.remove(at).await {
                    Ok(why) => why,
                    Err(panic) => format!("a task ended: {:?}", panic.try_into_panic().map(text_of)),
                };
                return Err(why);
            }
        }
        self.judge()
    }

    fn judge(&self) -> Result<(), String> {
        let wrong = self.oracle().violations();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// So many seconds pass, each a poll.
    async fn pass(&mut self, seconds: u64) -> Result<(), String> {
        for _ in 0..seconds {
            sleep(Duration::from_millis(999)).await;
            self.mind().await?;
            sleep(Duration::from_millis(1)).await;
            self.mind().await?;
        }
        // G9: whatever the others do, a consumer that takes everything has everything.
        sleep(Duration::from_millis(1)).await;
        let lives = self.process.as_ref().is_some_and(|process| !process.gate.is_dead());
        self.mind().await?;
        if lives {
            let oracle = self.oracle();
            let open = oracle.undelivered(&oracle.books[0]);
            if !open.is_empty() {
                return Err(format!("G9: the steady consumer waits for {open:?}"));
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        let at = |chain: &u8| usize::from(*chain) % 2;
        match step {
            Step::Mine { chain, pays, again, other } => self.nodes[at(chain)].mine(pays, usize::from(*again), *other),
            Step::Fork { chain, depth, length, kept, later, other } => {
                self.nodes[at(chain)].fork((*depth).into(), (*length).into(), *kept, (*later).into(), *other);
            }
            Step::Return { chain, longer } => self.nodes[at(chain)].return_to_left((*longer).into()),
            Step::Skip { chain } => self.nodes[at(chain)].chain.skip_slot(),
            Step::Mark { chain, last, below } => {
                let tag = if *last { FinalityTag::Finalized } else { FinalityTag::Safe };
                self.nodes[at(chain)].mark(tag, (*below).into());
            }
            Step::Lag { chain, blocks } => self.nodes[at(chain)].chain.lag((*blocks).into()),
            Step::Source { chain, does } => self.nodes[at(chain)].plan(does),
            Step::Sink { consumer, does } => {
                if let Some(sink) = self.sinks.get(usize::from(*consumer).max(1)) {
                    sink.plan.lock().unwrap().extend(does);
                }
            }
            Step::Wait { seconds } => self.pass((*seconds).into()).await?,
            Step::Restart { kill } => self.restart(*kill).await,
            Step::Configure { chain, setup } => {
                self.plain = false;
                self.stop().await;
                self.setups[at(chain)] = *setup;
                self.start().await;
            }
            Step::Crash { writes, cut } => self.crash.plan(Some((*writes, *cut))),
            Step::Watch { chain, address, add } => self.watch(at(chain), 2 + *address % 2, *add).await?,
            Step::Resume { chain, accept, revert, offline } => {
                let how = Resume { accept_reorg: *accept, revert_settled: *revert };
                self.resume(at(chain), how, *offline).await?;
            }
            Step::Tend { consumer } => self.tend(usize::from(*consumer).max(1)).await,
            Step::GiveUp { consumer, dead } => self.give_up(usize::from(*consumer), *dead).await,
            Step::Rename { consumer } => self.rename(usize::from(*consumer)).await,
            Step::Purge { consumer } => self.purge(usize::from(*consumer).max(1)).await,
            Step::Join { beginning } => self.join_again(*beginning).await,
            Step::Network { chain, wrong } => self.nodes[at(chain)].serve_another_network(*wrong),
            Step::Clock { minutes } => self.clock.jump(*minutes),
            Step::Rebuild => self.rebuild().await,
        }
        self.mind().await
    }

    async fn restart(&mut self, kill: bool) {
        if kill {
            self.kill().await;
        } else {
            self.stop().await;
        }
        self.start().await;
    }

    async fn rebuild(&mut self) {
        self.kill().await;
        self.plain = false;
        self.rebuilt += 1;
        // Epochs are times: a state is made while the clock is right.
        self.clock.set_right();
        // A new state is never made within the second in which the one before was.
        sleep(Duration::from_secs(2)).await;
        self.disk.lose(Epoch(self.clock.now().seconds()));
        self.oracle().lost();
        self.commanded = vec![BTreeSet::new(); 2];
        self.start().await;
    }

    /// Faults end. Within a bounded number of polls everything is as the model says.
    async fn settle(&mut self, revert_settled: bool) -> Result<Counts, String> {
        self.crash.plan(None);
        self.clock.set_right();
        for (chain, node) in self.nodes.iter().enumerate() {
            node.calm();
            let recorded = self.oracle().chains[chain].mirror.trail.tip().map_or(0, |tip| tip.height.0);
            while node.chain.tip_block().height.0 < recorded.max(10) + 20 {
                node.mine(&[], 0, false);
            }
            let (tip, none) = (node.chain.tip_block(), Vec::new());
            for _ in 0..20 {
                node.mine(&none, 0, false);
            }
            debug_assert!(node.is_best(&tip));
            node.mark(FinalityTag::Safe, 0);
            node.mark(FinalityTag::Finalized, 0);
        }
        self.sinks.iter().for_each(|sink| sink.plan.lock().unwrap().clear());
        self.mind().await?;
        // What was asked for before the faults ended may still be waited for.
        self.pass(CALL_LONGEST + 1).await?;
        for chain in 0..self.nodes.len() {
            self.mend(chain, revert_settled).await?;
        }
        self.pass(2).await?;
        self.followed()?;
        for consumer in 0..self.sinks.len() {
            self.tend(consumer).await;
        }
        self.pass(RETRY_LONGEST + CALL_LONGEST).await?;
        self.delivered()
    }

    fn followed(&self) -> Result<(), String> {
        let oracle = self.oracle();
        for (at, chain) in oracle.chains.iter().enumerate() {
            let (tip, best) = (chain.mirror.trail.tip(), self.nodes[at].chain.tip_block());
            if tip.as_ref() != Some(&best) {
                return Err(format!("{}: not at {best} but at {tip:?}, halt {:?}", chain.id, chain.mirror.halt));
            }
            if !chain.mirror.pending.is_empty() {
                return Err(format!("{}: still pending: {:?}", chain.id, chain.mirror.pending));
            }
            let configured = (0..2u8).filter(|address| self.setups[at].watch & (1 << address) != 0);
            let wanted: BTreeSet<u8> = configured.chain(self.commanded[at].iter().copied()).collect();
            let watching = |address: &u8| {
                let entry = chain.mirror.watch.get(ADDRESSES[usize::from(*address)].as_bytes());
                entry.is_some_and(|entry| entry.state == WatchState::Watching)
            };
            let found: BTreeSet<u8> = (0..4).filter(watching).collect();
            if found != wanted {
                return Err(format!("{}: addresses {found:?} are watched, wanted {wanted:?}", chain.id));
            }
        }
        Ok(())
    }

    fn delivered(&self) -> Result<Counts, String> {
        if let Some(process) = &self.process {
            super::verdict::small_payments_are_written_down(&self.oracle(), &process.gate)?;
        }
        super::verdict::consumers_hold_what_the_model_says(&self.oracle())?;
        if self.plain {
            super::verdict::the_chain_itself_says_the_same(&self.oracle())?;
        }
        let oracle = self.oracle();
        Ok(Counts {
            commits: oracle.commits,
            events: u64::try_from(oracle.log.len()).unwrap(),
            handed: oracle.handed,
            reorgs: self.nodes.iter().map(Node::reorgs).sum(),
        })
    }
}

fn text_of(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
