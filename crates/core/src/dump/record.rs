//! The records of a dump, in the order they come in. Their JSON is pinned by a golden test; a change needs a new format.

use super::hex;
use crate::{
    Archived, Attempt, BlockRef, ChainId, ChainName, ConsumerFilter, ConsumerName, DepositRecord, Epoch, Event, FinalityTag,
    Halt, Height, KeyDigest, LifeStep, ListedAsset, OpenDelivery, OpenState, Orphaned, Pending, Position, PullCursor,
    ReorgRecord, Reported, Rescan, StateVersion, StoreId, Timestamp, WatchEntry,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One line of a dump between its head and its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DumpRecord {
    /// Whose dump it is; the first record.
    Store(DumpedStore),
    /// A chain, by id; what is of it follows.
    Chain(DumpedChain),
    /// A block of the chain's trail, by height.
    Block(BlockRef),
    /// An asset of the chain, by id.
    Asset(ListedAsset),
    /// A watched address of the chain, by its bytes.
    #[serde(with = "hex::watched")]
    Watched(WatchEntry),
    /// A pending deposit of the chain, by the digest of its key.
    Pending(DumpedHeld<Pending>),
    /// A reported deposit of the chain, by the digest of its key.
    Reported(DumpedHeld<Reported>),
    /// An orphaned deposit of the chain, by the digest of its key.
    Orphaned(DumpedHeld<Orphaned>),
    /// A rescan of the chain, by number.
    Rescan(Rescan),
    /// A reorg of the chain, oldest first.
    Reorg(ReorgRecord),
    /// An archived key, by its digest.
    Archived(DumpedArchive),
    /// An event, in outbox order.
    Event(Box<DumpedEvent>),
    /// A consumer, by name; what is of it follows.
    Consumer(DumpedConsumer),
    /// An undelivered event of the consumer below its cursor, in outbox order.
    Open(DumpedOpen),
    /// An event that was given up for the consumer, in outbox order.
    Skipped(DumpedSkip),
    /// A failed attempt of the consumer, in outbox order, oldest first.
    Attempt(DumpedAttempt),
    /// A deposit of the history, by the digest of its key.
    Deposit(Box<DepositRecord>),
    /// A step of a deposit's life, by the digest of its key, oldest first.
    Step(DumpedStep),
    /// A reader's cursor, by name.
    Cursor(PullCursor),
}

/// The store as such.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpedStore {
    /// Its name; the name of every store that is made from the dump.
    pub id: StoreId,
    /// Its epoch.
    pub epoch: Epoch,
    /// When it was begun.
    pub created_at: Timestamp,
    /// The place of the event that is decided next.
    pub next_position: Position,
}

/// A chain's state except its many parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpedChain {
    /// Which.
    pub id: ChainId,
    /// Change sets taken so far.
    pub version: StateVersion,
    /// The operator's name for it.
    pub name: Option<ChainName>,
    /// At or below it blocks are final.
    pub floor: Height,
    /// From here on the trail is dense.
    pub linked_from: Height,
    /// The chain's own finality as far as it was seen.
    pub marks: BTreeMap<FinalityTag, Height>,
    /// Why it stands still, if it does.
    pub halt: Option<Halt>,
}

/// A pending, reported or orphaned deposit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpedHeld<T> {
    /// The digest of its key.
    #[serde(with = "hex::digest")]
    pub digest: KeyDigest,
    /// Where its key's last event is.
    pub event: Option<Position>,
    /// The deposit.
    pub deposit: T,
}

/// What is kept for ever of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpedArchive {
    /// The digest of the key.
    #[serde(with = "hex::digest")]
    pub digest: KeyDigest,
    /// Its chain, which has a record.
    pub chain: ChainId,
    /// Height and sequence.
    pub archived: Archived,
    /// Where its last event is or was.
    pub event: Option<Position>,
}

/// An event with its frozen bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpedEvent {
    /// Its place.
    pub position: Position,
    /// What was decided.
    pub event: Event,
    /// The bytes every consumer is told.
    pub body: String,
}

/// A consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpedConsumer {
    /// Its name.
    pub name: ConsumerName,
    /// Which events are its own.
    pub filter: ConsumerFilter,
    /// Events before this place are not its own.
    pub began: Position,
    /// Every event below is delivered, not its own, given up, or has a record.
    pub cursor: Position,
    /// Why no attempts are made, if none are.
    pub paused: Option<String>,
}

/// An undelivered event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpedOpen {
    /// Its place.
    pub position: Position,
    /// The digest of its key.
    #[serde(with = "hex::digest")]
    pub digest: KeyDigest,
    /// Whether its last attempt was the last.
    pub dead: bool,
    /// When the next attempt is due, after a failed one.
    pub retry_at: Option<Timestamp>,
    /// Failed attempts since it was last queued.
    pub attempts: u32,
    /// Failed attempts ever.
    pub attempts_ever: u32,
}

/// An event that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpedSkip {
    /// Its place.
    pub position: Position,
    /// When.
    pub at: Timestamp,
    /// After how many attempts.
    pub attempts: u32,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpedAttempt {
    /// The event's place.
    pub position: Position,
    /// Which attempt ever of that event.
    pub ever: u32,
    /// What happened.
    pub attempt: Attempt,
}

/// A step of a deposit's life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpedStep {
    /// The digest of the deposit's key.
    #[serde(with = "hex::digest")]
    pub digest: KeyDigest,
    /// What happened.
    pub step: LifeStep,
}

impl DumpedOpen {
    /// As a store keeps it.
    pub fn delivery(&self) -> OpenDelivery {
        let state = match (self.dead, self.retry_at) {
            (true, _) => OpenState::Dead,
            (false, Some(at)) => OpenState::Retrying { at },
            (false, None) => OpenState::Queued,
        };
        OpenDelivery { key: self.digest, state, attempts: self.attempts, attempts_ever: self.attempts_ever }
    }

    /// What a store keeps at a place.
    pub fn new(position: Position, open: OpenDelivery) -> Self {
        let (dead, retry_at) = match open.state {
            OpenState::Queued => (false, None),
            OpenState::Retrying { at } => (false, Some(at)),
            OpenState::Dead => (true, None),
        };
        let OpenDelivery { key: digest, attempts, attempts_ever, .. } = open;
        Self { position, digest, dead, retry_at, attempts, attempts_ever }
    }
}

impl DumpRecord {
    /// The name of its kind, as a dump counts it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Store(_) => "store",
            Self::Chain(_) => "chain",
            Self::Block(_) => "block",
            Self::Asset(_) => "asset",
            Self::Watched(_) => "watched",
            Self::Pending(_) => "pending",
            Self::Reported(_) => "reported",
            Self::Orphaned(_) => "orphaned",
            Self::Rescan(_) => "rescan",
            Self::Reorg(_) => "reorg",
            Self::Archived(_) => "archived",
            Self::Event(_) => "event",
            Self::Consumer(_) => "consumer",
            Self::Open(_) => "open",
            Self::Skipped(_) => "skipped",
            Self::Attempt(_) => "attempt",
            Self::Deposit(_) => "deposit",
            Self::Step(_) => "step",
            Self::Cursor(_) => "cursor",
        }
    }
}
