//! A transaction's receipt: whether it succeeded, and its logs in the one order that belongs to it alone.

use crate::log::Log;
use crate::quantity::Quantity;
use alloy::primitives::B256;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A receipt of any transaction type.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Receipt {
    pub(crate) transaction_hash: B256,
    pub(crate) transaction_index: Quantity,
    pub(crate) block_hash: B256,
    pub(crate) block_number: Quantity,
    /// Missing before Byzantium, where `root` stands instead.
    #[serde(default, deserialize_with = "status")]
    pub(crate) status: Option<Quantity>,
    pub(crate) logs: Vec<Log>,
}

/// 0 or 1: another number would be a guess about money.
fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Quantity>, D::Error> {
    match Option::<Quantity>::deserialize(deserializer)? {
        Some(Quantity(other)) if other > 1 => Err(D::Error::custom(format!("the status {other} is neither 0 nor 1"))),
        status => Ok(status),
    }
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
