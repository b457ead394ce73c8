//! The chain source: a network of the family, read from one node at a time.

use crate::address::parse_address;
use crate::block::Block;
use crate::config::{BitcoinConfig, check_requirements};
use crate::filters::Filters;
use crate::inspect;
use crate::matching::{block_hash, transfers_in};
use crate::network::{DECIMALS, Network, chain_id_of};
use crate::node::Node;
use crate::shown;
use async_trait::async_trait;
use bitcoin::BlockHash;
use bitcoin::block::Header;
use bytes::Bytes;
use confirmd_core::{
    Address, AddressError, Asset, AssetId, BlockHeader, BlockRef, ChainContext, ChainId, ChainProfile, ChainSource, ConfigError,
    EndpointStatus, FinalityTag, Height, ShownTransaction, SourceError, Timestamp, Transfer, WatchSet,
};
use confirmd_rpc::RpcClientBuilder;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::HashSet;
use std::num::NonZeroU64;

/// Blocks of a span far below the tip: a few seconds' worth of full blocks.
const SPAN_MAX: NonZeroU64 = NonZeroU64::new(200).expect("invariant: 200 is not zero");
/// Requests for blocks under way at once: the next are fetched while one is decoded.
const REQUESTS_AT_ONCE: usize = 2;

/// A network of the Bitcoin family, read over a node's JSON-RPC.
#[derive(Debug)]
pub struct BitcoinSource {
    profile: ChainProfile,
    network: &'static Network,
    coin: AssetId,
    node: Node,
    filters: Filters,
}

impl BitcoinSource {
    /// Reads secrets, connects to nothing.
    pub(crate) fn new(context: ChainContext, config: BitcoinConfig, rpc: RpcClientBuilder) -> Result<Self, ConfigError> {
        let network = config.network;
        check_requirements(&context, network)?;
        let rpc = rpc.build(&config.rpc, &config.limits)?;
        let coin = network.coin();
        let asset = Asset { id: coin.clone(), symbol: network.symbol.to_owned(), decimals: DECIMALS };
        let profile = ChainProfile {
            chain: network.chain_id(),
            assets: vec![context.list(asset)],
            several_endpoints: config.rpc.len() > 1,
            name: context.name,
            reorg_depth: context.reorg_depth,
            start: context.start,
            poll_interval: context.poll_interval.unwrap_or(network.poll_interval),
            fork_grace: context.fork_grace,
            behind_alarm: context.behind_alarm,
            span_max: context.span_max.unwrap_or(SPAN_MAX),
        };
        Ok(Self { profile, network, coin, node: Node::new(rpc, config.rest), filters: Filters::new(config.filters) })
    }

    /// The best chain's hashes from `from` to `to.height`, the last one being `to`'s.
    async fn branch_to(&self, from: Height, to: &BlockRef) -> Result<Vec<BlockHash>, SourceError> {
        let hashes = self.node.hashes(from, to.height).await?;
        let complete = u64::try_from(hashes.len()).is_ok_and(|count| count == to.height.since(from).saturating_add(1));
        match hashes.last() {
            Some(last) if complete && last.to_string() == to.hash.as_str() => Ok(hashes),
            Some(last) if complete => {
                Err(SourceError::orphaned(format!("asked for payments up to block {to}, where the node's best chain has {last}")))
            }
            _ => Err(SourceError::orphaned(format!(
                "asked for payments up to block {to}, which the node's best chain does not reach"
            ))),
        }
    }

    /// Decodes a block and matches it. Bytes that are not the block are read a second time before it is fatal.
    async fn match_block(
        &self,
        height: Height,
        hash: &BlockHash,
        bytes: &[u8],
        watch: &WatchSet,
    ) -> Result<(Header, Vec<Transfer>), SourceError> {
        let first = match Block::decode_as(hash, bytes, self.network) {
            Ok(block) => return Ok((block.header, transfers_in(&block, height, &self.coin, watch))),
            Err(error) => error,
        };
        tracing::warn!(chain = %self.profile.name, %height, block = %hash, error = %first, "a block's bytes were not the block; reading it again");
        let again = self.node.blocks_by_rpc(std::slice::from_ref(hash)).await?;
        let bytes = again.first().map(Bytes::as_ref).unwrap_or_default();
        let block = Block::decode_as(hash, bytes, self.network).map_err(|error| {
            let context = format!(
                "read block {height} ({hash}) twice as one of {}, and neither was it; check the node's health and that it serves this network",
                self.network.title
            );
            SourceError::fatal(context).with_source(error)
        })?;
        Ok((block.header, transfers_in(&block, height, &self.coin, watch)))
    }

    async fn fetch(&self, blocks: Vec<(Height, BlockHash)>) -> Result<Vec<(Height, BlockHash, Bytes)>, SourceError> {
        let hashes: Vec<BlockHash> = blocks.iter().map(|(_, hash)| *hash).collect();
        let bytes = self.node.blocks(&hashes).await?;
        Ok(blocks.into_iter().zip(bytes).map(|((height, hash), bytes)| (height, hash, bytes)).collect())
    }

