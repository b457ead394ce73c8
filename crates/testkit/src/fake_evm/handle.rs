//! The handle that tests hold.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy::primitives::{Address, B256, U256};

use super::chain::{Chain, EvmBranch, EvmPlace, Finality, Token};
use super::payments::{self, EvmPayment};
use super::tx::{Call, TxSpec, transfer_log};
use crate::faults::Faults;
use crate::http::LoopbackServer;
use crate::json_rpc;
use crate::remine::Remine;

/// Gas of an ordinary token transfer.
const TRANSFER_GAS: u64 = 52_000;

/// How to start a [`FakeEvm`].
#[derive(Debug, Clone)]
pub struct EvmOptions {
    /// Its chain id.
    pub chain_id: u64,
    /// Gives another genesis block under the same chain id.
    pub genesis_salt: u64,
    /// Unix seconds of the first block after the genesis block.
    pub first_block_time: u64,
    /// Seconds from block to block.
    pub block_spacing_s: u64,
}

impl Default for EvmOptions {
    fn default() -> Self {
        Self { chain_id: 31_337, genesis_salt: 0, first_block_time: 1_767_225_600, block_spacing_s: 12 }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) faults: Faults,
    chain: Mutex<Chain>,
}

impl Node {
    fn new(options: EvmOptions) -> Arc<Self> {
        let EvmOptions { chain_id, genesis_salt, first_block_time, block_spacing_s } = options;
        let chain = Chain::new(chain_id, genesis_salt, first_block_time, block_spacing_s);
        Arc::new(Self { faults: Faults::default(), chain: Mutex::new(chain) })
    }

    pub(super) fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running node. Clones steer the same node.
#[derive(Debug, Clone)]
pub struct FakeEvm {
    node: Arc<Node>,
    server: Arc<LoopbackServer>,
}

impl FakeEvm {
    /// Starts a node whose chain is a genesis block. `safe` is 32 and `finalized` 64 blocks below
    /// the tip until told otherwise.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(options: EvmOptions) -> io::Result<Self> {
        let node = Node::new(options);
        let server = LoopbackServer::start(json_rpc::router(Arc::clone(&node))).await?;
        Ok(Self { node, server: Arc::new(server) })
    }

    /// A node without a socket: whoever calls it brings its requests to [`app`](Self::app).
    pub fn detached(options: EvmOptions) -> Self {
        let node = Node::new(options);
        let server = LoopbackServer::detached(json_rpc::router(Arc::clone(&node)));
        Self { node, server: Arc::new(server) }
    }

    /// What answers its requests.
    pub fn app(&self) -> axum::Router {
        self.server.app()
    }

    /// `http://127.0.0.1:port`; every path is served.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// The transport's faults, and the counts of calls.
    pub fn faults(&self) -> &Faults {
        &self.node.faults
    }

    /// Mines `count` blocks; the first takes the whole pool.
    pub fn mine(&self, count: u32) -> Vec<B256> {
        let mut chain = self.chain();
        (0..count)
            .map(|_| {
                let waiting = std::mem::take(&mut chain.pool);
                chain.mine(waiting)
            })
            .collect()
    }

    /// Puts a plain payment into the pool.
    pub fn transfer_native(&self, from: Address, to: Address, wei: U256) -> B256 {
        self.send(TxSpec::new(from, to).value(wei))
    }

    /// Puts a payment that fails (status 0, value not moved) into the pool.
    pub fn failed_native(&self, from: Address, to: Address, wei: U256) -> B256 {
        self.send(TxSpec::new(from, to).value(wei).failed())
    }

    /// Puts a token transfer into the pool and, if the token is new, gives it code and 18 decimals.
    pub fn erc20_transfer(&self, token: Address, from: Address, to: Address, amount: U256) -> B256 {
        self.known_token(token);
        let logs = vec![transfer_log(token, from, to, amount)];
        self.send(TxSpec { gas_used: TRANSFER_GAS, ..TxSpec::new(from, token).logs(logs) })
    }

    /// Puts a call of `via` into the pool which pays each of `payments` in order: visible only in
    /// traces.
    pub fn call_internal(&self, from: Address, via: Address, payments: &[(Address, U256)]) -> B256 {
        let sum = payments.iter().fold(U256::ZERO, |sum, (_, wei)| sum.saturating_add(*wei));
        let calls = payments.iter().map(|(to, wei)| Call::new(via, *to, *wei)).collect();
        self.chain().contracts.entry(via).or_insert(None);
        self.send(TxSpec::new(from, via).value(sum).calls(calls))
    }

    /// Puts any transaction into the pool.
    pub fn send(&self, spec: TxSpec) -> B256 {
        self.chain().send(spec)
    }

    /// Puts a transaction with the sender and nonce of `hash` into the pool, where it takes the
    /// other's place. A mined one stays mined until a fork drops it. None: never sent.
    pub fn send_replacing(&self, hash: &B256, spec: TxSpec) -> Option<B256> {
        self.chain().replace(hash, spec)
    }

    /// Lets the next block carry an EIP-4895 withdrawal, and gives its global index.
    pub fn withdraw(&self, validator_index: u64, to: Address, gwei: u64) -> u64 {
        self.chain().withdraw(validator_index, to, gwei)
    }

