//! One span of blocks, from the node's answers to payments.

use crate::block::{Header, block_hash};
use crate::branch::{Sealed, read_blocks, read_headers};
use crate::erc20::TokenPayment;
use crate::log::Log;
use crate::log_filter::LogFilter;
use crate::log_reader::{LogReader, RangePace};
use crate::native::NativePayment;
use crate::node::{BY_NUMBER, Call, Node, TRACE_BLOCK, TRACES_MAX, is_absent, refused};
use crate::plan::Plan;
use crate::quantity::hex;
use crate::reading::Reading;
use crate::receipt::Receipt;
use crate::trace::{TraceEntry, Traced, read_traces};
use alloy::primitives::B256;
use confirmd_core::{BlockRef, Height, SourceError, Timestamp, Transfer, WatchSet};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Above this many addresses the node's own filter costs more than it saves (a request body of 0.7 MB).
const RECIPIENTS_MAX_DEEP: usize = 10_000;
/// One block has few transfers of a token: a long filter costs more than it saves.
const RECIPIENTS_MAX_NEAR: usize = 200;
const HEADERS_MAX: usize = 500;

/// A span and everything needed to read it.
pub(crate) struct Span<'a> {
    pub(crate) node: &'a Node,
    pub(crate) pace: &'a RangePace,
    pub(crate) plan: &'a Plan,
    pub(crate) watch: &'a WatchSet,
    pub(crate) from: Height,
    pub(crate) to: &'a BlockRef,
    pub(crate) to_hash: B256,
    /// Far below the tip: ranges may be read.
    pub(crate) deep: bool,
    pub(crate) traces: bool,
    pub(crate) withdrawals: bool,
}

/// What is known of a block before its payments are.
#[derive(Default)]
struct Found {
    hash: B256,
    time: Option<Timestamp>,
    transactions: u32,
    /// In an order of its own, so that the same blocks are asked for in the same words.
    wanted: BTreeSet<B256>,
    receipts: HashMap<B256, Receipt>,
    traced: Vec<Traced>,
}

