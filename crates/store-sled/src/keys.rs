//! Keys: a prefix byte, then big-endian parts, so that ranges come out in order.

use crate::record::Kind;
use confirmd_core::{AssetId, CursorName, EventId, Height, KeyDigest, Position, RescanId, Timestamp};

/// A chain's number within this store; shorter than its id in every key.
pub(crate) type ChainNumber = u32;
/// A consumer's number within this store; survives a rename and is never used again.
pub(crate) type ConsumerNumber = u32;

/// A key under construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    fn new(kind: Kind) -> Self {
        let mut bytes = Vec::with_capacity(40);
        bytes.push(kind.byte());
        Self(bytes)
    }

    /// The first key that sorts behind this one.
    pub(crate) fn behind(key: &[u8]) -> Self {
        Self(key.to_vec()).then(&[0])
    }

    /// The first key that does not begin with this one any more.
    pub(crate) fn end(&self) -> Self {
        let mut bytes = self.0.clone();
        while let Some(last) = bytes.pop() {
            if let Some(next) = last.checked_add(1) {
                bytes.push(next);
                break;
            }
        }
        Self(bytes)
    }

    fn then(mut self, part: &[u8]) -> Self {
        self.0.extend_from_slice(part);
        self
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Key> for sled::IVec {
    fn from(key: Key) -> Self {
        key.0.into()
    }
}

pub(crate) fn meta() -> Key {
    Key::new(Kind::Meta)
}

pub(crate) fn progress() -> Key {
    Key::new(Kind::Progress)
}

/// Every key of a kind.
pub(crate) fn all(kind: Kind) -> Key {
    Key::new(kind)
}

pub(crate) fn head(chain: ChainNumber) -> Key {
    Key::new(Kind::Head).then(&chain.to_be_bytes())
}

/// Every key of a kind of one chain.
pub(crate) fn of_chain(kind: Kind, chain: ChainNumber) -> Key {
    Key::new(kind).then(&chain.to_be_bytes())
}

pub(crate) fn trail(chain: ChainNumber, height: Height) -> Key {
    of_chain(Kind::Trail, chain).then(&height.0.to_be_bytes())
}

/// A pending, reported or orphaned deposit.
pub(crate) fn held(kind: Kind, chain: ChainNumber, digest: &KeyDigest) -> Key {
    of_chain(kind, chain).then(&digest.0)
}

/// The list of a chain's watched addresses.
pub(crate) fn watch_list(chain: ChainNumber) -> Key {
    of_chain(Kind::Watch, chain)
}

pub(crate) fn asset(chain: ChainNumber, asset: &AssetId) -> Key {
    of_chain(Kind::Asset, chain).then(asset.as_str().as_bytes())
}

pub(crate) fn rescan(chain: ChainNumber, id: RescanId) -> Key {
    of_chain(Kind::Rescan, chain).then(&id.0.to_be_bytes())
}

/// The digest covers the chain.
pub(crate) fn archive(digest: &KeyDigest) -> Key {
    Key::new(Kind::Archive).then(&digest.0)
}

pub(crate) fn event(position: Position) -> Key {
    Key::new(Kind::Event).then(&position.0.to_be_bytes())
}

pub(crate) fn event_id(id: &EventId) -> Key {
    Key::new(Kind::EventId).then(id.as_str().to_ascii_lowercase().trim_start_matches("evt_").as_bytes())
}

pub(crate) fn consumer(consumer: ConsumerNumber) -> Key {
    Key::new(Kind::Consumer).then(&consumer.to_be_bytes())
}

/// Every key of a kind of one consumer.
pub(crate) fn of_consumer(kind: Kind, consumer: ConsumerNumber) -> Key {
    Key::new(kind).then(&consumer.to_be_bytes())
}

/// An undelivered or skipped event of one consumer, or all its failed attempts.
pub(crate) fn delivery(kind: Kind, consumer: ConsumerNumber, position: Position) -> Key {
    of_consumer(kind, consumer).then(&position.0.to_be_bytes())
}

pub(crate) fn attempt(consumer: ConsumerNumber, position: Position, number: u32) -> Key {
    delivery(Kind::Attempt, consumer, position).then(&number.to_be_bytes())
}

/// What the other side answered to a failed attempt.
pub(crate) fn excerpt(consumer: ConsumerNumber, position: Position, number: u32) -> Key {
    delivery(Kind::Excerpt, consumer, position).then(&number.to_be_bytes())
}

/// Every step of a deposit's life.
pub(crate) fn life(digest: &KeyDigest) -> Key {
    Key::new(Kind::Life).then(&digest.0)
}

/// One step: the `index`-th of that commit.
pub(crate) fn life_step(digest: &KeyDigest, commit: u64, index: u32) -> Key {
    life(digest).then(&commit.to_be_bytes()).then(&index.to_be_bytes())
}

pub(crate) fn reorg(chain: ChainNumber, commit: u64) -> Key {
    of_chain(Kind::Reorg, chain).then(&commit.to_be_bytes())
}

pub(crate) fn cursor(name: &CursorName) -> Key {
    Key::new(Kind::Cursor).then(name.as_str().as_bytes())
}

pub(crate) fn deposit(digest: &KeyDigest) -> Key {
    Key::new(Kind::Deposit).then(&digest.0)
}

/// Entries of one index under one value, oldest first.
pub(crate) fn index(kind: Kind, value: &[u8]) -> Key {
    Key::new(kind).then(value)
}

/// One entry of an index.
pub(crate) fn index_entry(kind: Kind, value: &[u8], seen_at: Timestamp, digest: &KeyDigest) -> Key {
    index(kind, value).then(&seen_at.0.to_be_bytes()).then(&digest.0)
}

/// The position in an event's or delivery's key, `skip` bytes behind its beginning.
pub(crate) fn position_at(key: &[u8], skip: usize) -> Option<Position> {
    key.get(skip..)?.first_chunk().map(|bytes| Position(u64::from_be_bytes(*bytes)))
}

/// The number behind the prefix byte.
pub(crate) fn number_of(key: &[u8]) -> Option<u32> {
    key.get(1..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// The digest at the end of a key.
pub(crate) fn digest_of(key: &[u8]) -> Option<KeyDigest> {
    key.last_chunk().map(|bytes| KeyDigest(*bytes))
}

/// The height at the end of a trail key.
pub(crate) fn height_of(key: &[u8]) -> Option<Height> {
    key.last_chunk().map(|bytes| Height(u64::from_be_bytes(*bytes)))
}
