//! The scripted chain's harness.

use super::node::{ATTEMPTS, DEADLINE, Node};
use super::source::{DECOYS, ScriptedSource, spelled};
use super::{ScriptedLab, Wrap};
use crate::conform::Broken;
use crate::conform::source::{Act, Facts, Output, Refused, SourceHarness};
use crate::remine::{self, Remine};
use crate::{Pay, ScriptedChain, scripted_profile};
use async_trait::async_trait;
use confirmd_core::{Amount, BlockRef, ChainId, ChainSource, FinalityTag, Height, TxId};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const REORG_DEPTH: u64 = 6;
const MATURITY: NonZeroU32 = NonZeroU32::new(100).expect("invariant: not zero");

type Tx = Vec<Pay>;

#[derive(Default)]
struct Book {
    /// What each height above the genesis block carries, lowest first.
    blocks: Vec<Vec<Tx>>,
    waiting: Vec<Tx>,
    made: u64,
}

pub(super) struct ScriptedHarness {
    wrap: Wrap,
    chain: ScriptedChain,
    node: Node,
    source: Arc<dyn ChainSource>,
    book: Mutex<Book>,
}

impl ScriptedHarness {
    pub(super) fn new(wrap: Wrap) -> Self {
        let chain = ScriptedChain::new(scripted_profile("conform", 2, REORG_DEPTH));
        let node = Node::default();
        let source = wrap(chain.clone(), Arc::new(ScriptedSource { chain: chain.clone(), node: node.clone() }));
        Self { wrap, chain, node, source, book: Mutex::default() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, kind: &str, to: &str, amount: u64, maturity: Option<NonZeroU32>) {
        let mut book = self.book();
        book.made += 1;
        let tx = format!("{kind}{}", book.made);
        book.waiting.push(vec![Pay { maturity, ..Pay::new(&tx, to, amount) }]);
    }

    fn put(&self, book: &mut Book, txs: Vec<Tx>) {
        self.chain.mine(txs.iter().flatten().cloned());
        book.blocks.push(txs);
    }

    fn fork(&self, depth: u32, remine: Remine) {
        let mut book = self.book();
        let keep = book.blocks.len().saturating_sub(usize::try_from(depth).unwrap_or(usize::MAX));
        let orphaned = book.blocks.split_off(keep);
        self.chain.fork(orphaned.len());
        let plan = remine::plan(orphaned, depth.saturating_add(1), remine);
        for planned in plan.blocks {
            let mut txs = planned.items;
            if planned.filler_first {
                book.made += 1;
                txs.insert(0, vec![Pay::new(&format!("filler{}", book.made), &spelled("sc", "nobody"), 1)]);
            }
            self.put(&mut book, txs);
        }
        book.waiting.extend(plan.mempool);
    }
}

#[async_trait]
impl SourceHarness for ScriptedHarness {
    fn source(&self) -> Arc<dyn ChainSource> {
        self.source.clone()
    }

    async fn restarted(&self) -> Result<Arc<dyn ChainSource>, Broken> {
        let honest = ScriptedSource { chain: self.chain.clone(), node: self.node.clone() };
        Ok((self.wrap)(self.chain.clone(), Arc::new(honest)))
    }

    fn facts(&self) -> Facts {
        let own = spelled("sc", "acct1");
        let refused = |text: String, because| Refused { text, because };
        Facts {
            spellings: vec![vec![own.clone(), own.to_uppercase()], vec![spelled("sc", "acct2")]],
            refused: vec![
                refused(spelled("xx", "acct1"), "another network's"),
                refused(own.replace('1', "2"), "mistyped"),
                refused(own.replacen('a', "A", 1), "of mixed case"),
            ],
            smallest: Amount::from(1),
            largest: Amount::from(u64::MAX),
            maturity: Some(MATURITY),
            finality: true,
            secret: ScriptedLab::SECRET.to_owned(),
            attempts: ATTEMPTS,
            deadline: DEADLINE,
        }
    }

    fn address(&self, number: usize) -> String {
        spelled("sc", &format!("acct{number}"))
    }

    async fn pay(&self, outputs: &[Output]) -> Result<TxId, Broken> {
        let mut book = self.book();
        book.made += 1;
        let tx = format!("t{}", book.made);
        let mut pays = Vec::new();
        for (output_index, output) in (0u32..).zip(outputs) {
            let amount = u64::try_from(output.amount.as_u256()).map_err(Broken::tried("paying more than 64 bits"))?;
            pays.push(Pay { output_index, ..Pay::new(&tx, &output.to, amount) });
        }
        book.waiting.push(pays);
        TxId::new(tx).map_err(Broken::tried("naming a transaction"))
    }

    async fn mine(&self, blocks: u32) -> Result<(), Broken> {
        let mut book = self.book();
        for _ in 0..blocks {
            let waiting = std::mem::take(&mut book.waiting);
            self.put(&mut book, waiting);
        }
        Ok(())
    }

    async fn block_at(&self, height: Height) -> Result<Option<BlockRef>, Broken> {
        Ok(self.chain.best_block(height))
    }

    async fn tip(&self) -> Result<BlockRef, Broken> {
        Ok(self.chain.tip_block())
    }

    fn requests(&self) -> Option<u64> {
        Some(self.node.faults().requests)
    }

    async fn act(&self, act: Act) -> Result<(), Broken> {
        match act {
            Act::Fork { depth, remine } => self.fork(depth, remine),
            Act::SkipSlot => {
                self.chain.skip_slot();
                self.book().blocks.push(Vec::new());
            }
            Act::PayDecoys { to } => {
                self.send("nothing", &to, 0, None);
                DECOYS.iter().for_each(|kind| self.send(kind, &to, 7, None));
            }
            Act::PayLocked { to } => self.send("coinbase", &to, 50, Some(MATURITY)),
            Act::Finalize(height) => {
                let block = self.chain.best_block(height).ok_or_else(|| Broken::new("no block to make final"))?;
                for tag in [FinalityTag::Safe, FinalityTag::Finalized] {
                    self.chain.mark(tag, block.clone());
                }
            }
            Act::ForgetFinality => self.chain.forget_marks(),
            Act::Lag(blocks) => self.chain.lag(usize::try_from(blocks).unwrap_or(usize::MAX)),
            Act::Lose(height) => self.node.faults().lost = Some(height),
            Act::Prune(below) => self.node.faults().pruned_below = Some(below),
            Act::Sync => self.node.faults().syncing = true,
            Act::ChangeNetwork => {
                let other = ChainId::new("scripted:other").map_err(Broken::tried("naming a network"))?;
                self.chain.change_network(other);
            }
            Act::Reconnect => self.chain.change_network(self.chain.profile().chain.clone()),
            Act::Throttle { wish } => self.node.faults().throttled = Some(wish),
            Act::Hang { requests } => self.node.faults().silent = requests,
            Act::WarmUp => self.node.faults().warming_up = true,
            Act::RefuseCredentials => self.node.faults().refuses = true,
            Act::Garble { answers } => self.node.faults().garbled = answers,
            Act::Empty { answers } => self.node.faults().empty = answers,
            Act::Spoil { height, .. } => self.node.faults().spoilt = Some(height),
            // One answer has no order.
            Act::Reorder => {}
            Act::RepeatSecret => self.node.faults().errs = true,
        }
        Ok(())
    }

    async fn repair(&self) -> Result<(), Broken> {
        self.node.repair();
        self.chain.lag(0);
        if self.chain.identify().await.ok().as_ref() != Some(&self.chain.profile().chain) {
            self.chain.change_network(self.chain.profile().chain.clone());
        }
        Ok(())
    }
}
