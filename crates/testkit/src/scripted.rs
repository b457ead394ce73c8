//! A chain made of nothing but blocks and payments: forks, lags, fails and lies on command. For tests of what sees only
//! [`ChainSource`]; nodes that speak a real protocol are beside it.

mod source;

use confirmd_core::{
    Address, Amount, Asset, AssetId, BlockHash, BlockHeader, BlockRef, ChainId, ChainName, ChainProfile, DepositKey, FinalityTag,
    Height, ListedAsset, Payment, Requirement, SourceErrorKind, StartAt, Timestamp, Transfer, TxId,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The node throttles: for [`ScriptedChain::fail_next`].
pub const THROTTLED: SourceErrorKind = SourceErrorKind::Transient { retry_after: None };

/// A payment to be mined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pay {
    /// The transaction's name.
    pub tx: String,
    /// Which output.
    pub output_index: u32,
    /// Who is paid; any text is an address of a scripted chain.
    pub address: String,
    /// In which of the profile's assets; the first where there are not so many.
    pub asset: usize,
    /// How much.
    pub amount: u64,
    /// The chain's own confirmations, as a coinbase output asks for.
    pub maturity: Option<NonZeroU32>,
}

impl Pay {
    /// Output 0 of a transaction.
    pub fn new(tx: &str, address: &str, amount: u64) -> Self {
        Self { tx: tx.to_owned(), output_index: 0, address: address.to_owned(), asset: 0, amount, maturity: None }
    }
}

/// A block and every payment in it, whoever is paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockOf {
    /// Which block.
    pub block: BlockRef,
    /// In order.
    pub transfers: Vec<Transfer>,
}

#[derive(Debug, Clone)]
struct Block {
    header: BlockHeader,
    transfers: Vec<Transfer>,
}

#[derive(Debug)]
struct Script {
    blocks: HashMap<BlockHash, Block>,
    /// The best chain; `None` is an empty slot.
    best: Vec<Option<BlockHash>>,
    made: u64,
    lag: usize,
    errors: VecDeque<SourceErrorKind>,
    empty_answers: u64,
    network: ChainId,
    connection: u64,
    marks: BTreeMap<FinalityTag, BlockRef>,
    requests: u64,
    fork_before: Option<(&'static str, usize, usize)>,
    withheld: Option<Height>,
}

/// A scripted chain; clones share it. Starts with a genesis block at height 0.
#[derive(Debug, Clone)]
pub struct ScriptedChain {
    profile: ChainProfile,
    script: Arc<Mutex<Script>>,
}

/// The profile of a scripted chain: one asset `COIN`, watched from its tip.
pub fn scripted_profile(reference: &str, confirmations: u32, reorg_depth: u64) -> ChainProfile {
    let chain = ChainId::new(format!("scripted:{reference}")).expect("invariant: the caller gives a CAIP-2 reference");
    let id = AssetId::native(&chain, 1).expect("invariant: made of a chain id");
    let requirement = Requirement::confirmations(NonZeroU32::new(confirmations).expect("invariant: the caller gives at least 1"));
    ChainProfile {
        name: ChainName::new(reference).expect("invariant: the caller gives a name"),
        chain,
        reorg_depth: NonZeroU64::new(reorg_depth).expect("invariant: the caller gives at least 1"),
        assets: vec![ListedAsset {
            asset: Asset { id, symbol: "COIN".to_owned(), decimals: 0 },
            requirement,
            minimum: None,
            delisted: false,
        }],
        start: StartAt::Tip,
        poll_interval: Duration::from_secs(1),
        fork_grace: Duration::from_secs(60),
        behind_alarm: Duration::from_secs(600),
        span_max: NonZeroU64::new(1000).expect("invariant: not zero"),
        several_endpoints: false,
    }
}

impl ScriptedChain {
    /// A chain with a genesis block.
    pub fn new(profile: ChainProfile) -> Self {
        let network = profile.chain.clone();
        let script = Script {
            blocks: HashMap::new(),
            best: Vec::new(),
            made: 0,
            lag: 0,
            errors: VecDeque::new(),
            empty_answers: 0,
            network,
            connection: 0,
            marks: BTreeMap::new(),
            requests: 0,
            fork_before: None,
            withheld: None,
        };
        let chain = Self { profile, script: Arc::new(Mutex::new(script)) };
        chain.mine([]);
        chain
    }