impl Span<'_> {
    /// Payments in the order of S6. Nothing to look for: still proves that the node knows `to`.
    pub(crate) async fn read(&self) -> Result<Vec<Transfer>, SourceError> {
        if self.plan.is_empty() || self.watch.is_empty() {
            read_headers(self.node, self.to.height, self.to).await?;
            return Ok(Vec::new());
        }
        let blocks = self.blocks().await?;
        let logs = self.logs(&blocks).await?;
        let told = told(&logs)?;
        let mut found = self.found(&blocks, logs);
        self.read_traces(&blocks, &mut found).await?;
        self.read_receipts(&mut found).await?;
        self.read_times(&mut found).await?;
        let by_height: HashMap<u64, &Sealed> = blocks.iter().map(|block| (block.block.height.0, block)).collect();
        let mut transfers = Vec::new();
        for (height, found) in found {
            let sealed = by_height.get(&height);
            let reading = Reading {
                block: BlockRef { height: Height(height), hash: block_hash(found.hash) },
                time: found.time,
                receipts: found.receipts,
                natives: sealed.map(|block| block.natives.as_slice()).unwrap_or_default(),
                traced: &found.traced,
                withdrawals: sealed.filter(|_| self.withdrawals).map(|block| block.withdrawals.as_slice()).unwrap_or_default(),
                transactions: found.transactions,
            };
            transfers.extend(reading.transfers(self.plan, self.watch)?);
        }
        self.check_told(&told, &transfers)?;
        Ok(transfers)
    }

    /// What a node's logs tell, its receipts must tell, too: one of the two is wrong otherwise, and nobody knows which.
    fn check_told(&self, told: &[(B256, TokenPayment)], transfers: &[Transfer]) -> Result<(), SourceError> {
        let said = |transfer: &Transfer| {
            let payment = &transfer.payment;
            (transfer.key.tx_id.as_str().to_owned(), payment.asset.clone(), payment.address.bytes().to_vec(), payment.amount)
        };
        let found: HashSet<_> = transfers.iter().map(said).collect();
        for (tx, payment) in told {
            let Some(asset) = self.plan.tokens.get(&payment.token) else { continue };
            if !found.contains(&(tx.to_string(), asset.clone(), payment.to.to_vec(), payment.amount)) {
                return Err(SourceError::transient(format!(
                    "eth_getLogs tells of a transfer of {} in {tx}, whose receipt does not hold it; check the node's health",
                    payment.token
                )));
            }
        }
        Ok(())
    }

    /// Blocks along their links: whole ones where native payments count, headers near the tip, none far below it.
    async fn blocks(&self) -> Result<Vec<Sealed>, SourceError> {
        let pays_watched =
            |tx: &crate::block::Transaction| NativePayment::read(tx).is_some_and(|p| self.watch.contains(p.to.as_slice()));
        match (&self.plan.native, self.deep) {
            (Some(_), _) => read_blocks(self.node, self.from, self.to, &pays_watched).await,
            (None, false) => read_headers(self.node, self.from, self.to).await,
            (None, true) => Ok(Vec::new()),
        }
    }

    /// Transfers of listed tokens to watched addresses.
    async fn logs(&self, blocks: &[Sealed]) -> Result<Vec<Log>, SourceError> {
        if self.plan.tokens.is_empty() {
            return Ok(Vec::new());
        }
        let recipients_max = if self.deep { RECIPIENTS_MAX_DEEP } else { RECIPIENTS_MAX_NEAR };
        let words = || {
            self.watch
                .addresses()
                .filter(|entry| entry.address.bytes().len() == 20)
                .map(|entry| B256::left_padding_from(entry.address.bytes()))
        };
        let recipients = (self.watch.len() <= recipients_max).then(|| words().collect());
        let filter = LogFilter::new(self.plan.tokens.keys().copied().collect(), recipients);
        let reader = LogReader { node: self.node, filter: &filter, pace: self.pace, to: self.to, to_hash: self.to_hash };
        let mut logs = if self.deep { reader.in_range(self.from).await? } else { reader.in_blocks(blocks).await? };
        logs.retain(|log| {
            let payment = TokenPayment::read(log).filter(|payment| payment.from != payment.to);
            payment.is_some_and(|p| self.plan.tokens.contains_key(&p.token) && self.watch.contains(p.to.as_slice()))
        });
        self.check_links(blocks, &logs)?;
        Ok(logs)
    }

    /// Where the blocks are known, ranges must have spoken of the same ones.
    fn check_links(&self, blocks: &[Sealed], logs: &[Log]) -> Result<(), SourceError> {
        let hashes: HashSet<B256> = blocks.iter().map(|block| block.hash).collect();
        match logs.iter().find(|log| !blocks.is_empty() && log.block_hash.is_none_or(|hash| !hashes.contains(&hash))) {
            Some(stray) => Err(SourceError::orphaned(format!(
                "a log of block {:?}, which is not on the branch of {}",
                stray.block_hash, self.to
            ))),
            None => Ok(()),
        }
    }

    /// Blocks that may carry a payment, by height, with the transactions whose receipts decide it.
    fn found(&self, blocks: &[Sealed], logs: Vec<Log>) -> BTreeMap<u64, Found> {
        let mut found: BTreeMap<u64, Found> = BTreeMap::new();
        let withdraws =
            |block: &Sealed| self.withdrawals && block.withdrawals.iter().any(|w| self.watch.contains(w.address.as_slice()));
        for block in blocks.iter().filter(|block| !block.natives.is_empty() || withdraws(block)) {
            let entry = found.entry(block.block.height.0).or_default();
            entry.wanted.extend(block.natives.iter().map(|tx| tx.hash));
        }
        for log in logs {
            let (Some(number), Some(hash), Some(tx)) = (log.block_number, log.block_hash, log.transaction_hash) else { continue };
            let entry = found.entry(number.0).or_default();
            entry.hash = hash;
            entry.time = log.block_timestamp.map(|time| Timestamp::from_seconds(time.0));
            entry.wanted.insert(tx);
        }
        for block in blocks {
            if let Some(entry) = found.get_mut(&block.block.height.0) {
                entry.describe(block);
            }
        }
        found
    }

    /// Traces of every block: an internal payment shows nowhere else.
    async fn read_traces(&self, blocks: &[Sealed], found: &mut BTreeMap<u64, Found>) -> Result<(), SourceError> {
        if !self.traces || self.plan.native.is_none() {
            return Ok(());
        }
        let traceable: Vec<&Sealed> = blocks.iter().filter(|block| block.transactions > 0 && block.block.height.0 > 0).collect();
        for part in traceable.chunks(TRACES_MAX) {
            let calls: Vec<Call> =
                part.iter().map(|block| (TRACE_BLOCK, json!([block.hash, { "tracer": "callTracer" }]))).collect();
            let answers = self.node.series::<Option<Vec<TraceEntry>>>(&calls, TRACES_MAX, None).await?;
            for (answer, block) in answers.into_iter().zip(part) {
                let orphaned = |why: &str| SourceError::orphaned(format!("asked for the traces of block {}: {why}", block.block));
                let entries = match answer {
                    Ok(entries) => entries.ok_or_else(|| orphaned("null"))?,
                    Err(error) if is_absent(&error) => return Err(orphaned(&error.to_string())),
                    Err(error) if error.is_pruned() && !error.is_range_limit() => {
                        return Err(SourceError::fatal(format!(
                            "{error}; the node no longer has the state to trace block {}: use an archive node, or set internal_transfers = \"off\"",
                            block.block
                        )));
                    }
                    Err(error) => return Err(refused(error)),
                };
                // A node without the state of an old block says so per transaction; nothing tells that from a passing fault.
                let traced = read_traces(&block.tx_hashes, &entries).map_err(|problem| {
                    SourceError::transient(format!(
                        "read the traces of block {}: {problem}; if this stays, the node no longer has the block's state: use an archive node, or set internal_transfers = \"off\"",
                        block.block
                    ))
                })?;
                self.keep_paying(block, traced, found);
            }
        }
        Ok(())
    }

    fn keep_paying(&self, block: &Sealed, traced: Vec<Traced>, found: &mut BTreeMap<u64, Found>) {
        let pays = |traced: &Traced| traced.payments.iter().filter_map(|p| p.to).any(|to| self.watch.contains(to.as_slice()));
        let paying: Vec<Traced> = traced.into_iter().filter(pays).collect();
        if !paying.is_empty() {
            let entry = found.entry(block.block.height.0).or_default();
            entry.describe(block);
            entry.wanted.extend(paying.iter().map(|traced| traced.tx));
            entry.traced = paying;
        }
    }

    async fn read_receipts(&self, found: &mut BTreeMap<u64, Found>) -> Result<(), SourceError> {
        let wanted: Vec<(B256, B256)> =
            found.values().flat_map(|block| block.wanted.iter().map(|tx| (*tx, block.hash))).collect();
        for receipt in self.node.receipts(&wanted).await? {
            let height = receipt.block_number.0;
            let block = found.get_mut(&height).filter(|block| block.hash == receipt.block_hash);
            let text = || {
                format!(
                    "the receipt of {} names block {} at height {height}, which is not its own",
                    receipt.transaction_hash, receipt.block_hash
                )
            };
            let block = block.ok_or_else(|| SourceError::transient(text()))?;
            block.receipts.insert(receipt.transaction_hash, receipt);
        }
        Ok(())
    }

    /// Times of blocks that came without: from their headers, which must be the same blocks.
    async fn read_times(&self, found: &mut BTreeMap<u64, Found>) -> Result<(), SourceError> {
        let timeless: Vec<u64> = found.iter().filter(|(_, block)| block.time.is_none()).map(|(height, _)| *height).collect();
        let calls: Vec<Call> = timeless.iter().map(|height| (BY_NUMBER, json!([hex(*height), false]))).collect();
        let answers = self.node.series::<Option<Header>>(&calls, HEADERS_MAX, None).await?;
        for (answer, height) in answers.into_iter().zip(timeless) {
            let header = answer.map_err(refused)?;
            let Some(block) = found.get_mut(&height) else { continue };
            let same = header.filter(|header| header.hash == block.hash);
            let gone = || {
                SourceError::orphaned(format!("block {} at height {height} is no longer on the node's best chain", block.hash))
            };
            block.time = Some(Timestamp::from_seconds(same.ok_or_else(gone)?.timestamp.0));
        }
        Ok(())
    }
}

/// Each log's transaction and payment. A log that does not name its transaction and block can't be looked up, and is not dropped.
fn told(logs: &[Log]) -> Result<Vec<(B256, TokenPayment)>, SourceError> {
    let mut told = Vec::with_capacity(logs.len());
    for log in logs {
        let (Some(tx), Some(_), Some(_)) = (log.transaction_hash, log.block_number, log.block_hash) else {
            return Err(SourceError::transient("a log of a watched transfer does not name its transaction and block"));
        };
        told.extend(TokenPayment::read(log).map(|payment| (tx, payment)));
    }
    Ok(told)
}

impl Found {
    fn describe(&mut self, block: &Sealed) {
        self.hash = block.hash;
        self.time = Some(block.time);
        self.transactions = u32::try_from(block.transactions).unwrap_or(u32::MAX);
    }
}
