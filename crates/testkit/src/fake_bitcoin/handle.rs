//! The handle that tests hold.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bitcoin::{Amount, Block, BlockHash, ScriptBuf, Transaction, TxOut, Txid};

use super::auth::{Auth, Credentials};
use super::chain::{Branch, Chain, Loss, Payment, Place};
use super::network::FakeNetwork;
use crate::faults::Faults;
use crate::http::LoopbackServer;
use crate::json_rpc::{self, Dialect};
use crate::remine::Remine;

/// How to start a [`FakeBitcoin`].
#[derive(Debug, Clone)]
pub struct BitcoinOptions {
    /// Whose genesis block it has.
    pub network: FakeNetwork,
    /// How it answers. `V2` is not a dialect of this family, but is served.
    pub dialect: Dialect,
    /// Who may call.
    pub auth: Auth,
    /// Unix seconds of the first block after the genesis block.
    pub first_block_time: u32,
    /// Seconds from block to block.
    pub block_spacing_s: u32,
    /// Whether it has an index of compact block filters (`-blockfilterindex=1`).
    pub filters: bool,
}

impl Default for BitcoinOptions {
    fn default() -> Self {
        Self {
            network: FakeNetwork::Regtest,
            dialect: Dialect::Core29,
            auth: Auth::Open,
            first_block_time: 1_767_225_600,
            block_spacing_s: 600,
            filters: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) dialect: Dialect,
    pub(super) faults: Faults,
    auth: Auth,
    pub(super) credentials: Mutex<Credentials>,
    chain: Mutex<Chain>,
}

impl Node {
    fn new(options: BitcoinOptions) -> io::Result<Arc<Self>> {
        let mut chain = Chain::new(options.network, options.first_block_time, options.block_spacing_s);
        chain.filters = options.filters;
        Ok(Arc::new(Self {
            dialect: options.dialect,
            faults: Faults::default(),
            credentials: Mutex::new(Credentials::new(&options.auth)?),
            auth: options.auth,
            chain: Mutex::new(chain),
        }))
    }

    pub(super) fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn credentials(&self) -> MutexGuard<'_, Credentials> {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running node. Clones steer the same node.
#[derive(Debug, Clone)]
pub struct FakeBitcoin {
    node: Arc<Node>,
    server: Arc<LoopbackServer>,
}

impl FakeBitcoin {
    /// Starts a node whose chain is the genesis block.
    ///
    /// # Errors
    /// When no port is free, or the cookie file can't be written.
    pub async fn start(options: BitcoinOptions) -> io::Result<Self> {
        let node = Node::new(options)?;
        let server = LoopbackServer::start(json_rpc::router(Arc::clone(&node))).await?;
        Ok(Self { node, server: Arc::new(server) })
    }

    /// A node without a socket: whoever calls it brings its requests to [`app`](Self::app).
    ///
    /// # Errors
    /// When the cookie file can't be written.
    pub fn detached(options: BitcoinOptions) -> io::Result<Self> {
        let node = Node::new(options)?;
        let server = LoopbackServer::detached(json_rpc::router(Arc::clone(&node)));
        Ok(Self { node, server: Arc::new(server) })
    }

    /// What answers its requests.
    pub fn app(&self) -> axum::Router {
        self.server.app()
    }

    /// `http://127.0.0.1:port`, for JSON-RPC (any path) and REST (`/rest/...`).
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// The transport's faults, and the counts of calls.
    pub fn faults(&self) -> &Faults {
        &self.node.faults
    }

    /// Mines `count` blocks; the first takes the whole mempool.
    pub fn mine(&self, count: u32) -> Vec<BlockHash> {
        let script = self.chain().coinbase_script.clone();
        self.mine_to(count, script)
    }

    /// As [`mine`](Self::mine), with the coinbases paying `script`.
    pub fn mine_to(&self, count: u32, script: ScriptBuf) -> Vec<BlockHash> {
        let mut chain = self.chain();
        (0..count)
            .map(|_| {
                let waiting = std::mem::take(&mut chain.mempool);
                chain.mine(waiting, script.clone())
            })
            .collect()
    }

    /// Mines one block with exactly these transactions; the mempool stays.
    pub fn mine_with(&self, transactions: Vec<Transaction>) -> BlockHash {
        let mut chain = self.chain();
        let script = chain.coinbase_script.clone();
        chain.mine(transactions, script)
    }

    /// Whom the coinbases of all later blocks pay, those of forks included. At first: nobody
    /// (a script that everybody can spend).
    pub fn coinbase_to(&self, script: ScriptBuf) {
        self.chain().coinbase_script = script;
    }

    /// Puts a payment into the mempool.
    pub fn pay(&self, script: &bitcoin::Script, sats: u64) -> Txid {
        self.pay_many(vec![(script.to_owned(), sats)])
    }

    /// Puts one transaction with these outputs, in this order, into the mempool.
    pub fn pay_many(&self, outputs: Vec<(ScriptBuf, u64)>) -> Txid {
        let mut chain = self.chain();
        let transaction = chain.make_payment(tx_outs(outputs));
        chain.accept(transaction)
    }

