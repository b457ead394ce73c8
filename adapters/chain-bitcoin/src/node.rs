//! The node's methods that are used, with what their errors mean here.

use crate::block::{HEADER_BYTES, read_header};
use crate::chain_info::ChainInfo;
use crate::cursor::Cursor;
use crate::rest::{Rest, RestMode};
use bitcoin::BlockHash;
use bitcoin::block::Header;
use bytes::Bytes;
use confirmd_core::{Height, SourceError};
use confirmd_rpc::{CallError, Failure, RpcClient, RpcError};
use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, IgnoredAny, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Hashes or headers asked for at once.
const HASHES_AT_ONCE: usize = 200;
/// Blocks asked for at once, however small they are.
const BLOCKS_AT_ONCE: usize = 32;
/// Bytes of blocks asked for at once, as far as the last ones tell; an answer holds twice as many hex digits.
const BLOCK_BYTES_AT_ONCE: usize = 4 * 1024 * 1024;
/// Core's numbers for heights end here.
const HEIGHT_MAX: u64 = 0x7fff_ffff;

/// What `getindexinfo` calls the index of compact block filters.
const FILTER_INDEX: &str = "basic block filter index";

/// "Block not found"; of a transaction also where only an index would know it.
pub(crate) const NOT_FOUND: i32 = -5;
/// "Block height out of range".
const OUT_OF_RANGE: i32 = -8;

/// A node behind the one RPC reader.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) rpc: RpcClient,
    rest: Rest,
    /// The largest of the blocks that came last, in bytes.
    block_bytes: AtomicUsize,
    /// Calls that the endpoint takes together, as far as it has refused more.
    calls_at_once: AtomicUsize,
}

impl Node {
    pub(crate) fn new(rpc: RpcClient, rest: RestMode) -> Self {
        let burst = usize::try_from(rpc.limits().burst().get()).unwrap_or(usize::MAX);
        Self {
            rpc,
            rest: Rest::new(rest),
            block_bytes: AtomicUsize::new(BLOCK_BYTES_AT_ONCE),
            calls_at_once: AtomicUsize::new(burst),
        }
    }

    pub(crate) async fn chain_info(&self) -> Result<ChainInfo, SourceError> {
        Ok(self.rpc.call("getblockchaininfo", ()).await?)
    }

