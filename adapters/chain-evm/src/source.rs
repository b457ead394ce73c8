//! The chain source.

use crate::address::parse_address;
use crate::block::Header;
use crate::config::{InternalTransfers, Settings, chain_id};
use crate::inspect::Inspection;
use crate::log_reader::RangePace;
use crate::node::{BY_NUMBER, Call, Node, TRACE_BLOCK, is_absent, refused};
use crate::plan::{NATIVE_NAMESPACE, Plan};
use crate::quantity::{Quantity, hex};
use crate::shown::{Configured, shown};
use crate::span::Span;
use alloy::primitives::B256;
use async_trait::async_trait;
use confirmd_core::{
    Address, AddressError, BlockHeader, BlockRef, ChainContext, ChainId, ChainProfile, ChainSource, Clock, ConfigError,
    EndpointStatus, FinalityTag, Height, ListedAsset, ShownTransaction, SourceError, SystemClock, Transfer, WatchSet,
};
use confirmd_rpc::{RpcClientBuilder, RpcError};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Half of the usual block time of rollups; an idle look is one small request.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
const HEADERS_MAX: usize = 500;
/// The `latest` tag and the genesis block, as parameters.
const LATEST: &str = "latest";
const GENESIS: &str = "0x0";

/// An EVM network behind one or several JSON-RPC endpoints.
#[derive(Debug)]
pub struct EvmSource {
    pub(crate) profile: ChainProfile,
    pub(crate) settings: Settings,
    pub(crate) node: Node,
    pub(crate) clock: Arc<dyn Clock>,
    pace: RangePace,
    /// The tip last told to the caller, who chooses spans by it. Zero: none yet.
    tip_told: AtomicU64,
    /// Whether the node offers traces, and the connection it was found out on.
    traces: Mutex<Option<(u64, bool)>>,
}

impl EvmSource {
    pub(crate) fn new(context: ChainContext, settings: Settings, rpc: RpcClientBuilder) -> Result<Self, ConfigError> {
        let config = &settings.config;
        let node = Node::new(rpc, &config.rpc, &config.limits)?;
        let profile = ChainProfile {
            chain: settings.chain.clone(),
            name: context.name,
            reorg_depth: context.reorg_depth,
            assets: settings.assets.clone(),
            start: context.start,
            poll_interval: context.poll_interval.unwrap_or(POLL_INTERVAL),
            fork_grace: context.fork_grace,
            behind_alarm: context.behind_alarm,
            span_max: context.span_max.unwrap_or(config.log_range_max),
            several_endpoints: config.rpc.len() > 1,
        };
        let pace = RangePace::new(config.log_range_max.get());
        Ok(Self {
            profile,
            settings,
            node,
            clock: Arc::new(SystemClock),
            pace,
            tip_told: AtomicU64::new(0),
            traces: Mutex::new(None),
        })
    }

    pub(crate) async fn latest(&self) -> Result<Header, SourceError> {
        let latest = self.node.block_at(LATEST, false).await?;
        latest.ok_or_else(|| SourceError::transient("asked for the latest block, the node has none yet"))
    }

    /// What the node says its chain is.
    pub(crate) async fn chain_found(&self) -> Result<ChainId, SourceError> {
        let number: Quantity = self.node.call("eth_chainId", json!([])).await?;
        Ok(chain_id(number.0))
    }

    /// `Fatal` if block 0 is not the configured one. `Ok` where none is configured.
    pub(crate) async fn check_genesis(&self) -> Result<(), SourceError> {
        let Some(expected) = self.settings.config.genesis else { return Ok(()) };
        let found: Option<Header> = self.node.block_at(GENESIS, false).await?;
        match found {
            Some(genesis) if genesis.hash == expected => Ok(()),
            Some(genesis) => Err(SourceError::fatal(format!(
                "block 0 of the node is {}, configured is genesis = \"{expected}\": it serves another network with the same chain id",
                genesis.hash
            ))),
            None => Err(SourceError::fatal(
                "the node has no block 0 to compare with genesis; use a node that has, or leave genesis out",
            )),
        }
    }