    /// The blocks of the branch that ends in `to` which have to be read: all from `from` on, without those that pay nothing watched by
    /// the node's filters.
    async fn to_be_read(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<(Height, BlockHash)>, SourceError> {
        let reorg_depth = self.profile.reorg_depth.get();
        let (mut blocks, whole_from) = match self.filters.candidates(&self.node, from, to.height, reorg_depth, watch).await? {
            Some(candidates) => (candidates.blocks, candidates.to.next()),
            None => (Vec::new(), from),
        };
        // Asked behind the filters: what they said holds for the branch that ends in `to`.
        let hashes = self.branch_to(whole_from.min(to.height), to).await?;
        blocks.extend((whole_from.0..=to.height.0).map(Height).zip(hashes));
        Ok(blocks)
    }

    /// Payments in these blocks, which are of one branch and in order.
    async fn read(&self, blocks: &[(Height, BlockHash)], watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        let parts: Vec<_> = blocks.chunks(self.node.blocks_at_once()).map(<[_]>::to_vec).collect();
        let mut parts = stream::iter(parts).map(|part| self.fetch(part)).buffered(REQUESTS_AT_ONCE);
        let mut transfers = Vec::new();
        let mut before: Option<(Height, BlockHash)> = None;
        while let Some(part) = parts.try_next().await? {
            for (height, hash, bytes) in &part {
                let (header, found) = self.match_block(*height, hash, bytes, watch).await?;
                if before.is_some_and(|(below, parent)| below.next() == *height && parent != header.prev_blockhash) {
                    return Err(SourceError::orphaned(format!("block {height} ({hash}) does not follow the one read before it")));
                }
                transfers.extend(found);
                before = Some((*height, *hash));
            }
        }
        // Before BIP 34 two coinbases could be the same transaction. There is only one coin then: the first stands.
        let mut seen = HashSet::new();
        transfers.retain(|transfer| seen.insert(transfer.key.clone()));
        Ok(transfers)
    }
}

#[async_trait]
impl ChainSource for BitcoinSource {
    fn profile(&self) -> &ChainProfile {
        &self.profile
    }

    async fn identify(&self) -> Result<ChainId, SourceError> {
        let title = self.network.title;
        let genesis = self.node.hash_at(Height(0)).await?;
        let genesis =
            genesis.ok_or_else(|| SourceError::transient("asked the node for its genesis block, and it has none yet"))?;
        let mut names_chain = genesis;
        if let Some(fork) = self.network.fork.filter(|_| genesis.to_string() == self.network.genesis) {
            let found = self.node.hash_at(Height(fork.height)).await?.ok_or_else(|| {
                SourceError::transient(format!(
                    "the node has not reached block {}, which tells {title} from other chains with its genesis block; wait until it has synced",
                    fork.height
                ))
            })?;
            if found.to_string() != fork.hash {
                names_chain = found;
            }
        }
        chain_id_of(&names_chain.to_string()).ok_or_else(|| SourceError::fatal(format!("{names_chain} names no chain")))
    }

    async fn tip(&self) -> Result<BlockRef, SourceError> {
        let info = self.node.chain_info().await?;
        if let Some(problem) = info.behind(self.network) {
            return Err(SourceError::transient(format!("{problem}; waiting until it has caught up")));
        }
        let hash = confirmd_core::BlockHash::new(&info.best_block_hash)
            .map_err(|error| SourceError::fatal("asked the node for its best block and got something else").with_source(error))?;
        Ok(BlockRef { height: Height(info.blocks), hash })
    }

    async fn header_at(&self, height: Height) -> Result<Option<BlockHeader>, SourceError> {
        let Some(hash) = self.node.hash_at(height).await? else { return Ok(None) };
        let headers = self.node.headers(&[hash]).await.map_err(named_a_moment_ago)?;
        Ok(headers.first().map(|header| block_header(height, header)))
    }

    async fn headers(&self, from: Height, to: Height) -> Result<Vec<BlockHeader>, SourceError> {
        if from > to {
            return Ok(Vec::new());
        }
        let hashes = self.node.hashes(from, to).await?;
        let headers = self.node.headers(&hashes).await.map_err(named_a_moment_ago)?;
        Ok((from.0..).zip(&headers).map(|(height, header)| block_header(Height(height), header)).collect())
    }

    async fn finalized(&self, _tag: FinalityTag) -> Result<Option<BlockRef>, SourceError> {
        Ok(None)
    }

    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        if watch.is_empty() || watch.asset(&self.coin).is_none() || from > to.height {
            return self.branch_to(to.height, to).await.map(|_| Vec::new());
        }
        let blocks = self.to_be_read(from, to, watch).await?;
        self.read(&blocks, watch).await
    }

    fn parse_address(&self, text: &str) -> Result<Address, AddressError> {
        parse_address(text, self.network)
    }

    async fn inspect(&self) -> Result<Vec<EndpointStatus>, SourceError> {
        inspect::inspect(&self.node, self.network).await
    }

    async fn transaction(&self, tx_id: &str, height: Option<Height>) -> Result<Option<ShownTransaction>, SourceError> {
        shown::shown(&self.node, self.network, tx_id, height).await
    }

    fn connection(&self) -> u64 {
        self.node.rpc.generation()
    }
}

/// A header that vanished right after the node named its hash: the chain is moving, or another node answers now.
fn named_a_moment_ago(error: SourceError) -> SourceError {
    match error.kind {
        confirmd_core::SourceErrorKind::Orphaned => {
            SourceError { kind: confirmd_core::SourceErrorKind::Transient { retry_after: None }, ..error }
        }
        _ => error,
    }
}

fn block_header(height: Height, header: &Header) -> BlockHeader {
    BlockHeader {
        block: BlockRef { height, hash: block_hash(&header.block_hash()) },
        parent: block_hash(&header.prev_blockhash),
        time: Some(Timestamp::from_seconds(u64::from(header.time))),
    }
}
