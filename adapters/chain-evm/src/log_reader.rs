//! Reading logs: by block hash near the tip, by range far below it, and in both cases with proof of what was looked through.

use crate::block::Header;
use crate::bloom::may_hold;
use crate::branch::{Sealed, seal_header};
use crate::erc20::TRANSFER;
use crate::log::Log;
use crate::log_filter::{LogFilter, Place};
use crate::node::{Answer, BY_HASH, BY_NUMBER, Call, GET_LOGS, Guard, Node, is_absent, refused, too_much};
use crate::quantity::hex;
use alloy::primitives::B256;
use confirmd_core::{BlockRef, Height, SourceError};
use confirmd_rpc::CallError;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many blocks a range takes; shrinks when a provider refuses more, grows again slowly.
#[derive(Debug)]
pub(crate) struct RangePace {
    blocks: AtomicU64,
    blocks_max: u64,
}

impl RangePace {
    pub(crate) fn new(blocks_max: u64) -> Self {
        Self { blocks: AtomicU64::new(blocks_max), blocks_max }
    }

    fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    fn shrink(&self, refused: u64) {
        self.blocks.store((refused / 2).max(1), Relaxed);
    }

    fn grow(&self) {
        let blocks = self.blocks();
        self.blocks.store(blocks.saturating_add(blocks / 8 + 1).min(self.blocks_max), Relaxed);
    }
}

/// Reads logs on the branch that ends in `to`.
pub(crate) struct LogReader<'a> {
    pub(crate) node: &'a Node,
    pub(crate) filter: &'a LogFilter,
    pub(crate) pace: &'a RangePace,
    pub(crate) to: &'a BlockRef,
    pub(crate) to_hash: B256,
}

/// What one request over a range gave.
enum Range {
    Logs(Vec<Log>),
    TooMuch,
}