    /// The same blocks under another profile: a changed configuration.
    #[must_use]
    pub fn with_profile(&self, profile: ChainProfile) -> Self {
        Self { profile, script: self.script.clone() }
    }

    /// Adds one block with these payments; returns it.
    pub fn mine(&self, pays: impl IntoIterator<Item = Pay>) -> BlockRef {
        let mut script = self.script();
        let parent = script.best.iter().rev().flatten().next().cloned();
        let height = Height(number(script.best.len()));
        script.made += 1;
        let hash = BlockHash::new(format!("b{}-{}", height, script.made)).expect("invariant: printable");
        let block = BlockRef { height, hash: hash.clone() };
        let mut txs: Vec<String> = Vec::new();
        let mut transfers = Vec::new();
        for pay in pays {
            let position = txs.iter().position(|tx| *tx == pay.tx).unwrap_or(txs.len());
            if position == txs.len() {
                txs.push(pay.tx.clone());
            }
            transfers.push(self.transfer(pay, &block, number(position)));
        }
        let parent = parent.unwrap_or_else(|| BlockHash::new("none").expect("invariant: printable"));
        let header = BlockHeader { block: block.clone(), parent, time: Some(time_of(height)) };
        script.blocks.insert(hash.clone(), Block { header, transfers });
        script.best.push(Some(hash));
        block
    }

    /// Adds `count` empty blocks; returns the last.
    pub fn mine_empty(&self, count: u64) -> BlockRef {
        for _ in 0..count {
            self.mine([]);
        }
        self.tip_block()
    }

    /// Leaves the next height out: a slot without a block.
    pub fn skip_slot(&self) {
        self.script().best.push(None);
    }

    /// Takes the last `depth` heights off the best chain. The blocks stay known; mine on for another branch.
    pub fn fork(&self, depth: usize) {
        let mut script = self.script();
        let kept = script.best.len().saturating_sub(depth).max(1);
        script.best.truncate(kept);
    }

    /// Takes everything above a height off the best chain, empty slots included.
    pub fn leave_above(&self, height: Height) {
        self.script().best.truncate(length(height.next()));
    }

    /// Makes the branch that ends in this block the best chain again.
    pub fn return_to(&self, tip: &BlockRef) {
        let mut script = self.script();
        let mut branch: Vec<Option<BlockHash>> = vec![None; length(tip.height) + 1];
        let mut at = Some(tip.hash.clone());
        while let Some(hash) = at {
            let Some(block) = script.blocks.get(&hash) else { break };
            if let Some(slot) = branch.get_mut(length(block.header.block.height)) {
                *slot = Some(hash);
            }
            at = Some(block.header.parent.clone());
        }
        script.best = branch;
    }

    /// The best chain's last block, whatever the source admits.
    pub fn tip_block(&self) -> BlockRef {
        let script = self.script();
        let hash = script.best.iter().rev().flatten().next().cloned().expect("invariant: genesis is never removed");
        script.blocks.get(&hash).expect("invariant: every hash has a block").header.block.clone()
    }

    /// The best chain's block at a height, whatever the source admits; `None` above the tip and at an empty slot.
    pub fn best_block(&self, height: Height) -> Option<BlockRef> {
        let script = self.script();
        let hash = script.best.get(length(height))?.as_ref()?;
        script.blocks.get(hash).map(|block| block.header.block.clone())
    }

