//! Events: one decision each, with the body frozen when it is made.

use crate::deposit_key::feed;
use crate::{Amount, Asset, BlockHash, ChainId, ChainName, DepositKey, Epoch, Height, Sequence, Timestamp, Transfer};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// Which way a decision went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// Deep enough: the deposit stands.
    Confirmed,
    /// The chain took it back.
    Reverted,
}

impl EventKind {
    /// The wire format's type: `deposit.confirmed` or `deposit.reverted`.
    pub fn wire_type(self) -> &'static str {
        match self {
            Self::Confirmed => "deposit.confirmed",
            Self::Reverted => "deposit.reverted",
        }
    }
}

crate::text_id::text_id!(
    /// An event's id: the same on every attempt and replay (G7).
    EventId, "an event id", "evt_ and 32 hex digits",
    |text| text.strip_prefix("evt_").is_some_and(|hex| hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
);

impl EventId {
    /// `evt_` and the first 32 hex digits of SHA-256 over the length-prefixed chain id and transaction id and the
    /// big-endian output index, epoch and sequence.
    pub fn derive(chain: &ChainId, key: &DepositKey, epoch: Epoch, sequence: Sequence) -> Self {
        let mut hasher = Sha256::new();
        feed(&mut hasher, chain.as_str().as_bytes());
        feed(&mut hasher, key.tx_id.as_str().as_bytes());
        hasher.update(key.output_index.to_be_bytes());
        hasher.update(epoch.0.to_be_bytes());
        hasher.update(sequence.0.to_be_bytes());
        let digest = const_hex::encode(hasher.finalize());
        let hex = digest.get(..32).expect("invariant: SHA-256 has 64 hex digits");
        Self::new(format!("evt_{hex}")).expect("invariant: 32 hex digits behind evt_")
    }
}

/// A place in the outbox: grows with every event of the store, in commit order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Position {
    /// The position behind this one.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One decision, as `fold` makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Derived from chain, key, epoch and sequence.
    pub id: EventId,
    /// Which chain.
    pub chain: ChainId,
    /// The operator's name for it at decision time.
    pub chain_name: ChainName,
    /// The state's epoch.
    pub epoch: Epoch,
    /// Odd confirms, even reverts.
    pub sequence: Sequence,
    /// The payment and its block; of a reverted event: what is taken back.
    pub transfer: Transfer,
    /// The asset as the operator lists it.
    pub asset: Asset,
    /// The operator's label for the address.
    pub reference: Option<Arc<str>>,
    /// At decision time; zero for a reverted event, whose block is on no best chain.
    pub confirmations: u64,
    /// When it was decided.
    pub decided_at: Timestamp,
}

impl Event {
    /// Which way the decision went.
    pub fn kind(&self) -> EventKind {
        if self.sequence.stands() { EventKind::Confirmed } else { EventKind::Reverted }
    }

    /// The wire format, version 1: the bytes every consumer gets on every attempt. Made once, then stored.
    pub fn to_body(&self) -> Vec<u8> {
        let payment = &self.transfer.payment;
        let block = &self.transfer.block;
        let body = Body {
            id: &self.id,
            r#type: self.kind().wire_type(),
            version: 1,
            epoch: self.epoch,
            sequence: self.sequence,
            chain: &self.chain,
            chain_name: &self.chain_name,
            key: &self.transfer.key,
            address: payment.address.as_str(),
            reference: self.reference.as_deref(),
            memo: payment.memo.as_deref(),
            asset: &self.asset,
            amount: payment.amount,
            from: self.transfer.from.as_deref(),
            block: BodyBlock {
                height: block.height,
                hash: &block.hash,
                time: self.transfer.block_time.map(Timestamp::to_rfc3339),
            },
            confirmations: self.confirmations,
            decided_at: self.decided_at.to_rfc3339(),
        };
        serde_json::to_vec(&body).expect("invariant: text, numbers and options only")
    }
}

/// The wire format's fields in their order.
#[derive(Serialize)]
struct Body<'a> {
    id: &'a EventId,
    r#type: &'static str,
    version: u8,
    epoch: Epoch,
    sequence: Sequence,
    chain: &'a ChainId,
    chain_name: &'a ChainName,
    key: &'a DepositKey,
    address: &'a str,
    reference: Option<&'a str>,
    memo: Option<&'a str>,
    asset: &'a Asset,
    amount: Amount,
    from: Option<&'a str>,
    block: BodyBlock<'a>,
    confirmations: u64,
    decided_at: String,
}

#[derive(Serialize)]
struct BodyBlock<'a> {
    height: Height,
    hash: &'a BlockHash,
    time: Option<String>,
}

/// An event as the outbox holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Its place in the outbox.
    pub position: Position,
    /// The decision.
    pub event: Event,
    /// The frozen bytes.
    pub body: Arc<[u8]>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Address, AssetId, BlockRef, Payment, TxId};

    fn event() -> Event {
        let chain = ChainId::new("eip155:1").unwrap();
        let key = DepositKey { tx_id: TxId::new("0xaa").unwrap(), output_index: 4 };
        let asset = Asset { id: AssetId::new("eip155:1/erc20:0xcc").unwrap(), symbol: "USDC".into(), decimals: 6 };
        Event {
            id: EventId::derive(&chain, &key, Epoch(1_790_000_000), Sequence(1)),
            chain,
            chain_name: ChainName::new("ethereum").unwrap(),
            epoch: Epoch(1_790_000_000),
            sequence: Sequence(1),
            transfer: Transfer {
                key,
                payment: Payment {
                    address: Address::new([0xbb], "0xBB"),
                    asset: asset.id.clone(),
                    amount: Amount::MAX,
                    memo: None,
                },
                block: BlockRef { height: Height(19_000_000), hash: BlockHash::new("0xdd").unwrap() },
                block_time: Some(Timestamp::from_seconds(1_767_225_600)),
                position: 3,
                from: Some("0xEE".into()),
                maturity: None,
            },
            asset,
            reference: Some("customer-42".into()),
            confirmations: 20,
            decided_at: Timestamp::from_seconds(1_767_225_600),
        }
    }

    #[test]
    fn g7_the_body_is_pinned_since_consumers_read_it() {
        let body = String::from_utf8(event().to_body()).unwrap();
        assert_eq!(body, include_str!("event.golden.json").trim_end());
    }

    #[test]
    fn g7_the_id_follows_from_chain_key_epoch_and_sequence_alone() {
        let one = event();
        let mut moved = event();
        moved.transfer.block.height = Height(1);
        moved.transfer.position = 9;
        moved.decided_at = Timestamp(5);
        let id = |e: &Event| EventId::derive(&e.chain, &e.transfer.key, e.epoch, e.sequence);
        assert_eq!(id(&one), id(&moved));
        moved.epoch = Epoch(1);
        assert_ne!(id(&one), id(&moved));
        assert_ne!(id(&one), EventId::derive(&one.chain, &one.transfer.key, one.epoch, Sequence(2)));
    }
}
