//! `Snapshots`: the whole store as it was at one moment, written out while it goes on.

use crate::images::BeforeImages;
use crate::keys::{self, ChainNumber, ConsumerNumber, Key};
use crate::reader::Reader;
use crate::record::{Kind, unseal};
use crate::rows::{ArchiveRow, AttemptRow, ConsumerRow, DepositRow, EventRow, HeadRow, HeldRow, Meta, OpenRow, SkippedRow};
use crate::store::SledStore;
use crate::watch::WatchCopy;
use crate::writer::Core;
use async_trait::async_trait;
use confirmd_core::{
    BlockHash, BlockRef, ChainId, DumpRecord, DumpedArchive, DumpedAttempt, DumpedChain, DumpedConsumer, DumpedEvent, DumpedHeld,
    DumpedOpen, DumpedSkip, DumpedStep, DumpedStore, Position, Snapshots, StateVersion, StoreError, StoreId, StoreSnapshot,
};
use serde::de::DeserializeOwned;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Records read at once.
const PAGE: usize = 1_000;

/// What is read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Store,
    Chain(usize),
    Watched(usize),
    OfChain(Kind, ChainNumber),
    Consumer(usize),
    OfConsumer(Kind, ConsumerNumber),
    All(Kind),
}

/// What the writer hands out at the moment itself: everything small.
struct Moment {
    meta: Meta,
    next_position: Position,
    chains: Vec<(ChainNumber, HeadRow, Option<WatchCopy>)>,
    consumers: Vec<(ConsumerNumber, ConsumerRow)>,
    images: Arc<BeforeImages>,
}

/// See the module.
struct SledSnapshot {
    store: Arc<SledStore>,
    moment: Moment,
    names: Arc<HashMap<ChainNumber, ChainId>>,
    parts: VecDeque<Part>,
    /// Where the first part goes on.
    from: Option<Key>,
}

impl std::fmt::Debug for SledSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledSnapshot").field("store", &self.store).field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Snapshots for SledStore {
    fn backend(&self) -> &'static str {
        "sled"
    }

    async fn snapshot(self: Arc<Self>) -> Result<Box<dyn StoreSnapshot>, StoreError> {
        let moment = self.writer.run(Core::moment).await?;
        let names = moment.chains.iter().map(|(number, head, _)| (*number, head.chain.clone())).collect();
        let parts = parts(&moment);
        Ok(Box::new(SledSnapshot { store: self, moment, names: Arc::new(names), parts, from: None }))
    }
}

impl Core {
    /// From here on what commits change is set aside, until whoever asked lets go.
    fn moment(&mut self) -> Result<Moment, StoreError> {
        if self.disk.images.upgrade().is_some() {
            return Err(StoreError::Invalid("the state is being exported already; wait until that has ended".to_owned()));
        }
        // How far consumers have read may be known in memory alone.
        self.save_consumers()?;
        let reader = &self.disk.reader;
        let mut chains = Vec::new();
        for row in reader.scan::<HeadRow>(&keys::all(Kind::Head)) {
            let (key, head) = row?;
            let number = keys::number_of(&key).unwrap_or_default();
            let watched = self.disk.watched.copy(number)?;
            chains.push((number, head, watched));
        }
        chains.sort_by(|(_, one, _), (_, other, _)| one.chain.cmp(&other.chain));
        let consumers = self.consumers.iter().map(|consumer| (consumer.number, consumer.row.clone())).collect();
        let images = Arc::new(BeforeImages::default());
        self.disk.images = Arc::downgrade(&images);
        Ok(Moment { meta: self.disk.meta.clone(), next_position: self.disk.progress.next_position, chains, consumers, images })
    }
}

/// In the order of a dump.
fn parts(moment: &Moment) -> VecDeque<Part> {
    let mut parts = VecDeque::from([Part::Store]);
    for (at, (number, ..)) in moment.chains.iter().enumerate() {
        parts.extend([Part::Chain(at), Part::OfChain(Kind::Trail, *number), Part::OfChain(Kind::Asset, *number)]);
        parts.push_back(Part::Watched(at));
        let kinds = [Kind::Pending, Kind::Reported, Kind::Orphaned, Kind::Rescan, Kind::Reorg];
        parts.extend(kinds.map(|kind| Part::OfChain(kind, *number)));
    }
    parts.extend([Part::All(Kind::Archive), Part::All(Kind::Event)]);
    for (at, (number, _)) in moment.consumers.iter().enumerate() {
        parts.push_back(Part::Consumer(at));
        parts.extend([Kind::Open, Kind::Skipped, Kind::Attempt].map(|kind| Part::OfConsumer(kind, *number)));
    }
    parts.extend([Kind::Deposit, Kind::Life, Kind::Cursor].map(Part::All));
    parts
}