    /// The best chain's hash at a height; `None` above the tip.
    pub(crate) async fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, SourceError> {
        if height.0 > HEIGHT_MAX {
            return Ok(None);
        }
        match self.rpc.call::<HexHash>("getblockhash", [height.0]).await {
            Ok(hash) => Ok(Some(hash.0)),
            Err(RpcError::Call(error)) if error.code == OUT_OF_RANGE => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The best chain's hashes from `from` to `to`, ending early where the node's chain ends.
    pub(crate) async fn hashes(&self, from: Height, to: Height) -> Result<Vec<BlockHash>, SourceError> {
        let heights = from.0..=to.0.min(HEIGHT_MAX);
        let calls = heights.map(|height| ("getblockhash", [height])).collect();
        let mut hashes = Vec::new();
        for answer in self.ask::<HexHash, _>(calls, HASHES_AT_ONCE).await? {
            match answer {
                Ok(hash) => hashes.push(hash.0),
                Err(error) if error.code == OUT_OF_RANGE => break,
                Err(error) => return Err(RpcError::Call(error).into()),
            }
        }
        Ok(hashes)
    }

    /// The headers of these blocks, in order; each is the header that was asked for.
    pub(crate) async fn headers(&self, hashes: &[BlockHash]) -> Result<Vec<Header>, SourceError> {
        let calls = hashes.iter().map(|hash| ("getblockheader", (hash.to_string(), false))).collect();
        let answers = self.ask::<HexHeader, _>(calls, HASHES_AT_ONCE).await?;
        let mut headers = Vec::with_capacity(hashes.len());
        for (answer, hash) in answers.into_iter().zip(hashes) {
            let header = answer.map_err(|error| refused(error, hash, None))?.0;
            if header.block_hash() != *hash {
                return Err(SourceError::fatal(format!(
                    "asked for the header of block {hash} and got that of {}; check what answers at this endpoint",
                    header.block_hash()
                )));
            }
            headers.push(header);
        }
        Ok(headers)
    }

    /// The heights of these blocks, in order; `Orphaned` if one is not on the best chain now.
    pub(crate) async fn heights(&self, hashes: &[BlockHash]) -> Result<Vec<Height>, SourceError> {
        let calls = hashes.iter().map(|hash| ("getblockheader", (hash.to_string(), true))).collect();
        let mut heights = Vec::with_capacity(hashes.len());
        for (answer, hash) in self.ask::<Placed, _>(calls, HASHES_AT_ONCE).await?.into_iter().zip(hashes) {
            let placed = answer.map_err(|error| refused(error, hash, None))?;
            if placed.confirmations < 1 {
                return Err(SourceError::orphaned(format!("block {hash} is no longer on the node's best chain")));
            }
            heights.push(Height(placed.height));
        }
        Ok(heights)
    }

    /// Up to which height the node's index of compact block filters goes, if it has one.
    pub(crate) async fn filtered_to(&self) -> Result<Option<Height>, RpcError> {
        match self.rpc.call::<BTreeMap<String, IndexInfo>>("getindexinfo", ()).await {
            Ok(indexes) => Ok(indexes.get(FILTER_INDEX).map(|index| Height(index.best_block_height))),
            Err(RpcError::Call(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the node can look through its filters, whatever it is doing now.
    pub(crate) async fn scans(&self) -> Result<bool, RpcError> {
        match self.rpc.call::<IgnoredAny>("scanblocks", ("status",)).await {
            Ok(_) => Ok(true),
            Err(RpcError::Call(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The blocks of the best chain in `from..=to` whose filters match one of these descriptors, in order; `None` if the node did not
    /// look at all of them.
    pub(crate) async fn scan_blocks(
        &self,
        descriptors: Vec<String>,
        from: Height,
        to: Height,
    ) -> Result<Option<Vec<BlockHash>>, RpcError> {
        let scan: Scan = self.rpc.call("scanblocks", ("start", descriptors, from.0, to.0)).await?;
        let whole = scan.completed && scan.from_height == from.0 && scan.to_height == to.0;
        Ok(whole.then(|| scan.relevant_blocks.into_iter().map(|hash| hash.0).collect()))
    }

    /// How many blocks to ask for at once: as many as fit the budget if they are as large as the last ones.
    pub(crate) fn blocks_at_once(&self) -> usize {
        let expected = self.block_bytes.load(Relaxed).max(1);
        (BLOCK_BYTES_AT_ONCE / expected).clamp(1, BLOCKS_AT_ONCE)
    }

    /// The raw bytes of these blocks, in order: by REST where the node offers it, else by RPC.
    pub(crate) async fn blocks(&self, hashes: &[BlockHash]) -> Result<Vec<Bytes>, SourceError> {
        let endpoint = self.rpc.endpoint_index();
        let blocks = match self.rest.blocks(&self.rpc, hashes).await {
            Some(blocks) => blocks,
            None => {
                let blocks = self.blocks_by_rpc(hashes).await?;
                // What RPC serves and REST does not: the node has no REST interface any more.
                if self.rest.known(endpoint) == Some(true) && self.rpc.endpoint_index() == endpoint {
                    self.rest.found(endpoint, false);
                    tracing::info!("the node's REST interface gave no block; reading blocks by RPC from now on");
                }
                blocks
            }
        };
        self.block_bytes.store(blocks.iter().map(Bytes::len).max().unwrap_or(BLOCK_BYTES_AT_ONCE), Relaxed);
        Ok(blocks)
    }

    /// The raw bytes of these blocks, in order, by RPC.
    pub(crate) async fn blocks_by_rpc(&self, hashes: &[BlockHash]) -> Result<Vec<Bytes>, SourceError> {
        let calls = hashes.iter().map(|hash| ("getblock", (hash.to_string(), 0u8))).collect();
        let mut blocks = Vec::with_capacity(hashes.len());
        for (answer, hash) in self.ask::<HexBytes, _>(calls, BLOCKS_AT_ONCE).await?.into_iter().zip(hashes) {
            match answer {
                Ok(bytes) => blocks.push(Bytes::from(bytes.0)),
                Err(error) => return Err(self.block_refused(error, hash).await),
            }
        }
        Ok(blocks)
    }

    /// Asks in as few requests as the burst, the endpoint and the size of the answers allow; an answer per call, in order.
    async fn ask<T: DeserializeOwned, P: Serialize + Clone>(
        &self,
        calls: Vec<(&'static str, P)>,
        mut at_once: usize,
    ) -> Result<Vec<Result<T, CallError>>, RpcError> {
        let mut answers = Vec::with_capacity(calls.len());
        while let Some(rest) = calls.get(answers.len()..).filter(|rest| !rest.is_empty()) {
            let size = at_once.min(self.calls_at_once.load(Relaxed)).max(1);
            let part = rest.get(..size).unwrap_or(rest);
            let half = part.len() / 2;
            match self.rpc.batch(part.to_vec()).await {
                Ok(some) => answers.extend(some),
                // An error for the whole batch, instead of one for each call.
                Err(RpcError::Call(_)) if half > 0 => self.calls_at_once.store(half, Relaxed),
                // Too slow for so many: fewer the next time. Another try within this call would have a deadline of its own.
                Err(error) if half > 0 && timed_out(&error) => {
                    self.calls_at_once.store(half, Relaxed);
                    return Err(error);
                }
                Err(error) if half > 0 && error.is_range_limit() => at_once = half,
                Err(error) => return Err(error),
            }
        }
        Ok(answers)
    }

    async fn block_refused(&self, error: CallError, hash: &BlockHash) -> SourceError {
        let info = if error.is_pruned() { self.chain_info().await.ok() } else { None };
        refused(error, hash, info.as_ref())
    }

    /// Any other method, where the node may not have it.
    pub(crate) async fn optional<T: DeserializeOwned>(&self, method: &'static str, params: impl Serialize) -> Option<T> {
        self.rpc.call(method, params).await.ok()
    }
}

fn timed_out(error: &RpcError) -> bool {
    matches!(error, RpcError::Transient { source, .. } if matches!(**source, Failure::TimedOut(_)))
}

/// Why the node does not give a block that it named a moment ago.
fn refused(error: CallError, hash: &BlockHash, info: Option<&ChainInfo>) -> SourceError {
    if error.code == NOT_FOUND {
        return SourceError::orphaned(format!("the node no longer knows block {hash}")).with_source(error);
    }
    if error.is_pruned() {
        let kept = match info.and_then(|info| info.prune_height) {
            Some(height) => format!("the node is pruned and keeps blocks from {height} (pruneheight) on"),
            None => "the node is pruned".to_owned(),
        };
        return SourceError::fatal(format!(
            "block {hash} is gone: {kept}; use a node that has it (prune=0 and a fresh download), or start above that height"
        ))
        .with_source(error);
    }
    RpcError::Call(error).into()
}

/// `getindexinfo`, of one index.
#[derive(serde::Deserialize)]
struct IndexInfo {
    best_block_height: u64,
}

/// `scanblocks start`.
#[derive(serde::Deserialize)]
struct Scan {
    from_height: u64,
    to_height: u64,
    relevant_blocks: Vec<HexHash>,
    completed: bool,
}

/// `getblockheader`, as far as it says where the block is.
#[derive(serde::Deserialize)]
struct Placed {
    height: u64,
    /// -1 off the best chain.
    confirmations: i64,
}

/// A hash as nodes print it.
struct HexHash(BlockHash);

/// A header as 160 hex digits.
struct HexHeader(Header);

/// Bytes as hex digits, decoded from the answer's text without a copy of it.
struct HexBytes(Vec<u8>);

impl<'de> Deserialize<'de> for HexHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text("a block hash of 64 hex digits", |text| text.parse().ok().map(Self)))
    }
}

impl<'de> Deserialize<'de> for HexHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text("a header of 160 hex digits", |text| {
            let mut bytes = [0; HEADER_BYTES];
            const_hex::decode_to_slice(text, &mut bytes).ok()?;
            read_header(&mut Cursor::new(&bytes)).ok().map(Self)
        }))
    }
}

impl<'de> Deserialize<'de> for HexBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text("a block in hex digits", |text| const_hex::decode(text).ok().map(Self)))
    }
}

/// Reads a text where it lies.
struct Text<T>(&'static str, fn(&str) -> Option<T>);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        // The text itself can be millions of digits: it does not belong into the message.
        (self.1)(text).ok_or_else(|| E::custom(format!("not {}, but {} other characters", self.0, text.len())))
    }
}
