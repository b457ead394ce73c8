//! A log of a transaction.

use crate::quantity::Quantity;
use alloy::primitives::{Address, B256, Bytes};
use serde::Deserialize;

/// A log, alone or in its receipt. Its `logIndex` counts within the block and is not read.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Log {
    pub(crate) address: Address,
    pub(crate) topics: Vec<B256>,
    pub(crate) data: Bytes,
    #[serde(default)]
    pub(crate) block_number: Option<Quantity>,
    #[serde(default)]
    pub(crate) block_hash: Option<B256>,
    #[serde(default)]
    pub(crate) block_timestamp: Option<Quantity>,
    #[serde(default)]
    pub(crate) transaction_hash: Option<B256>,
    /// The block that carried it is no longer on the best chain.
    #[serde(default)]
    pub(crate) removed: bool,
}
