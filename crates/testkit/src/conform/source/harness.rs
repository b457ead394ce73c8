//! What an adapter's author brings.

use super::{Ability, Act};
use crate::conform::Broken;
use async_trait::async_trait;
use confirmd_core::{Amount, BlockRef, ChainSource, Height, TxId};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// One payment within a transaction, in the harness' asset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// One of the harness' addresses.
    pub to: String,
    /// Base units.
    pub amount: Amount,
}

/// A text that must be refused as an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The text.
    pub text: String,
    /// What is wrong with it: another network's, mistyped, can never be matched.
    pub because: &'static str,
}

/// What is constant of a network and of how the source under test is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Texts that are the same address, a group for each way in which spellings differ; at least one group of two.
    pub spellings: Vec<Vec<String>>,
    /// Texts that are no address here: another network's and a mistyped one at least.
    pub refused: Vec<Refused>,
    /// The smallest amount that can be paid here; 1, unless a node's policy forbids it.
    pub smallest: Amount,
    /// The largest amount that can be paid here.
    pub largest: Amount,
    /// Confirmations that the chain asks for before what [`Act::PayLocked`] pays can be spent.
    pub maturity: Option<NonZeroU32>,
    /// Whether the chain has a finality of its own.
    pub finality: bool,
    /// What stands in the endpoint's URL or headers and must not be seen anywhere: at least 8 characters.
    pub secret: String,
    /// The source's attempts per call, as configured.
    pub attempts: u32,
    /// The source's deadline per call, as configured. Keep it short: trials wait for it.
    pub deadline: Duration,
}

/// One running network with one source on it. Everything is awaited to its end: after `mine` the node has the block.
#[async_trait]
pub trait SourceHarness: Send + Sync {
    /// The source under test: the same one on every call, over the first endpoint.
    fn source(&self) -> Arc<dyn ChainSource>;
    /// Another one with the same configuration, as after a restart.
    async fn restarted(&self) -> Result<Arc<dyn ChainSource>, Broken>;
    /// What is constant.
    fn facts(&self) -> Facts;
    /// An address that can be paid, in its canonical spelling; another one for each number below 8.
    fn address(&self, number: usize) -> String;
    /// Sends one transaction with these payments in the first asset of the source's profile; it waits to be mined.
    async fn pay(&self, outputs: &[Output]) -> Result<TxId, Broken>;
    /// Mines so many blocks; the first has all that waits, in the order in which it was sent.
    async fn mine(&self, blocks: u32) -> Result<(), Broken>;
    /// The block at a height of the best chain, as the network knows it: not asked through the source, and whatever the node
    /// shows. `None` above the tip and at an empty slot.
    async fn block_at(&self, height: Height) -> Result<Option<BlockRef>, Broken>;
    /// The best chain's last block, as the network knows it.
    async fn tip(&self) -> Result<BlockRef, Broken>;
    /// Requests that the node got so far, attempts counted one by one; `None` where that can't be told.
    fn requests(&self) -> Option<u64>;
    /// Does something else. What the lab said it can't do: [`Act::impossible`].
    async fn act(&self, act: Act) -> Result<(), Broken>;
    /// The node is well again: nothing of what was asked of it, or of its answers, is left.
    async fn repair(&self) -> Result<(), Broken>;
}

/// Starts networks. Each trial gets one of its own.
#[async_trait]
pub trait SourceLab: Send + Sync {
    /// Why something can't be done here, if it can't: trials that need it are ignored, with this reason.
    fn cannot(&self, ability: Ability) -> Option<&'static str>;
    /// A new chain with a few blocks at most, and a source on it whose profile has a reorg depth of at most 20.
    async fn start(&self) -> Result<Box<dyn SourceHarness>, Broken>;
}
