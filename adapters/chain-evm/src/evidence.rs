//! A whole block as a node once gave it, and the payments in it: for recorded blocks and as the yardstick of the live reader.

use crate::block::{Block, Transaction};
use crate::plan::Plan;
use crate::reading::Reading;
use crate::receipt::Receipt;
use crate::trace::{TraceEntry, read_traces};
use alloy::primitives::B256;
use confirmd_core::{BlockRef, SourceError, Timestamp, Transfer, WatchSet};
use std::collections::BTreeSet;

/// A block with all its transactions, all its receipts and, where there are any, all its traces.
#[derive(Debug)]
pub struct BlockEvidence {
    block: Block<Transaction>,
    receipts: Vec<Receipt>,
    traces: Option<Vec<TraceEntry>>,
}

/// Why recorded JSON is not a block.
#[derive(Debug)]
pub struct EvidenceError(String);

impl std::fmt::Display for EvidenceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "read a recorded block: {}", self.0)
    }
}

impl std::error::Error for EvidenceError {}

impl BlockEvidence {
    /// Reads the results of `eth_getBlockByHash` (with transactions), `eth_getBlockReceipts` and `debug_traceBlockByHash`
    /// (callTracer), each as JSON text. Errors: not decodable, receipts of another block, or not one for each transaction.
    pub fn parse(block: &str, receipts: &str, traces: Option<&str>) -> Result<Self, EvidenceError> {
        let wrong = |error: serde_json::Error| EvidenceError(error.to_string());
        let block: Block<Transaction> = serde_json::from_str(block).map_err(wrong)?;
        let receipts: Vec<Receipt> = serde_json::from_str(receipts).map_err(wrong)?;
        let traces = traces.map(|text| serde_json::from_str(text).map_err(wrong)).transpose()?;
        if let Some(problem) = block.list_problem() {
            return Err(EvidenceError(format!("it {problem}")));
        }
        let each = (0u64..).zip(&receipts).zip(&block.transactions);
        let ours = |((position, receipt), tx): ((u64, &Receipt), &Transaction)| {
            let here = receipt.block_hash == block.hash && receipt.block_number == block.number;
            here && receipt.transaction_hash == tx.hash && receipt.transaction_index.0 == position
        };
        if receipts.len() != block.transactions.len() || !each.into_iter().all(ours) {
            return Err(EvidenceError("its receipts are not those of its transactions, one for each, in order".into()));
        }
        Ok(Self { block, receipts, traces })
    }

    /// The block.
    pub fn block(&self) -> BlockRef {
        self.block.block_ref()
    }

    /// Every payment to a watched address in a listed asset, in the order of S6, read from receipts alone. Withdrawals only
    /// where asked for. Errors: traces that don't belong to the block, receipts without a status where it decides.
    pub fn transfers(&self, watch: &WatchSet, withdrawals: bool) -> Result<Vec<Transfer>, SourceError> {
        let plan = Plan::new(watch, &BTreeSet::from([crate::config::SYSTEM_EMITTER]));
        let hashes: Vec<B256> = self.block.transactions.iter().map(|tx| tx.hash).collect();
        let traced = match &self.traces {
            Some(entries) => read_traces(&hashes, entries).map_err(SourceError::transient)?,
            None => Vec::new(),
        };
        let reading = Reading {
            block: self.block(),
            time: Some(Timestamp::from_seconds(self.block.timestamp.0)),
            receipts: self.receipts.iter().map(|receipt| (receipt.transaction_hash, receipt.clone())).collect(),
            natives: &self.block.transactions,
            traced: &traced,
            withdrawals: self.block.withdrawals.as_deref().filter(|_| withdrawals).unwrap_or_default(),
            transactions: u32::try_from(hashes.len()).unwrap_or(u32::MAX),
        };
        reading.transfers(&plan, watch)
    }
}
