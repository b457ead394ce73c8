//! The chain itself: blocks, the best branch, the mempool, and how much of it the node shows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bitcoin::{Block, BlockHash, ScriptBuf, Transaction, TxOut, Txid};

use super::block::{self, Template};
use super::network::FakeNetwork;
use crate::remine::{self, Remine};

/// A recorded best chain, to be returned to with `return_to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch(pub(super) Vec<BlockHash>);

impl Branch {
    /// The hash of its last block.
    pub fn tip(&self) -> BlockHash {
        *self.0.last().expect("invariant: a branch starts at the genesis block")
    }

    /// The hash of its block at this height.
    pub fn hash_at(&self, height: u32) -> Option<BlockHash> {
        self.0.get(index(height)).copied()
    }
}

/// How the node lost a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// -5 "Block not found", header included.
    Unknown,
    /// -1 "Block not available (pruned data)"; the header is still served.
    Pruned,
}

/// Where a transaction stands in the best chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Height of its block.
    pub height: u32,
    /// Hash of its block.
    pub block: BlockHash,
    /// Position in the block; 0 is the coinbase.
    pub position: usize,
}

/// One output of the best chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// The transaction.
    pub txid: Txid,
    /// Output number.
    pub vout: u32,
    /// What it pays to.
    pub script: ScriptBuf,
    /// Satoshis.
    pub sats: u64,
    /// Where it stands.
    pub place: Place,
}

#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) block: Arc<Block>,
    pub(super) height: u32,
}

#[derive(Debug)]
pub(super) struct Chain {
    network: FakeNetwork,
    blocks: HashMap<BlockHash, Stored>,
    best: Vec<BlockHash>,
    pub(super) mempool: Vec<Transaction>,
    transactions: HashMap<Txid, Transaction>,
    lost: HashMap<BlockHash, Loss>,
    forgotten: HashSet<BlockHash>,
    pub(super) pruned_below: Option<u32>,
    pub(super) lag: u32,
    pub(super) initial_block_download: bool,
    pub(super) filters: bool,
    pub(super) coinbase_script: ScriptBuf,
    pub(super) next_time: u32,
    spacing_s: u32,
    made: u64,
}

impl Chain {
    pub(super) fn new(network: FakeNetwork, first_block_time: u32, spacing_s: u32) -> Self {
        let genesis = network.genesis();
        let hash = genesis.block_hash();
        Self {
            network,
            blocks: HashMap::from([(hash, Stored { block: Arc::new(genesis), height: 0 })]),
            best: vec![hash],
            mempool: Vec::new(),
            transactions: HashMap::new(),
            lost: HashMap::new(),
            forgotten: HashSet::new(),
            pruned_below: None,
            lag: 0,
            initial_block_download: false,
            filters: false,
            coinbase_script: ScriptBuf::from_bytes(vec![0x51]),
            next_time: first_block_time,
            spacing_s,
            made: 0,
        }
    }

    pub(super) fn network(&self) -> FakeNetwork {
        self.network
    }

    pub(super) fn branch(&self) -> Branch {
        Branch(self.best.clone())
    }

    pub(super) fn tip(&self) -> BlockHash {
        *self.best.last().expect("invariant: the genesis block is never taken away")
    }