#[async_trait]
impl StoreSnapshot for SledSnapshot {
    async fn next(&mut self) -> Result<Vec<DumpRecord>, StoreError> {
        while let Some(part) = self.parts.front().copied() {
            let records = match part {
                Part::Store => self.ended(DumpRecord::Store(self.moment.store()?)),
                Part::Chain(at) => self.chain(at)?,
                Part::Watched(at) => self.watched(at).await?,
                Part::Consumer(at) => self.consumer(at),
                Part::OfChain(kind, chain) => self.records(kind, keys::of_chain(kind, chain)).await?,
                Part::OfConsumer(kind, consumer) => self.records(kind, keys::of_consumer(kind, consumer)).await?,
                Part::All(kind) => self.records(kind, keys::all(kind)).await?,
            };
            if !records.is_empty() {
                return Ok(records);
            }
        }
        Ok(Vec::new())
    }

    fn is_shared(&self) -> bool {
        false
    }
}

impl Moment {
    fn store(&self) -> Result<DumpedStore, StoreError> {
        let id = StoreId::new(format!("{:032x}", u128::from_be_bytes(self.meta.instance)));
        let id = id.map_err(|error| crate::damage::refused(error.to_string()))?;
        Ok(DumpedStore { id, epoch: self.meta.epoch, created_at: self.meta.created_at, next_position: self.next_position })
    }
}

impl SledSnapshot {
    /// The first part is this record alone.
    fn ended(&mut self, record: DumpRecord) -> Vec<DumpRecord> {
        self.parts.pop_front();
        vec![record]
    }

    fn chain(&mut self, at: usize) -> Result<Vec<DumpRecord>, StoreError> {
        let Some((_, head, _)) = self.moment.chains.get(at) else { return Ok(Vec::new()) };
        let halt = head.halt.as_deref().map(serde_json::from_str).transpose();
        let chain = DumpedChain {
            id: head.chain.clone(),
            version: StateVersion(head.version),
            name: head.name.clone(),
            floor: head.floor,
            linked_from: head.linked_from,
            marks: head.marks.iter().copied().collect(),
            halt: halt.map_err(|error| crate::damage::refused_by(format!("the halt of {} can't be read", head.chain), error))?,
        };
        Ok(self.ended(DumpRecord::Chain(chain)))
    }

    fn consumer(&mut self, at: usize) -> Vec<DumpRecord> {
        let Some((_, row)) = self.moment.consumers.get(at) else { return Vec::new() };
        let ConsumerRow { name, filter, began, cursor, paused } = row.clone();
        self.ended(DumpRecord::Consumer(DumpedConsumer { name, filter, began, cursor, paused }))
    }

    async fn watched(&mut self, at: usize) -> Result<Vec<DumpRecord>, StoreError> {
        let copy = self.moment.chains.get_mut(at).and_then(|(.., copy)| copy.take());
        let Some(mut copy) = copy else {
            self.parts.pop_front();
            return Ok(Vec::new());
        };
        let (page, copy) = self.store.read(move |_| Ok((copy.page(PAGE)?, copy))).await?;
        if !page.is_empty()
            && let Some((.., place)) = self.moment.chains.get_mut(at)
        {
            *place = Some(copy);
        }
        Ok(page.into_iter().map(DumpRecord::Watched).collect())
    }

    /// The next records of a part, whose keys begin with `prefix`.
    async fn records(&mut self, kind: Kind, prefix: Key) -> Result<Vec<DumpRecord>, StoreError> {
        let (images, names) = (self.moment.images.clone(), self.names.clone());
        let from = self.from.take().unwrap_or_else(|| prefix.clone());
        let read = self.store.read(move |reader| {
            let (rows, rest) = images.page(reader, &from, &prefix.end(), PAGE)?;
            let view = View { reader, images: &images, names: &names };
            let records = rows.iter().map(|(key, value)| view.record(kind, key, value)).collect::<Result<Vec<_>, _>>()?;
            Ok((records, rest))
        });
        let (records, rest) = read.await?;
        if rest.is_none() {
            self.parts.pop_front();
        }
        self.from = rest;
        Ok(records)
    }
}

