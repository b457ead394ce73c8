//! Random schedules of blocks, forks, faults and restarts. After the faults stop, what a consumer holds by the documented rule
//! equals what the chain says.

use super::*;
use confirmd_core::confirmations;
use confirmd_testkit::scripted::THROTTLED;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const CONFIRMATIONS: u32 = 3;

#[derive(Debug, Clone)]
enum Step {
    /// A block with so many new payments.
    Mine(usize),
    /// So many blocks are replaced; the payments with these places in them are mined again, `later` blocks higher.
    Fork {
        depth: usize,
        kept: u8,
        later: usize,
        longer: usize,
    },
    /// The branch that was left last is the best chain again, one block longer.
    Return,
    Lag(usize),
    Fail(usize),
    ForkBeforeTransfers(usize),
    Tick,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4usize).prop_map(Step::Mine),
        3 => (1..6usize, any::<u8>(), 0..3usize, 0..3usize)
            .prop_map(|(depth, kept, later, longer)| Step::Fork { depth, kept, later, longer }),
        1 => Just(Step::Return),
        1 => (0..4usize).prop_map(Step::Lag),
        1 => (1..4usize).prop_map(Step::Fail),
        1 => (1..3usize).prop_map(Step::ForkBeforeTransfers),
        6 => Just(Step::Tick),
        1 => Just(Step::Restart),
    ]
}

/// The consumer's side: the rule of docs/consumers.md, and the promises it may hold us to.
#[derive(Debug, Default)]
struct Consumer {
    sequences: BTreeMap<String, u64>,
}

impl Consumer {
    fn take(&mut self, events: Vec<(String, u64)>) -> Result<(), TestCaseError> {
        for (tx, sequence) in events {
            let last = self.sequences.insert(tx.clone(), sequence).unwrap_or_default();
            // G1 and G2: each sequence once, without a gap, so confirmed and reverted alternate.
            prop_assert_eq!(sequence, last + 1, "{}", tx);
        }
        Ok(())
    }

    fn standing(&self) -> BTreeSet<String> {
        self.sequences.iter().filter(|(_, sequence)| Sequence(**sequence).stands()).map(|(tx, _)| tx.clone()).collect()
    }
}

struct Run {
    desk: Desk,
    consumer: Consumer,
    paid: u64,
    left: Option<BlockRef>,
}

impl Run {
    fn pay(&mut self) -> Pay {
        self.paid += 1;
        Pay::new(&format!("t{}", self.paid), "alice", self.paid)
    }

    async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let chain = self.desk.chain.clone();
        match step {
            Step::Mine(count) => {
                let pays: Vec<Pay> = (0..count).map(|_| self.pay()).collect();
                chain.mine(pays);
            }
            Step::Fork { depth, kept, later, longer } => self.fork(depth, kept, later, longer),
            Step::Return => {
                if let Some(tip) = self.left.take() {
                    self.left = Some(chain.tip_block());
                    chain.return_to(&tip);
                    chain.mine_empty(1);
                }
            }
            Step::Lag(blocks) => chain.lag(blocks),
            Step::Fail(count) => chain.fail_next(vec![THROTTLED; count]),
            Step::ForkBeforeTransfers(depth) => chain.fork_before_transfers(depth),
            Step::Tick => self.desk.tick().await,
            Step::Restart => self.restart().await,
        }
        let events = self.desk.events().await;
        self.consumer.take(events)
    }

    fn fork(&mut self, depth: usize, kept: u8, later: usize, longer: usize) {
        let chain = &self.desk.chain;
        let (tip, all) = (chain.tip_block(), chain.payments());
        self.left = Some(tip.clone());
        let base = tip.height.minus(u64::try_from(depth).unwrap());
        chain.fork(depth);
        let orphaned = all.into_iter().filter(|transfer| transfer.block.height > base).enumerate();
        let again = orphaned.filter(|(place, _)| kept & (1 << (place % 8)) != 0).map(|(_, transfer)| transfer);
        let mut blocks: Vec<Vec<Pay>> = vec![Vec::new(); depth + longer];
        for transfer in again {
            let at = usize::try_from(transfer.block.height.since(base)).unwrap() - 1 + later;
            if let Some(block) = blocks.get_mut(at) {
                let amount = transfer.payment.amount.to_string().parse().unwrap();
                block.push(Pay::new(transfer.key.tx_id.as_str(), "alice", amount));
            }
        }
        blocks.into_iter().for_each(|pays| drop(chain.mine(pays)));
    }

    async fn restart(&mut self) {
        self.desk.watcher = open_watcher(&self.desk.store, &self.desk.chain, &["alice"]).await;
    }

    /// Faults end, the best chain grows beyond everything recorded, and the operator accepts what was too deep.
    async fn settle(&mut self) -> Result<(), TestCaseError> {
        let chain = self.desk.chain.clone();
        chain.lag(0);
        chain.mine_empty(30);
        for _ in 0..60 {
            if self.desk.watcher.state().halt.is_some() {
                let how = Resume { accept_reorg: true, revert_settled: true };
                let (_, set) =
                    self.desk.watcher.plan_resume(how).await.map_err(|error| TestCaseError::fail(error.to_string()))?;
                self.desk.watcher.commit(set).await.map_err(|error| TestCaseError::fail(error.to_string()))?;
            }
            self.desk.tick().await;
        }
        prop_assert_eq!(self.desk.tip(), Some(chain.tip_block()));
        let events = self.desk.events().await;
        self.consumer.take(events)
    }
}

async fn play(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut profile = scripted_profile("desk", CONFIRMATIONS, 12);
    profile.fork_grace = std::time::Duration::ZERO;
    let mut run = Run { desk: Desk::with(profile).await, consumer: Consumer::default(), paid: 0, left: None };
    for step in steps {
        run.step(step).await?;
    }
    run.settle().await?;
    let tip = run.desk.chain.tip_block().height;
    let payments = run.desk.chain.payments();
    let deep = payments.iter().filter(|transfer| confirmations(tip, transfer.block.height) >= u64::from(CONFIRMATIONS));
    let truth: BTreeSet<String> = deep.map(|transfer| transfer.key.tx_id.to_string()).collect();
    prop_assert_eq!(run.consumer.standing(), truth);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn g1_g2_g3_the_consumers_ledger_ends_as_the_chain_after_any_schedule(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(steps))?;
    }
}