    pub(super) fn tip_height(&self) -> u32 {
        u32::try_from(self.best.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    pub(super) fn hash_at(&self, height: u32) -> Option<BlockHash> {
        self.best.get(index(height)).copied()
    }

    pub(super) fn stored(&self, hash: &BlockHash) -> Option<&Stored> {
        self.blocks.get(hash)
    }

    pub(super) fn make_payment(&mut self, outputs: Vec<TxOut>) -> Transaction {
        self.made += 1;
        block::payment(self.made, outputs)
    }

    pub(super) fn accept(&mut self, transaction: Transaction) -> Txid {
        let txid = transaction.compute_txid();
        self.transactions.insert(txid, transaction.clone());
        self.mempool.push(transaction);
        txid
    }

    /// A transaction that spends what `txid` spends; the mempool forgets the latter.
    pub(super) fn replace(&mut self, txid: &Txid, outputs: Vec<TxOut>) -> Option<Txid> {
        let mut transaction = self.transactions.get(txid)?.clone();
        transaction.output = outputs;
        self.mempool.retain(|waiting| waiting.compute_txid() != *txid);
        Some(self.accept(transaction))
    }

    pub(super) fn mine(&mut self, transactions: Vec<Transaction>, script: ScriptBuf) -> BlockHash {
        self.made += 1;
        for transaction in &transactions {
            self.transactions.insert(transaction.compute_txid(), transaction.clone());
        }
        let height = self.tip_height() + 1;
        let block = block::build(Template {
            previous: self.tip(),
            height,
            time: self.next_time,
            coinbase_script: script,
            salt: self.made,
            transactions,
            grind: self.network == FakeNetwork::Regtest,
        });
        self.next_time = self.next_time.saturating_add(self.spacing_s);
        let hash = block.block_hash();
        self.blocks.insert(hash, Stored { block: Arc::new(block), height });
        self.best.push(hash);
        hash
    }

    pub(super) fn fork(&mut self, depth: u32, length: u32, remine: Remine) -> Branch {
        let left = self.branch();
        let keep = self.best.len().saturating_sub(index(depth)).max(1);
        let orphaned = self.best.split_off(keep);
        let carried = orphaned.iter().map(|hash| self.carried(hash)).collect();
        let plan = remine::plan(carried, length, remine);
        for planned in plan.blocks {
            let mut transactions = planned.items;
            if planned.filler_first {
                let nobody = TxOut { value: bitcoin::Amount::from_sat(1_000), script_pubkey: ScriptBuf::from_bytes(vec![0x51]) };
                transactions.insert(0, self.make_payment(vec![nobody]));
            }
            self.mine(transactions, self.coinbase_script.clone());
        }
        self.mempool.extend(plan.mempool);
        left
    }

    /// The branch that was left, or None when `branch` is not of this chain.
    pub(super) fn return_to(&mut self, branch: &Branch) -> Option<Branch> {
        if !branch.0.iter().all(|hash| self.blocks.contains_key(hash)) {
            return None;
        }
        let left = std::mem::replace(&mut self.best, branch.0.clone());
        Some(Branch(left))
    }

    /// Without the coinbase.
    fn carried(&self, hash: &BlockHash) -> Vec<Transaction> {
        self.stored(hash).map(|stored| stored.block.txdata.iter().skip(1).cloned().collect()).unwrap_or_default()
    }

    pub(super) fn payments(&self) -> Vec<Payment> {
        let mut payments = Vec::new();
        for hash in self.best.iter().skip(1) {
            let Some(stored) = self.stored(hash) else { continue };
            for (position, transaction) in stored.block.txdata.iter().enumerate() {
                let place = Place { height: stored.height, block: *hash, position };
                let txid = transaction.compute_txid();
                for (vout, output) in (0u32..).zip(&transaction.output) {
                    let (script, sats) = (output.script_pubkey.clone(), output.value.to_sat());
                    payments.push(Payment { txid, vout, script, sats, place });
                }
            }
        }
        payments
    }

    pub(super) fn find(&self, txid: &Txid) -> Option<Place> {
        self.best.iter().find_map(|hash| {
            let stored = self.stored(hash)?;
            let mut transactions = stored.block.txdata.iter();
            let position = transactions.position(|tx| tx.compute_txid() == *txid)?;
            Some(Place { height: stored.height, block: *hash, position })
        })
    }

    pub(super) fn lose(&mut self, hash: BlockHash, loss: Loss) {
        self.lost.insert(hash, loss);
    }

    pub(super) fn find_again(&mut self, hash: &BlockHash) {
        self.lost.remove(hash);
    }

    /// From now on the node knows nothing of blocks that are not in the best chain.
    pub(super) fn forget_stale(&mut self) {
        let best: HashSet<_> = self.best.iter().copied().collect();
        self.forgotten = self.blocks.keys().filter(|hash| !best.contains(*hash)).copied().collect();
    }

    // What the node shows, which is the chain without its last `lag` blocks.

    pub(super) fn shown_tip(&self) -> (u32, BlockHash) {
        let height = self.tip_height().saturating_sub(self.lag);
        (height, self.hash_at(height).unwrap_or_else(|| self.tip()))
    }

    pub(super) fn shown_hash_at(&self, height: u32) -> Option<BlockHash> {
        self.hash_at(height).filter(|_| height <= self.shown_tip().0)
    }

    /// A block whose header the node knows, stale ones included.
    pub(super) fn shown(&self, hash: &BlockHash) -> Option<&Stored> {
        let hidden = self.lost.get(hash) == Some(&Loss::Unknown) || self.forgotten.contains(hash);
        self.stored(hash).filter(|stored| !hidden && stored.height <= self.shown_tip().0)
    }

    pub(super) fn is_pruned(&self, hash: &BlockHash, height: u32) -> bool {
        self.lost.get(hash) == Some(&Loss::Pruned) || self.pruned_below.is_some_and(|kept_from| height < kept_from)
    }

    /// -1 for a stale block.
    pub(super) fn confirmations(&self, hash: &BlockHash, height: u32) -> i64 {
        if self.shown_hash_at(height) == Some(*hash) { i64::from(self.shown_tip().0) - i64::from(height) + 1 } else { -1 }
    }
}

pub(super) fn index(height: u32) -> usize {
    usize::try_from(height).unwrap_or(usize::MAX)
}