/// What a record is made from.
struct View<'a> {
    reader: &'a Reader,
    images: &'a BeforeImages,
    names: &'a HashMap<ChainNumber, ChainId>,
}

impl View<'_> {
    fn record(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<DumpRecord, StoreError> {
        let no_key = || crate::damage::refused("a record's key in the state is too short".to_owned());
        let digest = || keys::digest_of(key).ok_or_else(no_key);
        let position = |skip| keys::position_at(key, skip).ok_or_else(no_key);
        Ok(match kind {
            Kind::Trail => {
                let hash: BlockHash = unseal(key, value)?;
                DumpRecord::Block(BlockRef { height: keys::height_of(key).ok_or_else(no_key)?, hash })
            }
            Kind::Asset => DumpRecord::Asset(unseal(key, value)?),
            Kind::Pending => DumpRecord::Pending(held(digest()?, key, value)?),
            Kind::Reported => DumpRecord::Reported(held(digest()?, key, value)?),
            Kind::Orphaned => DumpRecord::Orphaned(held(digest()?, key, value)?),
            Kind::Rescan => DumpRecord::Rescan(unseal(key, value)?),
            Kind::Reorg => DumpRecord::Reorg(unseal(key, value)?),
            Kind::Archive => {
                let ArchiveRow { chain, archived, event } = unseal(key, value)?;
                let chain = self.names.get(&chain).cloned().ok_or_else(no_key)?;
                DumpRecord::Archived(DumpedArchive { digest: digest()?, chain, archived, event })
            }
            Kind::Event => {
                let EventRow { event, body } = unseal(key, value)?;
                let body = String::from_utf8(body.to_vec());
                let body =
                    body.map_err(|error| crate::damage::refused_by(format!("the body of {} is no text", event.id), error))?;
                DumpRecord::Event(Box::new(DumpedEvent { position: position(1)?, event, body }))
            }
            Kind::Open => DumpRecord::Open(DumpedOpen::new(position(5)?, unseal::<OpenRow>(key, value)?.into())),
            Kind::Skipped => {
                let SkippedRow { at, attempts } = unseal(key, value)?;
                DumpRecord::Skipped(DumpedSkip { position: position(5)?, at, attempts })
            }
            Kind::Attempt => self.attempt(key, value, position(5)?)?,
            Kind::Deposit => DumpRecord::Deposit(Box::new(unseal::<DepositRow>(key, value)?)),
            Kind::Life => {
                let digest = key.get(1..).and_then(<[u8]>::first_chunk).map(|bytes| confirmd_core::KeyDigest(*bytes));
                DumpRecord::Step(DumpedStep { digest: digest.ok_or_else(no_key)?, step: unseal(key, value)? })
            }
            Kind::Cursor => DumpRecord::Cursor(unseal(key, value)?),
            // Told in another way, or derived from the others.
            Kind::Meta
            | Kind::Progress
            | Kind::Head
            | Kind::Watch
            | Kind::EventId
            | Kind::Consumer
            | Kind::Excerpt
            | Kind::ByTime
            | Kind::ByChain
            | Kind::ByAddress
            | Kind::ByReference
            | Kind::ByTransaction
            | Kind::ByState
            | Kind::BelowMinimum => return Err(no_key()),
        })
    }

    fn attempt(&self, key: &[u8], value: &[u8], position: Position) -> Result<DumpRecord, StoreError> {
        let ever = key.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let consumer = keys::number_of(key).unwrap_or_default();
        let excerpt = self.images.get(self.reader, &keys::excerpt(consumer, position, ever))?;
        let attempt = unseal::<AttemptRow>(key, value)?.with(excerpt);
        Ok(DumpRecord::Attempt(DumpedAttempt { position, ever, attempt }))
    }
}

fn held<T: DeserializeOwned>(digest: confirmd_core::KeyDigest, key: &[u8], value: &[u8]) -> Result<DumpedHeld<T>, StoreError> {
    let HeldRow { deposit, event } = unseal::<HeldRow<T>>(key, value)?;
    Ok(DumpedHeld { digest, event, deposit })
}