    /// Whether to read traces. Decided once per connection, so that it does not change from block to block.
    /// `Fatal` where they are required and not offered.
    pub(crate) async fn traces_on(&self) -> Result<bool, SourceError> {
        let mode = self.settings.config.internal_transfers;
        if mode == InternalTransfers::Off {
            return Ok(false);
        }
        let generation = self.node.client().generation();
        if let Some((_, offered)) = self.traces_known().filter(|(at, _)| *at == generation) {
            return self.traces_decided(offered);
        }
        // No block has this hash: a node that offers the method says so, cheaply.
        let probe = self.node.call::<serde::de::IgnoredAny>(TRACE_BLOCK, json!([B256::ZERO, { "tracer": "callTracer" }])).await;
        let offered = match probe {
            Ok(_) => true,
            Err(RpcError::Call(error)) => !error.is_method_missing(),
            Err(error) => return Err(error.into()),
        };
        let before = self.traces_known().map(|(_, offered)| offered);
        *self.traces.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.node.client().generation(), offered));
        if before != Some(offered) && !offered {
            tracing::warn!(chain = %self.profile.name, "internal transfers are not seen: the node offers no {TRACE_BLOCK}");
        } else if before != Some(offered) {
            tracing::info!(chain = %self.profile.name, "internal transfers are read from traces");
        }
        self.traces_decided(offered)
    }

    fn traces_known(&self) -> Option<(u64, bool)> {
        *self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn traces_decided(&self, offered: bool) -> Result<bool, SourceError> {
        if offered || self.settings.config.internal_transfers != InternalTransfers::Required {
            return Ok(offered);
        }
        Err(SourceError::fatal(format!(
            "internal_transfers = \"required\", but the node offers no {TRACE_BLOCK}: enable its debug API, use another node, or set \"auto\" or \"off\""
        )))
    }

    /// Far below the tip that the caller goes by: at or below its floor, where logs may be read by range.
    async fn is_deep(&self, to: &BlockRef) -> Result<bool, SourceError> {
        let told = match self.tip_told.load(Relaxed) {
            0 => self.tip().await?.height.0,
            told => told,
        };
        Ok(to.height.plus(self.profile.reorg_depth.get()).0 <= told)
    }
}

#[async_trait]
impl ChainSource for EvmSource {
    fn profile(&self) -> &ChainProfile {
        &self.profile
    }

    async fn identify(&self) -> Result<ChainId, SourceError> {
        let found = self.chain_found().await?;
        if found == self.profile.chain {
            self.check_genesis().await?;
        }
        Ok(found)
    }

    async fn tip(&self) -> Result<BlockRef, SourceError> {
        let tip = self.latest().await?.block_ref();
        self.tip_told.store(tip.height.0, Relaxed);
        Ok(tip)
    }

    async fn header_at(&self, height: Height) -> Result<Option<BlockHeader>, SourceError> {
        let header: Option<Header> = self.node.block_at(&hex(height.0), false).await?;
        header.map(|header| checked(&header, height.0)).transpose()
    }

    async fn headers(&self, from: Height, to: Height) -> Result<Vec<BlockHeader>, SourceError> {
        let heights: Vec<u64> = (from.0..=to.0).collect();
        let calls: Vec<Call> = heights.iter().map(|height| (BY_NUMBER, json!([hex(*height), false]))).collect();
        let answers = self.node.series::<Option<Header>>(&calls, HEADERS_MAX, None).await?;
        let mut headers = Vec::with_capacity(answers.len());
        for (answer, height) in answers.into_iter().zip(heights) {
            match answer {
                Ok(Some(header)) => headers.push(checked(&header, height)?),
                Ok(None) => break,
                Err(error) if is_absent(&error) => break,
                Err(error) => return Err(refused(error)),
            }
        }
        Ok(headers)
    }

    async fn finalized(&self, tag: FinalityTag) -> Result<Option<BlockRef>, SourceError> {
        match self.node.block_at::<serde::de::IgnoredAny>(tag.as_str(), false).await {
            Ok(block) => Ok(block.map(|block| block.block_ref())),
            // "Unknown block", "invalid tag", "not supported": the node has no answer, and no answer is not height zero.
            Err(RpcError::Call(error)) => {
                tracing::debug!(chain = %self.profile.name, tag = tag.as_str(), error = %error, "no such finality");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        let to_hash: B256 =
            to.hash.as_str().parse().map_err(|_| SourceError::orphaned(format!("{to} is not a block of this chain")))?;
        let plan = Plan::new(watch, &self.settings.emitters);
        let span = Span {
            node: &self.node,
            pace: &self.pace,
            plan: &plan,
            watch,
            from,
            to,
            to_hash,
            deep: self.is_deep(to).await?,
            traces: plan.native.is_some() && !watch.is_empty() && self.traces_on().await?,
            withdrawals: self.settings.config.withdrawals,
        };
        span.read().await
    }

    fn parse_address(&self, text: &str) -> Result<Address, AddressError> {
        parse_address(text, self.profile.chain.as_str())
    }

    async fn inspect(&self) -> Result<Vec<EndpointStatus>, SourceError> {
        Inspection::new(self).run().await
    }

    async fn transaction(&self, tx_id: &str, _height: Option<Height>) -> Result<Option<ShownTransaction>, SourceError> {
        let coin = |listed: &&ListedAsset| listed.asset.id.parts().0 == NATIVE_NAMESPACE;
        let configured = Configured {
            chain: &self.profile.chain,
            native: self.profile.assets.iter().find(coin).map(|listed| &listed.asset.id),
            emitters: &self.settings.emitters,
        };
        shown(&self.node, &configured, tx_id).await
    }

    fn connection(&self) -> u64 {
        self.node.client().generation()
    }
}

/// The header, if it is the one that was asked for.
fn checked(header: &Header, height: u64) -> Result<BlockHeader, SourceError> {
    if header.number.0 != height {
        return Err(SourceError::transient(format!("asked for block {height}, got {}", header.block_ref())));
    }
    Ok(header.header())
}
