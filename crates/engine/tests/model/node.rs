//! The chain behind the source, and the source with its faults.

use super::step::{Paid, SourceDoes};
use async_trait::async_trait;
use confirmd_core::{
    Address, AddressError, BlockHash, BlockHeader, BlockRef, ChainId, ChainProfile, ChainSource, DepositKey, EndpointStatus,
    FinalityTag, Height, SourceError, SourceErrorKind, Transfer, WatchSet,
};
use confirmd_testkit::{Pay, ScriptedChain};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Addresses that may be paid; the first two may stand in the configuration, the others are added by command.
pub(crate) const ADDRESSES: [&str; 4] = ["alice", "bob", "carol", "dave"];

/// One chain and everything that is known of it; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) chain: ScriptedChain,
    /// Another network, which has the first blocks in common.
    foreign: ScriptedChain,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    left: Option<BlockRef>,
    paid: u64,
    /// Everything ever mined, in the order of its first block.
    txs: Vec<(String, Vec<Pay>)>,
    marks: BTreeMap<FinalityTag, Height>,
    plan: VecDeque<SourceDoes>,
    connection: u64,
    /// The endpoint serves the other network.
    wrong: bool,
    /// Blocks that came to or left the best chain since the last decision.
    touched: BTreeSet<BlockRef>,
    /// What the last answer of `transfers` kept silent about.
    withheld: BTreeSet<(BlockHash, DepositKey)>,
    pub(crate) reorgs: u64,
    ever_withheld: bool,
}

impl Node {
    pub(crate) fn new(profile: ChainProfile) -> Self {
        let other = ChainId::new("scripted:other").unwrap();
        let foreign = ScriptedChain::new(ChainProfile { chain: other, ..profile.clone() });
        foreign.mine_empty(60);
        Self { chain: ScriptedChain::new(profile), foreign, inner: Arc::default() }
    }

    pub(crate) fn serve_another_network(&self, wrong: bool) {
        let mut inner = self.inner();
        inner.connection += u64::from(inner.wrong != wrong);
        inner.wrong = wrong;
    }

    pub(crate) fn mine(&self, pays: &[Paid], again: usize, other: bool) {
        let mut all: Vec<Pay> = self.absent().into_iter().take(again).flat_map(|tx| self.again(tx, other)).collect();
        for paid in pays {
            let mut inner = self.inner();
            inner.paid += 1;
            let (tx, number) = (format!("t{}", inner.paid), inner.paid);
            let outputs = (0..u32::from(paid.outputs.max(1))).map(|output| {
                let address = ADDRESSES[usize::from(paid.to) % ADDRESSES.len()];
                let maturity = std::num::NonZeroU32::new(paid.maturity.into());
                let amount = number * 10 + u64::from(output);
                Pay { output_index: output, asset: usize::from(paid.asset) % 3, maturity, ..Pay::new(&tx, address, amount) }
            });
            let outputs: Vec<Pay> = outputs.collect();
            all.extend(outputs.clone());
            inner.txs.push((tx, outputs));
        }
        self.block(all);
    }

    fn block(&self, pays: Vec<Pay>) {
        let block = self.chain.mine(pays);
        self.inner().touched.insert(block);
    }

    /// Transactions that are not on the best chain.
    fn absent(&self) -> Vec<usize> {
        let there: BTreeSet<String> = self.chain.payments().iter().map(|transfer| transfer.key.tx_id.to_string()).collect();
        let inner = self.inner();
        inner.txs.iter().enumerate().filter(|(_, (tx, _))| !there.contains(tx)).map(|(at, _)| at).collect()
    }

    /// A transaction's payments when it is mined again; executed anew it may pay another amount.
    fn again(&self, tx: usize, other: bool) -> Vec<Pay> {
        let mut inner = self.inner();
        let (_, pays) = &mut inner.txs[tx];
        if other {
            pays.iter_mut().for_each(|pay| pay.amount = (pay.amount + 1_000_000) % 3_000_000);
        }
        pays.clone()
    }

