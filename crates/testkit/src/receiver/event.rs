//! The event as it stands on the wire, version 1, read by a customer who ignores unknown fields.

use serde::Deserialize;

/// `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum EventType {
    /// `deposit.confirmed`, or `test.confirmed` from `confirmd conform`.
    #[serde(rename = "deposit.confirmed", alias = "test.confirmed")]
    Confirmed,
    /// `deposit.reverted`, or `test.reverted` from `confirmd conform`.
    #[serde(rename = "deposit.reverted", alias = "test.reverted")]
    Reverted,
}

/// What the ledger reads of an event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "the field names of the wire format")]
pub struct WireEvent {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: EventType,
    pub version: u32,
    pub epoch: u64,
    pub sequence: u64,
    pub chain: String,
    pub chain_name: String,
    pub key: WireKey,
    pub address: String,
    #[serde(default)]
    pub reference: Option<String>,
    #[serde(default)]
    pub memo: Option<String>,
    pub asset: WireAsset,
    /// Base units in decimal.
    pub amount: String,
    #[serde(default)]
    pub from: Option<String>,
    pub block: WireBlock,
    pub confirmations: u64,
}

/// `key`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "the field names of the wire format")]
pub struct WireKey {
    pub tx_id: String,
    pub output_index: u64,
}

/// `asset`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "the field names of the wire format")]
pub struct WireAsset {
    pub id: String,
    pub symbol: String,
    pub decimals: u8,
}

/// `block`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "the field names of the wire format")]
pub struct WireBlock {
    pub height: u64,
    pub hash: String,
}