    /// Every payment on the best chain, whoever is paid; whatever the source admits.
    pub fn payments(&self) -> Vec<Transfer> {
        let script = self.script();
        let blocks = script.best.iter().flatten().filter_map(|hash| script.blocks.get(hash));
        blocks.flat_map(|block| block.transfers.clone()).collect()
    }

    /// The branch that ends in a block, genesis first, whether or not it is the best chain; empty for an unknown block.
    pub fn branch_to(&self, tip: &BlockRef) -> Vec<BlockOf> {
        let script = self.script();
        let mut branch = Vec::new();
        let mut at = tip.hash.clone();
        while let Some(block) = script.blocks.get(&at) {
            branch.push(BlockOf { block: block.header.block.clone(), transfers: block.transfers.clone() });
            at = block.header.parent.clone();
        }
        branch.reverse();
        branch
    }

    /// The source answers as if the last `blocks` heights did not exist yet.
    pub fn lag(&self, blocks: usize) {
        self.script().lag = blocks;
    }

    /// The next calls fail, one after the other.
    pub fn fail_next(&self, errors: impl IntoIterator<Item = SourceErrorKind>) {
        self.script().errors.extend(errors);
    }

    /// The next `count` answers of `transfers` are empty lists, whatever the blocks hold: a lie.
    pub fn answer_empty(&self, count: u64) {
        self.script().empty_answers = count;
    }

    /// `header_at` answers nothing at this height, whatever is there, until told otherwise: a lie.
    pub fn withhold(&self, height: Option<Height>) {
        self.script().withheld = height;
    }

    /// Before the next `call` (`tip` or `transfers`) is answered the last `depth` blocks are replaced by `length` empty ones.
    pub fn fork_before(&self, call: &'static str, depth: usize, length: usize) {
        self.script().fork_before = Some((call, depth, length));
    }

    fn fork_if_due(&self, call: &str) {
        let due = self.script().fork_before.take_if(|(before, ..)| *before == call);
        if let Some((_, depth, length)) = due {
            self.fork(depth);
            (0..length).for_each(|_| drop(self.mine([])));
        }
    }

    /// The node behind the endpoint now serves this network; the connection is another one.
    pub fn change_network(&self, network: ChainId) {
        let mut script = self.script();
        script.network = network;
        script.connection += 1;
    }

    /// The chain's own finality from now on.
    pub fn mark(&self, tag: FinalityTag, block: BlockRef) {
        self.script().marks.insert(tag, block);
    }

    /// The chain no longer says anything of its finality.
    pub fn forget_marks(&self) {
        self.script().marks.clear();
    }

    /// Calls answered or failed so far.
    pub fn requests(&self) -> u64 {
        self.script().requests
    }

    /// The address that a text stands for here.
    pub fn address(text: &str) -> Address {
        Address::new(text.as_bytes(), text)
    }

    /// The key of a payment.
    pub fn key(tx: &str, output_index: u32) -> DepositKey {
        DepositKey { tx_id: TxId::new(tx).expect("invariant: the caller gives printable text"), output_index }
    }

    fn transfer(&self, pay: Pay, block: &BlockRef, position: u64) -> Transfer {
        let assets = &self.profile.assets;
        let listed = assets.get(pay.asset).or(assets.first()).expect("invariant: a scripted chain lists an asset");
        let asset = listed.asset.id.clone();
        Transfer {
            key: Self::key(&pay.tx, pay.output_index),
            payment: Payment { address: Self::address(&pay.address), asset, amount: Amount::from(pay.amount), memo: None },
            block: block.clone(),
            block_time: Some(time_of(block.height)),
            position: u32::try_from(position).unwrap_or(u32::MAX),
            from: None,
            maturity: pay.maturity,
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("invariant: no panic while the script is held")
    }
}

fn time_of(height: Height) -> Timestamp {
    Timestamp::from_seconds(1_700_000_000 + height.0)
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn length(height: Height) -> usize {
    usize::try_from(height.0).unwrap_or(usize::MAX)
}
