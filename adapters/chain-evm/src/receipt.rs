//! A transaction's receipt: whether it succeeded, and its logs in the one order that belongs to it alone.

use crate::log::Log;
use crate::quantity::Quantity;
use alloy::primitives::B256;
use serde::Deserialize;

/// A receipt of any transaction type.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Receipt {
    pub(crate) transaction_hash: B256,
    pub(crate) transaction_index: Quantity,
    pub(crate) block_hash: B256,
    pub(crate) block_number: Quantity,
    /// Missing before Byzantium, where `root` stands instead.
    #[serde(default)]
    pub(crate) status: Option<Quantity>,
    pub(crate) logs: Vec<Log>,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Failed,
    /// Its receipt is from before Byzantium and does not say.
    Unknown,
}

impl Receipt {
    pub(crate) fn outcome(&self) -> Outcome {
        match self.status {
            Some(Quantity(1)) => Outcome::Succeeded,
            Some(_) => Outcome::Failed,
            None => Outcome::Unknown,
        }
    }
}
