//! The chain itself: blocks, the best branch, the pool, and how much of it the node shows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use alloy::eips::eip4895::Withdrawal;
use alloy::primitives::{Address, B256, Bytes, U256};

use super::block::{self, Item, Mined, Template};
use super::tx::{Sent, TxSpec};
use crate::remine::{self, Remine};

/// A recorded best chain, to be returned to with `return_to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvmBranch(pub(super) Vec<B256>);

impl EvmBranch {
    /// The hash of its last block.
    pub fn tip(&self) -> B256 {
        *self.0.last().expect("invariant: a branch starts at the genesis block")
    }

    /// The hash of its block at this height.
    pub fn hash_at(&self, height: u64) -> Option<B256> {
        self.0.get(index(height)).copied()
    }
}

/// Where a transaction stands in the best chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvmPlace {
    /// Height of its block.
    pub height: u64,
    /// Hash of its block.
    pub block: B256,
    /// Its transaction index.
    pub position: usize,
}

/// How the node answers for `safe` or `finalized`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finality {
    /// The block this far below the shown tip, at least the genesis block.
    Distance(u64),
    /// The block at this height, as long as it is shown.
    At(u64),
    /// `null`.
    Null,
    /// -39001 "finalized block not found", as geth before the merge.
    NotFound,
}

/// A token, as `eth_call` describes it.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) symbol: String,
    pub(super) decimals: u8,
}

#[derive(Debug)]
pub(super) struct Chain {
    pub(super) chain_id: u64,
    blocks: HashMap<B256, Arc<Mined>>,
    best: Vec<B256>,
    pub(super) pool: Vec<Item>,
    sent: HashMap<B256, Sent>,
    nonces: HashMap<Address, u64>,
    lost: HashSet<B256>,
    forgotten: HashSet<B256>,
    pub(super) contracts: BTreeMap<Address, Option<Token>>,
    pub(super) lag: u64,
    pub(super) syncing: bool,
    pub(super) safe: Finality,
    pub(super) finalized: Finality,
    pub(super) log_range_max: Option<u64>,
    pub(super) log_results_max: Option<usize>,
    pub(super) logs_refused_above_tip: bool,
    pub(super) empty_logs: u32,
    pub(super) next_time: u64,
    spacing_s: u64,
    next_withdrawal: u64,
    made: u64,
}

impl Chain {
    pub(super) fn new(chain_id: u64, genesis_salt: u64, first_time: u64, spacing_s: u64) -> Self {
        let genesis = block::seal(Template {
            parent: B256::ZERO,
            number: 0,
            timestamp: first_time.saturating_sub(spacing_s),
            extra_data: Bytes::from(format!("genesis {chain_id} {genesis_salt}").into_bytes()),
            items: Vec::new(),
        });
        let hash = genesis.hash;
        Self {
            chain_id,
            blocks: HashMap::from([(hash, Arc::new(genesis))]),
            best: vec![hash],
            pool: Vec::new(),
            sent: HashMap::new(),
            nonces: HashMap::new(),
            lost: HashSet::new(),
            forgotten: HashSet::new(),
            contracts: BTreeMap::new(),
            lag: 0,
            syncing: false,
            safe: Finality::Distance(32),
            finalized: Finality::Distance(64),
            log_range_max: None,
            log_results_max: None,
            logs_refused_above_tip: false,
            empty_logs: 0,
            next_time: first_time,
            spacing_s,
            next_withdrawal: 0,
            made: 0,
        }
    }

    pub(super) fn branch(&self) -> EvmBranch {
        EvmBranch(self.best.clone())
    }

    pub(super) fn tip(&self) -> B256 {
        *self.best.last().expect("invariant: the genesis block is never taken away")
    }

    pub(super) fn tip_height(&self) -> u64 {
        u64::try_from(self.best.len().saturating_sub(1)).unwrap_or(u64::MAX)
    }

    pub(super) fn hash_at(&self, height: u64) -> Option<B256> {
        self.best.get(index(height)).copied()
    }

    pub(super) fn mined(&self, hash: &B256) -> Option<&Arc<Mined>> {
        self.blocks.get(hash)
    }

    pub(super) fn best_blocks(&self) -> impl Iterator<Item = &Arc<Mined>> {
        self.best.iter().filter_map(|hash| self.blocks.get(hash))
    }

    pub(super) fn make(&mut self, spec: TxSpec) -> Sent {
        let nonce = self.nonces.entry(spec.from).or_default();
        let sent = Sent::new(self.chain_id, *nonce, spec);
        *nonce += 1;
        self.sent.insert(sent.hash, sent.clone());
        sent
    }

    pub(super) fn send(&mut self, spec: TxSpec) -> B256 {
        let sent = self.make(spec);
        let hash = sent.hash;
        self.pool.push(Item::Tx(Box::new(sent)));
        hash
    }