impl LogReader<'_> {
    /// Logs of these blocks, each asked for by its hash. Every request proves that the node knows `to`, and an empty answer
    /// is believed only where the block's bloom filter agrees or its receipts do.
    pub(crate) async fn in_blocks(&self, blocks: &[Sealed]) -> Result<Vec<Log>, SourceError> {
        let call = |block: &Sealed| self.filter.params(Place::Block(block.hash)).into_iter().map(|params| (GET_LOGS, params));
        let calls: Vec<Call> = blocks.iter().flat_map(call).collect();
        let check = |answer: Answer<Part>| self.check_known(answer).map(drop);
        let guard = Guard { call: self.by_hash(), check: &check };
        let mut answers = self.node.series(&calls, usize::MAX, Some(guard)).await?.into_iter();
        let mut logs = Vec::new();
        for block in blocks {
            let own: Vec<Answer<Part>> = answers.by_ref().take(self.filter.calls()).collect();
            logs.extend(self.in_block(block, own).await?);
        }
        Ok(logs)
    }

    /// Logs of `from..=to.height` of the best chain, asked for by range. Each request proves that the node knows `to` and
    /// has it on its best chain. A range that is refused for whatever reason is halved, a single block is read by its hash.
    pub(crate) async fn in_range(&self, from: Height) -> Result<Vec<Log>, SourceError> {
        let (mut at, last) = (from.0, self.to.height.0);
        let mut logs = Vec::new();
        while at <= last {
            let end = last.min(at.saturating_add(self.pace.blocks() - 1));
            match self.range(at, end).await? {
                Range::Logs(found) => {
                    logs.extend(found);
                    at = end + 1;
                    self.pace.grow();
                }
                Range::TooMuch if end > at => self.pace.shrink(end - at + 1),
                Range::TooMuch => {
                    logs.extend(self.single(at).await?);
                    at += 1;
                }
            }
        }
        Ok(logs)
    }

    async fn in_block(&self, block: &Sealed, answers: Vec<Answer<Part>>) -> Result<Vec<Log>, SourceError> {
        let mut logs = Vec::new();
        for answer in answers {
            match answer {
                Ok(part) => logs.extend(part.logs()?),
                Err(error) if is_absent(&error) => {
                    return Err(SourceError::orphaned(format!("asked for the logs of block {}: {error}", block.block)));
                }
                Err(error) if pruned(&error) || error.is_method_missing() => return Err(refused(error)),
                Err(error) => {
                    tracing::debug!(block = %block.block.hash, error = %error, "reading logs from receipts");
                    return self.read_receipts(block).await;
                }
            }
        }
        if let Some(stray) = logs.iter().find(|log| log.block_hash != Some(block.hash)) {
            let text = format!("asked for the logs of block {}, got one of {:?}", block.block, stray.block_hash);
            return Err(SourceError::transient(text));
        }
        if logs.is_empty() && block.transactions > 0 && self.may_hold(block) {
            logs = self.read_receipts(block).await?;
            if !logs.is_empty() {
                tracing::warn!(block = %block.block.hash, "the node's eth_getLogs leaves out what its receipts hold");
            }
        }
        Ok(logs)
    }

    async fn range(&self, from: u64, end: u64) -> Result<Range, SourceError> {
        let logs = self.filter.params(Place::Range(from, end)).into_iter().map(|params| (GET_LOGS, params));
        let best = (BY_NUMBER, json!([hex(self.to.height.0), false]));
        let calls = std::iter::once(self.by_hash()).chain(logs).chain([best]).collect();
        let mut answers = match self.node.batch::<Part>(calls).await {
            Ok(answers) => answers,
            Err(error) if too_much(&error) => return Ok(Range::TooMuch),
            Err(error) => {
                if error.is_range_limit() {
                    self.pace.shrink(end - from + 1);
                }
                return Err(error.into());
            }
        };
        let best = answers.pop().ok_or_else(incomplete)?;
        let mut answers = answers.into_iter();
        let known = self.check_known(answers.next().ok_or_else(incomplete)?)?;
        self.check_best(best)?;
        let mut logs = Vec::new();
        for answer in answers {
            match answer {
                Ok(part) => logs.extend(part.logs()?),
                Err(error) if pruned(&error) || error.is_method_missing() => return Err(refused(error)),
                Err(error) => {
                    tracing::debug!(from, to = end, error = %error, "halving a range");
                    return Ok(Range::TooMuch);
                }
            }
        }
        logs.retain(|log| !log.removed);
        self.check_range(&logs, from, end)?;
        if end == self.to.height.0 {
            self.check_end(&logs, known).await?;
        }
        Ok(Range::Logs(logs))
    }

    /// The block at a height whose range of one was refused.
    async fn single(&self, height: u64) -> Result<Vec<Log>, SourceError> {
        let header = self.node.block_at(&hex(height), false).await?;
        let header =
            header.ok_or_else(|| SourceError::orphaned(format!("the node has no block {height} on the way to {}", self.to)))?;
        self.in_blocks(&[seal_header(header)]).await
    }

    /// Logs as the block's receipts hold them.
    async fn read_receipts(&self, block: &Sealed) -> Result<Vec<Log>, SourceError> {
        let wanted = |log: &Log| log.topics.first() == Some(&TRANSFER) && self.filter.contracts().contains(&log.address);
        let recipients = |log: &Log| match self.filter.recipients() {
            Some(words) => log.topics.get(2).is_some_and(|to| words.contains(to)),
            None => true,
        };
        let mut logs = Vec::new();
        for receipt in self.node.block_receipts(block.hash).await? {
            let own = receipt.logs.into_iter().filter(|log| wanted(log) && recipients(log));
            logs.extend(own.map(|log| Log {
                block_hash: Some(receipt.block_hash),
                block_number: Some(receipt.block_number),
                transaction_hash: Some(receipt.transaction_hash),
                ..log
            }));
        }
        Ok(logs)
    }

    fn may_hold(&self, block: &Sealed) -> bool {
        block.bloom.is_some_and(|bloom| may_hold(&bloom, self.filter.contracts(), self.filter.recipients()))
    }

    fn by_hash(&self) -> Call {
        (BY_HASH, json!([self.to_hash, false]))
    }

    /// The node knows `to`: what it says of blocks below is a statement.
    fn check_known(&self, answer: Answer<Part>) -> Result<Header, SourceError> {
        match answer {
            Ok(Part::Header(header)) if header.block_ref() == *self.to => Ok(*header),
            Ok(Part::Header(header)) => {
                Err(SourceError::transient(format!("asked for block {}, got {}", self.to, header.block_ref())))
            }
            Ok(Part::Logs(_)) => Err(SourceError::transient(format!("asked for block {}, got a list", self.to))),
            Ok(Part::Null) => Err(SourceError::orphaned(format!("the node does not know block {}", self.to))),
            Err(error) if is_absent(&error) => Err(SourceError::orphaned(format!("asked for block {}: {error}", self.to))),
            Err(error) => Err(refused(error)),
        }
    }

    /// `to` is on the best chain: ranges follow that.
    fn check_best(&self, answer: Answer<Part>) -> Result<(), SourceError> {
        match answer {
            Ok(Part::Header(header)) if header.block_ref() == *self.to => Ok(()),
            Ok(_) => Err(SourceError::orphaned(format!("block {} is not on the node's best chain", self.to))),
            Err(error) if is_absent(&error) => Err(SourceError::orphaned(format!("asked for block {}: {error}", self.to.height))),
            Err(error) => Err(refused(error)),
        }
    }

    /// Within the range, one block per height, and the last one is `to`.
    fn check_range(&self, logs: &[Log], from: u64, end: u64) -> Result<(), SourceError> {
        let mut hashes = HashMap::from([(self.to.height.0, self.to_hash)]);
        for log in logs {
            let (Some(number), Some(hash)) = (log.block_number, log.block_hash) else {
                return Err(SourceError::transient(format!("a log of blocks {from} to {end} does not name its block")));
            };
            if number.0 < from || number.0 > end {
                return Err(SourceError::transient(format!(
                    "asked for the logs of blocks {from} to {end}, got one of {}",
                    number.0
                )));
            }
            if *hashes.entry(number.0).or_insert(hash) != hash {
                return Err(SourceError::orphaned(format!(
                    "logs of two different blocks {} while reading up to {}",
                    number.0, self.to
                )));
            }
        }
        Ok(())
    }

    /// The range's last block by its bloom filter: a node whose log index ends early is noticed.
    async fn check_end(&self, logs: &[Log], to: Header) -> Result<(), SourceError> {
        let last = seal_header(to);
        if logs.iter().any(|log| log.block_hash == Some(last.hash)) || last.transactions == 0 || !self.may_hold(&last) {
            return Ok(());
        }
        if self.read_receipts(&last).await?.is_empty() {
            return Ok(());
        }
        Err(SourceError::transient(format!(
            "eth_getLogs gave nothing for block {}, whose receipts hold watched transfers: the node's log index is behind or pruned; \
             wait for it or use another endpoint",
            self.to
        )))
    }
}

fn pruned(error: &CallError) -> bool {
    error.is_pruned() && !error.is_range_limit()
}

fn incomplete() -> SourceError {
    SourceError::transient("a batch has fewer answers than calls")
}

/// An answer in a request of mixed calls.
#[derive(Debug)]
enum Part {
    Null,
    Logs(Vec<Log>),
    Header(Box<Header>),
}

impl Part {
    fn logs(self) -> Result<Vec<Log>, SourceError> {
        match self {
            Self::Logs(logs) => Ok(logs),
            // geth answers null for a block it has just dropped; "nothing" is always a list.
            Self::Null => Err(SourceError::orphaned("asked for logs, got null")),
            Self::Header(_) => Err(SourceError::transient("asked for logs, got a block")),
        }
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Part;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("logs, a block or null")
            }
            fn visit_unit<E>(self) -> Result<Part, E> {
                Ok(Part::Null)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Part, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Part::Logs)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Part, A::Error> {
                Header::deserialize(MapAccessDeserializer::new(map)).map(|header| Part::Header(Box::new(header)))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
