//! Blocks that link, hash by hash, to the block that was asked for.

use crate::block::{Block, Transaction, Withdrawal};
use crate::node::{BY_NUMBER, Call, FULL_BLOCKS_MAX, Node, is_absent, refused};
use crate::quantity::hex;
use alloy::primitives::{B256, Bloom};
use confirmd_core::{BlockRef, Height, SourceError, Timestamp};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;

/// More headers than this in one request gain nothing.
const HEADERS_MAX: usize = 500;

/// A block of the branch, reduced to what may matter of it.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    pub(crate) block: BlockRef,
    pub(crate) hash: B256,
    pub(crate) time: Timestamp,
    pub(crate) bloom: Option<Bloom>,
    /// Transactions in the block.
    pub(crate) transactions: usize,
    /// All of them, where the block was read whole.
    pub(crate) tx_hashes: Vec<B256>,
    /// Those that the caller kept.
    pub(crate) natives: Vec<Transaction>,
    pub(crate) withdrawals: Vec<Withdrawal>,
}

/// Which transactions of whole blocks to keep.
pub(crate) type Keep<'a> = &'a (dyn Fn(&Transaction) -> bool + Send + Sync);

/// How a block's transactions are read.
trait Entry: DeserializeOwned + Send + Sized {
    /// Checks what the block says of itself and reduces it.
    fn reduce(block: Block<Self>, keep: Keep<'_>) -> Result<Sealed, SourceError>;
}

impl Entry for IgnoredAny {
    fn reduce(block: Block<Self>, _: Keep<'_>) -> Result<Sealed, SourceError> {
        let transactions = block.transactions.len();
        Ok(sealed(&block, transactions, Vec::new(), Vec::new()))
    }
}

impl Entry for Transaction {
    fn reduce(block: Block<Self>, keep: Keep<'_>) -> Result<Sealed, SourceError> {
        if let Some(problem) = block.list_problem() {
            return Err(SourceError::transient(format!("block {} {problem}", block.block_ref())));
        }
        let hashes = block.transactions.iter().map(|tx| tx.hash).collect();
        let natives = block.transactions.iter().filter(|tx| keep(tx)).cloned().collect();
        let transactions = block.transactions.len();
        Ok(sealed(&block, transactions, hashes, natives))
    }
}

fn sealed<T>(block: &Block<T>, transactions: usize, tx_hashes: Vec<B256>, natives: Vec<Transaction>) -> Sealed {
    Sealed {
        block: block.block_ref(),
        hash: block.hash,
        time: Timestamp::from_seconds(block.timestamp.0),
        bloom: block.logs_bloom,
        transactions,
        tx_hashes,
        natives,
        withdrawals: block.withdrawals.clone().unwrap_or_default(),
    }
}

/// A header as a [`Sealed`] block.
pub(crate) fn seal_header(block: Block<IgnoredAny>) -> Sealed {
    let transactions = block.transactions.len();
    sealed(&block, transactions, Vec::new(), Vec::new())
}

/// Headers of `from..=to.height` of the best chain, if they link and end in `to`; else `Orphaned`.
pub(crate) async fn read_headers(node: &Node, from: Height, to: &BlockRef) -> Result<Vec<Sealed>, SourceError> {
    read::<IgnoredAny>(node, from, to, HEADERS_MAX, &|_| false).await
}

/// The same blocks read whole, keeping the transactions that `keep` wants.
pub(crate) async fn read_blocks(node: &Node, from: Height, to: &BlockRef, keep: Keep<'_>) -> Result<Vec<Sealed>, SourceError> {
    read::<Transaction>(node, from, to, FULL_BLOCKS_MAX, keep).await
}

async fn read<T: Entry>(
    node: &Node,
    from: Height,
    to: &BlockRef,
    calls_max: usize,
    keep: Keep<'_>,
) -> Result<Vec<Sealed>, SourceError> {
    let whole = calls_max == FULL_BLOCKS_MAX;
    let heights: Vec<u64> = (from.0..=to.height.0).collect();
    let mut branch: Vec<Sealed> = Vec::with_capacity(heights.len());
    // Part by part, so that whole blocks are reduced before the next ones arrive.
    for part in heights.chunks(calls_max) {
        let calls: Vec<Call> = part.iter().map(|height| (BY_NUMBER, json!([hex(*height), whole]))).collect();
        let answers = node.series::<Option<Block<T>>>(&calls, calls_max, None).await?;
        for (answer, height) in answers.into_iter().zip(part) {
            let block = match answer {
                Ok(Some(block)) => block,
                Ok(None) => return Err(missing(*height, to)),
                Err(error) if is_absent(&error) => return Err(missing(*height, to)),
                Err(error) => return Err(refused(error)),
            };
            if block.number.0 != *height {
                return Err(SourceError::transient(format!("asked for block {height}, got {}", block.block_ref())));
            }
            if branch.last().is_some_and(|last| last.hash != block.parent_hash) {
                return Err(SourceError::orphaned(format!("block {} does not link to the one below it", block.block_ref())));
            }
            branch.push(T::reduce(block, keep)?);
        }
    }
    if branch.last().is_none_or(|last| last.block != *to) {
        return Err(SourceError::orphaned(format!("block {to} is not on the node's best chain")));
    }
    Ok(branch)
}

fn missing(height: u64, to: &BlockRef) -> SourceError {
    SourceError::orphaned(format!("the node has no block {height} on the way to {to}"))
}