    /// Another transaction with the sender and nonce of `hash`, which the pool forgets.
    pub(super) fn replace(&mut self, hash: &B256, spec: TxSpec) -> Option<B256> {
        let old = self.sent.get(hash)?;
        let sent = Sent::new(self.chain_id, old.nonce, TxSpec { from: old.spec.from, ..spec });
        let replacement = sent.hash;
        self.sent.insert(replacement, sent.clone());
        self.pool.retain(|item| !matches!(item, Item::Tx(waiting) if waiting.hash == *hash));
        self.pool.push(Item::Tx(Box::new(sent)));
        Some(replacement)
    }

    pub(super) fn withdraw(&mut self, validator_index: u64, address: Address, amount: u64) -> u64 {
        let index = self.next_withdrawal;
        self.next_withdrawal += 1;
        self.pool.push(Item::Withdrawal(Withdrawal { index, validator_index, address, amount }));
        index
    }

    pub(super) fn mine(&mut self, items: Vec<Item>) -> B256 {
        self.made += 1;
        let mined = block::seal(Template {
            parent: self.tip(),
            number: self.tip_height() + 1,
            timestamp: self.next_time,
            extra_data: Bytes::from(self.made.to_be_bytes()),
            items,
        });
        self.next_time = self.next_time.saturating_add(self.spacing_s);
        let hash = mined.hash;
        self.blocks.insert(hash, Arc::new(mined));
        self.best.push(hash);
        hash
    }

    pub(super) fn fork(&mut self, depth: u64, length: u64, remine: Remine) -> EvmBranch {
        let left = self.branch();
        let keep = self.best.len().saturating_sub(index(depth)).max(1);
        let orphaned = self.best.split_off(keep);
        let carried = orphaned.iter().map(|hash| self.carried(hash)).collect();
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let plan = remine::plan(carried, length, remine);
        for planned in plan.blocks {
            let mut items = planned.items;
            if planned.filler_first {
                items.insert(0, Item::Tx(Box::new(self.filler())));
            }
            self.mine(items);
        }
        self.pool.extend(plan.mempool);
        left
    }

    /// A foreign transaction with a log, so that positions and log indexes after it move.
    fn filler(&mut self) -> Sent {
        let (from, to) = (Address::repeat_byte(0xf1), Address::repeat_byte(0xf2));
        let log = super::tx::transfer_log(Address::repeat_byte(0xf3), from, to, U256::ONE);
        self.make(TxSpec::new(from, to).logs(vec![log]))
    }

    pub(super) fn return_to(&mut self, branch: &EvmBranch) -> Option<EvmBranch> {
        if !branch.0.iter().all(|hash| self.blocks.contains_key(hash)) {
            return None;
        }
        Some(EvmBranch(std::mem::replace(&mut self.best, branch.0.clone())))
    }

    fn carried(&self, hash: &B256) -> Vec<Item> {
        let Some(mined) = self.mined(hash) else { return Vec::new() };
        let transactions = mined.transactions.iter().cloned().map(Box::new).map(Item::Tx);
        transactions.chain(mined.withdrawals.iter().copied().map(Item::Withdrawal)).collect()
    }

    pub(super) fn find(&self, hash: &B256) -> Option<EvmPlace> {
        self.best_blocks().find_map(|mined| {
            let position = mined.transactions.iter().position(|tx| tx.hash == *hash)?;
            Some(EvmPlace { height: mined.header.number, block: mined.hash, position })
        })
    }

    pub(super) fn pooled(&self, hash: &B256) -> Option<&Sent> {
        self.pool.iter().find_map(|item| match item {
            Item::Tx(sent) if sent.hash == *hash => Some(sent.as_ref()),
            _ => None,
        })
    }

    pub(super) fn lose(&mut self, hash: B256) {
        self.lost.insert(hash);
    }

    pub(super) fn find_again(&mut self, hash: &B256) {
        self.lost.remove(hash);
    }

    pub(super) fn forget_stale(&mut self) {
        let best: HashSet<_> = self.best.iter().copied().collect();
        self.forgotten = self.blocks.keys().filter(|hash| !best.contains(*hash)).copied().collect();
    }

    // What the node shows, which is the chain without its last `lag` blocks.

    pub(super) fn shown_tip(&self) -> u64 {
        self.tip_height().saturating_sub(self.lag)
    }

    pub(super) fn shown_at(&self, height: u64) -> Option<&Arc<Mined>> {
        self.shown(&self.hash_at(height)?)
    }

    /// Stale blocks included.
    pub(super) fn shown(&self, hash: &B256) -> Option<&Arc<Mined>> {
        let hidden = self.lost.contains(hash) || self.forgotten.contains(hash);
        self.mined(hash).filter(|mined| !hidden && mined.header.number <= self.shown_tip())
    }
}

pub(super) fn index(height: u64) -> usize {
    usize::try_from(height).unwrap_or(usize::MAX)
}