    /// Makes a payment without sending it, for [`mine_with`](Self::mine_with).
    pub fn make_payment(&self, outputs: Vec<(ScriptBuf, u64)>) -> Transaction {
        self.chain().make_payment(tx_outs(outputs))
    }

    /// Puts any transaction into the mempool; it is not validated.
    pub fn broadcast(&self, transaction: Transaction) -> Txid {
        self.chain().accept(transaction)
    }

    /// Puts a double spend of `txid` (same inputs, other outputs) into the mempool, where it takes
    /// the other's place. A mined `txid` stays mined until a fork drops it. None: never seen.
    pub fn double_spend(&self, txid: &Txid, outputs: Vec<(ScriptBuf, u64)>) -> Option<Txid> {
        self.chain().replace(txid, tx_outs(outputs))
    }

    /// Replaces the last `depth` blocks (at most all above the genesis block) by `depth + 1` new
    /// ones, and gives the branch that was left.
    pub fn fork(&self, depth: u32, remine: Remine) -> Branch {
        self.fork_to_length(depth, depth.saturating_add(1), remine)
    }

    /// Replaces the last `depth` blocks by `length` new ones, which may be fewer or none.
    pub fn fork_to_length(&self, depth: u32, length: u32, remine: Remine) -> Branch {
        self.chain().fork(depth, length, remine)
    }

    /// Makes a branch the best chain again as it was (A, B, A) and gives the one that was left;
    /// None for a branch of another node. The mempool stays as it is.
    pub fn return_to(&self, branch: &Branch) -> Option<Branch> {
        self.chain().return_to(branch)
    }

    /// The best chain as it is now.
    pub fn branch(&self) -> Branch {
        self.chain().branch()
    }

    /// Height and hash of the best chain's last block, whatever the node shows.
    pub fn tip(&self) -> (u32, BlockHash) {
        let chain = self.chain();
        (chain.tip_height(), chain.tip())
    }

    /// The best chain's hash at this height.
    pub fn hash_at(&self, height: u32) -> Option<BlockHash> {
        self.chain().hash_at(height)
    }

    /// Any block ever mined.
    pub fn block(&self, hash: &BlockHash) -> Option<Arc<Block>> {
        self.chain().stored(hash).map(|stored| Arc::clone(&stored.block))
    }

    /// Where a transaction stands in the best chain.
    pub fn find(&self, txid: &Txid) -> Option<Place> {
        self.chain().find(txid)
    }

    /// Every output of the best chain above the genesis block, in order: what a ledger must agree
    /// with. Coinbases have position 0.
    pub fn payments(&self) -> Vec<Payment> {
        self.chain().payments()
    }

    /// What waits in the mempool.
    pub fn mempool(&self) -> Vec<Transaction> {
        self.chain().mempool.clone()
    }

    /// Unix seconds of the next block.
    pub fn set_next_block_time(&self, seconds: u32) {
        self.chain().next_time = seconds;
    }

    /// The node answers as if the last `blocks` blocks had not reached it. 0: up to date.
    pub fn lag(&self, blocks: u32) {
        self.chain().lag = blocks;
    }

    /// What `initialblockdownload` says.
    pub fn set_initial_block_download(&self, syncing: bool) {
        self.chain().initial_block_download = syncing;
    }

    /// The node is pruned and keeps blocks from `kept_from` on. None: not pruned.
    pub fn prune_below(&self, kept_from: Option<u32>) {
        self.chain().pruned_below = kept_from;
    }

    /// The node loses one block.
    pub fn lose_block(&self, hash: BlockHash, loss: Loss) {
        self.chain().lose(hash, loss);
    }

    /// Undoes [`lose_block`](Self::lose_block).
    pub fn find_block_again(&self, hash: &BlockHash) {
        self.chain().find_again(hash);
    }

    /// The node knows nothing any more of the blocks that are stale now.
    pub fn forget_stale_blocks(&self) {
        self.chain().forget_stale();
    }

    /// Every call of the next `requests` requests gets -28 "Loading block index…".
    pub fn warming_up(&self, requests: u32) {
        self.node.faults.rpc_error_next(requests, -28, "Loading block index…");
    }

    /// Writes a new cookie and refuses the old one.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn rotate_cookie(&self) -> io::Result<()> {
        self.node.credentials().renew(&self.node.auth)
    }

    /// Closes all connections and refuses new ones; the port stays ours.
    ///
    /// # Errors
    /// When the port can't be kept.
    pub async fn stop(&self) -> io::Result<()> {
        self.server.stop().await
    }

    /// Listens again on the same port, with a new cookie where cookies are used.
    ///
    /// # Errors
    /// When the port was lost or the cookie can't be written.
    pub async fn restart(&self) -> io::Result<()> {
        self.rotate_cookie()?;
        self.server.restart().await
    }

    fn chain(&self) -> MutexGuard<'_, Chain> {
        self.node.chain()
    }
}

fn tx_outs(outputs: Vec<(ScriptBuf, u64)>) -> Vec<TxOut> {
    outputs.into_iter().map(|(script_pubkey, sats)| TxOut { value: Amount::from_sat(sats), script_pubkey }).collect()
}
