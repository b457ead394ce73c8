//! What a network must be able to say: the contract of a chain source. Rules S1 to S20 are in `docs/contracts/source.md`.

use crate::{
    Address, AddressError, BlockHeader, BlockRef, ChainId, ChainName, FinalityTag, Height, ListedAsset, ShownTransaction,
    Transfer, WatchSet,
};
use async_trait::async_trait;
use std::num::NonZeroU64;
use std::time::Duration;

/// Where a chain is watched from at its very first start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// Behind the tip of that moment.
    Tip,
    /// From this height on; at least 1.
    Height(Height),
}

/// What the engine needs to know of a configured chain; constant while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainProfile {
    /// The CAIP-2 id the configuration stands for; [`ChainSource::identify`] must equal it.
    pub chain: ChainId,
    /// The operator's name.
    pub name: ChainName,
    /// Blocks the floor stays below the trail's tip.
    pub reorg_depth: NonZeroU64,
    /// Listed assets with what makes a payment in each deep enough.
    pub assets: Vec<ListedAsset>,
    /// Where to begin when there is no state.
    pub start: StartAt,
    /// Time between two looks at the tip.
    pub poll_interval: Duration,
    /// How long a fork that is shorter than our trail is waited for.
    pub fork_grace: Duration,
    /// How long a source may stay behind our trail before it is an alarm.
    pub behind_alarm: Duration,
    /// Blocks read in one span far below the tip.
    pub span_max: NonZeroU64,
    /// Several endpoints: a fork of equal length is waited for, too.
    pub several_endpoints: bool,
}

/// What a source says of one of its endpoints, for `check` and `status`: one line of text each, no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStatus {
    /// What was looked at: `network`, `sync`, `pruning`, `internal transfers`, …
    pub subject: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found and, if not ok, what to do.
    pub text: String,
}

/// What the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceErrorKind {
    /// Already retried within bounds: give up this tick.
    Transient {
        /// As the node asked.
        retry_after: Option<Duration>,
    },
    /// The branch asked for is gone: restart the tick at the walk.
    Orphaned,
    /// Halt this chain.
    Fatal,
}

/// Why a source gave no answer.
#[derive(Debug, thiserror::Error)]
#[error("{context}")]
pub struct SourceError {
    /// What the caller does next.
    pub kind: SourceErrorKind,
    /// What was tried. No secrets.
    pub context: String,
    /// Why it failed.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl SourceError {
    /// Give up this tick.
    pub fn transient(context: impl Into<String>) -> Self {
        Self { kind: SourceErrorKind::Transient { retry_after: None }, context: context.into(), source: None }
    }

    /// Restart the tick at the walk.
    pub fn orphaned(context: impl Into<String>) -> Self {
        Self { kind: SourceErrorKind::Orphaned, context: context.into(), source: None }
    }

    /// Halt this chain.
    pub fn fatal(context: impl Into<String>) -> Self {
        Self { kind: SourceErrorKind::Fatal, context: context.into(), source: None }
    }

    /// With the node's own wish.
    #[must_use]
    pub fn after(self, retry_after: Option<Duration>) -> Self {
        Self { kind: SourceErrorKind::Transient { retry_after }, ..self }
    }

    /// With its cause.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }
}

/// One network's best chain, read through rate-limited, bounded-retry calls. Calls may run at the same time; dropping
/// a call's future leaves the source usable (S13). Every method's errors: `Transient` for throttling, time-outs and
/// warm-up; `Fatal` for bad credentials, a wrong network, pruned history and answers that can't be decoded twice (S11, S12).
#[async_trait]
pub trait ChainSource: std::fmt::Debug + Send + Sync {
    /// The configured chain; constant.
    fn profile(&self) -> &ChainProfile;

    /// What the node really serves: its chain id, with genesis (and, where networks share it, a block after their fork)
    /// checked. Asked at start and after every reconnect (S1).
    async fn identify(&self) -> Result<ChainId, SourceError>;

    /// The best chain's tip now (S2).
    async fn tip(&self) -> Result<BlockRef, SourceError>;

    /// The best chain's block at a height now. `None` above the tip and at an empty slot, never an error (S3).
    async fn header_at(&self, height: Height) -> Result<Option<BlockHeader>, SourceError>;

    /// The best chain's blocks from `from` to `to`, both included, in order, empty slots left out. Stops early where the
    /// node's chain ends. The caller checks the links (S4).
    async fn headers(&self, from: Height, to: Height) -> Result<Vec<BlockHeader>, SourceError>;

    /// The chain's own finality; `None` where it has none or the node does not know it yet (S18).
    async fn finalized(&self, tag: FinalityTag) -> Result<Option<BlockRef>, SourceError>;

    /// Payments to watched addresses in listed assets in blocks `from..=to.height` of the branch that ends in `to`, in the
    /// order of S6. Proves that the answering node knows `to`; else `Orphaned` (S9). An empty list is a statement.
    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError>;

    /// The canonical form of an address; another network's or a mistyped one is refused (S15). No I/O.
    fn parse_address(&self, text: &str) -> Result<Address, AddressError>;

    /// What an operator should know of the node: sync state, pruning, capabilities. One entry a subject. Errors: only if
    /// nothing can be said at all.
    async fn inspect(&self) -> Result<Vec<EndpointStatus>, SourceError>;

    /// What the node shows of a transaction, for an explanation to people. `height`: of its block, where the asker knows it (some
    /// nodes find a transaction in no other way). `None` if the node does not know it, or can't tell.
    async fn transaction(&self, tx_id: &str, height: Option<Height>) -> Result<Option<ShownTransaction>, SourceError>;

    /// Counts reconnects and changes of endpoint; the engine asks `identify` again when it has moved (S1). No I/O.
    fn connection(&self) -> u64;
}