    /// Gives a token code, a symbol and decimals.
    pub fn deploy_token(&self, token: Address, symbol: &str, decimals: u8) {
        let symbol = symbol.to_owned();
        self.chain().contracts.insert(token, Some(Token { symbol, decimals }));
    }

    /// Gives an address code.
    pub fn deploy(&self, contract: Address) {
        self.chain().contracts.insert(contract, None);
    }

    /// Replaces the last `depth` blocks (at most all above the genesis block) by `depth + 1` new
    /// ones, and gives the branch that was left.
    pub fn fork(&self, depth: u64, remine: Remine) -> EvmBranch {
        self.fork_to_length(depth, depth.saturating_add(1), remine)
    }

    /// Replaces the last `depth` blocks by `length` new ones, which may be fewer or none.
    pub fn fork_to_length(&self, depth: u64, length: u64, remine: Remine) -> EvmBranch {
        self.chain().fork(depth, length, remine)
    }

    /// Makes a branch the best chain again as it was (A, B, A) and gives the one that was left;
    /// None for a branch of another node. The pool stays as it is.
    pub fn return_to(&self, branch: &EvmBranch) -> Option<EvmBranch> {
        self.chain().return_to(branch)
    }

    /// The best chain as it is now.
    pub fn branch(&self) -> EvmBranch {
        self.chain().branch()
    }

    /// Height and hash of the best chain's last block, whatever the node shows.
    pub fn tip(&self) -> (u64, B256) {
        let chain = self.chain();
        (chain.tip_height(), chain.tip())
    }

    /// The best chain's hash at this height.
    pub fn hash_at(&self, height: u64) -> Option<B256> {
        self.chain().hash_at(height)
    }

    /// Where a transaction stands in the best chain.
    pub fn find(&self, hash: &B256) -> Option<EvmPlace> {
        self.chain().find(hash)
    }

    /// Every payment of the best chain, in order: what a ledger must agree with.
    pub fn payments(&self) -> Vec<EvmPayment> {
        let chain = self.chain();
        let mut found = Vec::new();
        for mined in chain.best_blocks() {
            payments::of_block(mined, &mut found);
        }
        found
    }

    /// Unix seconds of the next block.
    pub fn set_next_block_time(&self, seconds: u64) {
        self.chain().next_time = seconds;
    }

    /// The node answers as if the last `blocks` blocks had not reached it. 0: up to date.
    pub fn lag(&self, blocks: u64) {
        self.chain().lag = blocks;
    }

    /// What `eth_syncing` says.
    pub fn set_syncing(&self, syncing: bool) {
        self.chain().syncing = syncing;
    }

    /// What the tag `safe` means.
    pub fn set_safe(&self, finality: Finality) {
        self.chain().safe = finality;
    }

    /// What the tag `finalized` means.
    pub fn set_finalized(&self, finality: Finality) {
        self.chain().finalized = finality;
    }

    /// `eth_getLogs` over more blocks is refused with -32005. None: no limit.
    pub fn limit_log_range(&self, blocks_max: Option<u64>) {
        self.chain().log_range_max = blocks_max;
    }

    /// `eth_getLogs` with more results is refused with -32005. None: no limit.
    pub fn limit_log_results(&self, logs_max: Option<usize>) {
        self.chain().log_results_max = logs_max;
    }

    /// Whether `eth_getLogs` above the tip is an error. At first it is not: the range is cut.
    pub fn refuse_logs_above_tip(&self, refuse: bool) {
        self.chain().logs_refused_above_tip = refuse;
    }

    /// The next `count` calls of `eth_getLogs` are answered `[]`.
    pub fn empty_logs_next(&self, count: u32) {
        self.chain().empty_logs = count;
    }

    /// Whether `debug_trace*` exists. At first it does.
    pub fn set_traces(&self, offered: bool) {
        for method in ["debug_traceBlockByHash", "debug_traceTransaction"] {
            if offered {
                self.faults().enable(method);
            } else {
                self.faults().disable(method);
            }
        }
    }

    /// The node loses one block: null, or "unknown block", by hash and by number.
    pub fn lose_block(&self, hash: B256) {
        self.chain().lose(hash);
    }

    /// Undoes [`lose_block`](Self::lose_block).
    pub fn find_block_again(&self, hash: &B256) {
        self.chain().find_again(hash);
    }

    /// The node knows nothing any more of the blocks that are stale now. Until then it serves them
    /// by hash, as geth does.
    pub fn forget_stale_blocks(&self) {
        self.chain().forget_stale();
    }

    /// Closes all connections and refuses new ones; the port stays ours.
    ///
    /// # Errors
    /// When the port can't be kept.
    pub async fn stop(&self) -> io::Result<()> {
        self.server.stop().await
    }

    /// Listens again on the same port.
    ///
    /// # Errors
    /// When the port was lost.
    pub async fn restart(&self) -> io::Result<()> {
        self.server.restart().await
    }

    fn known_token(&self, token: Address) {
        let unnamed = Token { symbol: "TOKEN".to_owned(), decimals: 18 };
        self.chain().contracts.entry(token).or_insert(Some(unnamed));
    }

    fn chain(&self) -> MutexGuard<'_, Chain> {
        self.node.chain()
    }
}
