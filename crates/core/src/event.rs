//! Events: one decision each, with the body frozen when it is made.

use crate::deposit_key::feed;
use crate::{
    Amount, Asset, BlockHash, ChainId, ChainName, DepositKey, Epoch, Height, Notice, NoticeName, Sequence, Timestamp, Transfer,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// Which way a decision went, or what an informative event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// Deep enough: the deposit stands.
    Confirmed,
    /// The chain took it back.
    Reverted,
    /// Informative: seen in a block, not deep enough.
    Detected,
    /// Informative: it can't be taken back any more.
    Settled,
}

impl EventKind {
    /// The wire format's type: `deposit.confirmed`, `deposit.reverted`, `deposit.detected` or `deposit.settled`.
    pub fn wire_type(self) -> &'static str {
        match self {
            Self::Confirmed => "deposit.confirmed",
            Self::Reverted => "deposit.reverted",
            Self::Detected => "deposit.detected",
            Self::Settled => "deposit.settled",
        }
    }

    /// One word for it: the wire format's type without its first part.
    pub fn word(self) -> &'static str {
        let (_, word) = self.wire_type().split_once('.').expect("invariant: deposit and a word");
        word
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
        Self::of(decided(chain, key, epoch, sequence))
    }

    /// The same of an informative event: behind it the length-prefixed word of what it says and the big-endian version of the chain's
    /// state that it was decided from.
    pub fn of_notice(name: NoticeName<'_>) -> Self {
        let mut hasher = decided(name.chain, name.key, name.epoch, name.sequence);
        feed(&mut hasher, name.notice.word().as_bytes());
        hasher.update(name.base.0.to_be_bytes());
        Self::of(hasher)
    }

    fn of(hasher: Sha256) -> Self {
        let digest = const_hex::encode(hasher.finalize());
        let hex = digest.get(..32).expect("invariant: SHA-256 has 64 hex digits");
        Self::new(format!("evt_{hex}")).expect("invariant: 32 hex digits behind evt_")
    }
}

/// What names a decision.
fn decided(chain: &ChainId, key: &DepositKey, epoch: Epoch, sequence: Sequence) -> Sha256 {
    let mut hasher = Sha256::new();
    feed(&mut hasher, chain.as_str().as_bytes());
    feed(&mut hasher, key.tx_id.as_str().as_bytes());
    hasher.update(key.output_index.to_be_bytes());
    hasher.update(epoch.0.to_be_bytes());
    hasher.update(sequence.0.to_be_bytes());
    hasher
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
    /// Derived from chain, key, epoch and sequence; of an informative event see [`EventId::of_notice`].
    pub id: EventId,
    /// Which chain.
    pub chain: ChainId,
    /// The operator's name for it at decision time.
    pub chain_name: ChainName,
    /// The state's epoch.
    pub epoch: Epoch,
    /// Odd confirms, even reverts. Of an informative event: the deposit's last decision, [`Sequence::NONE`] if there was none.
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
    /// What an informative event says; `None` for a decision.
    #[serde(default)]
    pub notice: Option<Notice>,
}

impl Event {
    /// Which way the decision went, or what an informative event says.
    pub fn kind(&self) -> EventKind {
        match self.notice {
            Some(Notice::Detected) => EventKind::Detected,
            Some(Notice::Settled) => EventKind::Settled,
            None if self.sequence.stands() => EventKind::Confirmed,
            None => EventKind::Reverted,
        }
    }

    /// Whether it is a decision: part of a deposit's confirmed, reverted, confirmed, ...
    pub fn decides(&self) -> bool {
        self.notice.is_none()
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
    use crate::{Address, AssetId, BlockRef, Payment, StateVersion, TxId};

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
            notice: None,
        }
    }

    #[test]
    fn g7_an_informative_event_has_an_id_for_every_commit_that_says_it_and_the_body_of_its_type() {
        let event = event();
        let id = |sequence, notice, base| {
            let (chain, key, base) = (&event.chain, &event.transfer.key, StateVersion(base));
            EventId::of_notice(NoticeName { chain, key, epoch: event.epoch, sequence: Sequence(sequence), notice, base })
        };
        let one = id(1, Notice::Settled, 7);
        assert_eq!(one.as_str(), "evt_beb0fb116e26aa72866cde398936ace6");
        assert_eq!(one, id(1, Notice::Settled, 7));
        let others = [id(1, Notice::Detected, 7), id(2, Notice::Settled, 7), id(1, Notice::Settled, 8), event.id.clone()];
        assert!(others.iter().all(|other| *other != one));
        let settled = Event { id: one.clone(), notice: Some(Notice::Settled), ..event.clone() };
        let body = String::from_utf8(settled.to_body()).unwrap();
        let decided = String::from_utf8(event.to_body()).unwrap();
        assert_eq!(body, decided.replace(event.id.as_str(), one.as_str()).replace("deposit.confirmed", "deposit.settled"));
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