    pub(crate) fn fork(&self, depth: usize, length: usize, kept: u8, later: usize, other: bool) {
        let depth = depth.min(usize::try_from(self.chain.tip_block().height.0).unwrap());
        let (tip, base) = (self.chain.tip_block(), self.chain.tip_block().height.minus(u64::try_from(depth).unwrap()));
        let gone = self.take_off(&tip, base);
        self.chain.leave_above(base);
        let mut blocks: Vec<Vec<Pay>> = vec![Vec::new(); length];
        let mut seen: Vec<String> = Vec::new();
        for transfer in gone {
            let tx = transfer.key.tx_id.to_string();
            if seen.contains(&tx) {
                continue;
            }
            let place = usize::try_from(transfer.block.height.since(base)).unwrap() - 1 + later;
            if let Some(block) = blocks.get_mut(place).filter(|_| kept & (1 << (seen.len() % 8)) != 0) {
                let at = self.inner().txs.iter().position(|(name, _)| *name == tx).unwrap();
                block.extend(self.again(at, other));
            }
            seen.push(tx);
        }
        blocks.into_iter().for_each(|pays| self.block(pays));
        self.correct_marks();
    }

    /// The best chain above `base` is left. Returns its payments.
    fn take_off(&self, tip: &BlockRef, base: Height) -> Vec<Transfer> {
        let branch = self.chain.branch_to(tip);
        let gone: Vec<_> = branch.into_iter().filter(|block| block.block.height > base).collect();
        let mut inner = self.inner();
        inner.left = Some(tip.clone());
        inner.reorgs += 1;
        inner.touched.extend(gone.iter().map(|block| block.block.clone()));
        gone.into_iter().flat_map(|block| block.transfers).collect()
    }

    pub(crate) fn return_to_left(&self, longer: usize) {
        let Some(left) = self.inner().left.take() else { return };
        let tip = self.chain.tip_block();
        let there = self.chain.branch_to(&left);
        let here: BTreeSet<BlockRef> = self.chain.branch_to(&tip).into_iter().map(|block| block.block).collect();
        let common = there.iter().filter(|block| here.contains(&block.block)).map(|block| block.block.height).max().unwrap();
        self.take_off(&tip, common);
        self.inner().touched.extend(there.into_iter().map(|block| block.block).filter(|block| block.height > common));
        self.chain.return_to(&left);
        (0..longer).for_each(|_| self.block(Vec::new()));
        self.correct_marks();
    }

    pub(crate) fn mark(&self, tag: FinalityTag, below: u64) {
        let block = self.best_at_or_below(self.chain.tip_block().height.minus(below));
        self.inner().marks.insert(tag, block.height);
        self.chain.mark(tag, block);
    }

    /// A node calls only blocks of its best chain safe or final.
    fn correct_marks(&self) {
        let tip = self.chain.tip_block().height;
        let marks = self.inner().marks.clone();
        for (tag, height) in marks {
            let branch = self.inner().left.clone().map(|left| self.chain.branch_to(&left)).unwrap_or_default();
            let stands = |block: &BlockRef| self.chain.best_block(block.height).as_ref() == Some(block);
            let common = branch.iter().map(|block| &block.block).filter(|block| stands(block)).map(|block| block.height).max();
            let block = self.best_at_or_below(height.min(common.unwrap_or(tip)).min(tip));
            self.inner().marks.insert(tag, block.height);
            self.chain.mark(tag, block);
        }
    }

    fn best_at_or_below(&self, height: Height) -> BlockRef {
        (0..=height.0).rev().find_map(|height| self.chain.best_block(Height(height))).unwrap()
    }

    pub(crate) fn plan(&self, does: &[SourceDoes]) {
        self.inner().plan.extend(does);
    }

    pub(crate) fn calm(&self) {
        self.inner().plan.clear();
        self.chain.lag(0);
        self.serve_another_network(false);
    }

    pub(crate) fn is_best(&self, block: &BlockRef) -> bool {
        self.chain.best_block(block.height).as_ref() == Some(block)
    }

    /// Whether the block came to or left the best chain since the last decision.
    pub(crate) fn is_touched(&self, block: &BlockRef) -> bool {
        self.inner().touched.contains(block)
    }

    /// A decision was made: what it could be based on is over. Returns what was withheld.
    pub(crate) fn decided(&self) -> BTreeSet<(BlockHash, DepositKey)> {
        let mut inner = self.inner();
        inner.touched.clear();
        std::mem::take(&mut inner.withheld)
    }

    pub(crate) fn reorgs(&self) -> u64 {
        self.inner().reorgs
    }

    pub(crate) fn ever_withheld(&self) -> bool {
        self.inner().ever_withheld
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

/// A node under a configuration.
#[derive(Debug)]
pub(crate) struct Faulty {
    pub(crate) node: Node,
    pub(crate) source: ScriptedChain,
}

/// How an answer is spoilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoilt {
    No,
    Empty,
    Half,
    Flap(Height),
}

impl Faulty {
    /// Who answers.
    fn served(&self) -> &ScriptedChain {
        if self.node.inner().wrong { &self.node.foreign } else { &self.source }
    }

    async fn enter(&self) -> Result<Spoilt, SourceError> {
        let does = self.node.inner().plan.pop_front().unwrap_or(SourceDoes::Answer);
        let failed = |kind| Err(SourceError { kind, context: "scripted failure".to_owned(), source: None });
        match does {
            SourceDoes::Answer => {}
            SourceDoes::Throttle { after_ms } => {
                let retry_after = (after_ms > 1000).then(|| Duration::from_millis(after_ms.into()));
                return failed(SourceErrorKind::Transient { retry_after });
            }
            SourceDoes::Orphaned => return failed(SourceErrorKind::Orphaned),
            SourceDoes::Fatal => return failed(SourceErrorKind::Fatal),
            SourceDoes::Empty => return Ok(Spoilt::Empty),
            SourceDoes::Half => return Ok(Spoilt::Half),
            SourceDoes::Flap { blocks } => {
                return Ok(Spoilt::Flap(self.node.chain.tip_block().height.minus(blocks.into())));
            }
            SourceDoes::Slow { ms } => tokio::time::sleep(Duration::from_millis(ms.into())).await,
            SourceDoes::Fork { depth } => self.node.fork(depth.into(), usize::from(depth) + 1, 0, 0, false),
            SourceDoes::Return => self.node.return_to_left(1),
            SourceDoes::Reconnect => self.node.inner().connection += 1,
            SourceDoes::Network => {
                let wrong = self.node.inner().wrong;
                self.node.serve_another_network(!wrong);
            }
        }
        Ok(Spoilt::No)
    }
}

#[async_trait]
impl ChainSource for Faulty {
    fn profile(&self) -> &ChainProfile {
        self.source.profile()
    }

    async fn identify(&self) -> Result<ChainId, SourceError> {
        self.enter().await?;
        self.served().identify().await
    }

    async fn tip(&self) -> Result<BlockRef, SourceError> {
        match self.enter().await? {
            Spoilt::Flap(height) if !self.node.inner().wrong => Ok(self.node.best_at_or_below(height)),
            _ => self.served().tip().await,
        }
    }

    async fn header_at(&self, height: Height) -> Result<Option<BlockHeader>, SourceError> {
        match self.enter().await? {
            Spoilt::Empty | Spoilt::Half => Ok(None),
            Spoilt::Flap(tip) if height > tip => Ok(None),
            _ => self.served().header_at(height).await,
        }
    }

    async fn headers(&self, from: Height, to: Height) -> Result<Vec<BlockHeader>, SourceError> {
        let spoilt = self.enter().await?;
        let mut headers = self.served().headers(from, to).await?;
        match spoilt {
            Spoilt::Empty => headers.clear(),
            Spoilt::Half => headers.truncate(headers.len() / 2),
            Spoilt::Flap(tip) => headers.retain(|header| header.block.height <= tip),
            Spoilt::No => {}
        }
        Ok(headers)
    }

    async fn finalized(&self, tag: FinalityTag) -> Result<Option<BlockRef>, SourceError> {
        match self.enter().await? {
            Spoilt::Empty | Spoilt::Half => Ok(None),
            _ => self.served().finalized(tag).await,
        }
    }

    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        let spoilt = self.enter().await?;
        self.node.inner().withheld.clear();
        if matches!(spoilt, Spoilt::Flap(tip) if to.height > tip) {
            return Err(SourceError::orphaned(format!("block {to} is not known")));
        }
        let mut transfers = self.served().transfers(from, to, watch).await?;
        let keep = match spoilt {
            Spoilt::Empty => 0,
            Spoilt::Half => transfers.len() / 2,
            _ => transfers.len(),
        };
        let withheld = transfers.split_off(keep);
        let mut inner = self.node.inner();
        inner.ever_withheld |= !withheld.is_empty();
        inner.withheld = withheld.into_iter().map(|transfer| (transfer.block.hash, transfer.key)).collect();
        Ok(transfers)
    }

    fn parse_address(&self, text: &str) -> Result<Address, AddressError> {
        self.source.parse_address(text)
    }

    async fn inspect(&self) -> Result<Vec<EndpointStatus>, SourceError> {
        self.source.inspect().await
    }

    async fn transaction(
        &self,
        tx_id: &str,
        height: Option<Height>,
    ) -> Result<Option<confirmd_core::ShownTransaction>, SourceError> {
        self.source.transaction(tx_id, height).await
    }

    fn connection(&self) -> u64 {
        self.node.inner().connection
    }
}
