//! `StoreImport`: a new store made from a dump. Until it is whole its directory is marked as one where a store is being made.

use crate::damage::{guarded, refused};
use crate::deposit_index::index_keys;
use crate::disk::Disk;
use crate::keys::{self, ChainNumber, ConsumerNumber};
use crate::reader::Rows;
use crate::record::Kind;
use crate::rows::{ArchiveRow, AttemptRow, ConsumerRow, EventRow, FORMAT, HeadRow, HeldRow, Meta, OpenRow, SkippedRow};
use crate::store::{OpenOptions, SledStore};
use async_trait::async_trait;
use confirmd_core::{
    ChainId, Change, DumpRecord, DumpedArchive, DumpedAttempt, DumpedChain, DumpedConsumer, DumpedEvent, DumpedHeld, DumpedStore,
    KeyDigest, StoreError, StoreImport,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl SledStore {
    /// Begins to make a store in a directory that holds none. `options.init` means nothing here; with `options.restored` the store
    /// takes a new epoch.
    pub async fn import(path: impl Into<PathBuf>, options: OpenOptions) -> Result<Box<dyn StoreImport>, StoreError> {
        let path = path.into();
        if Self::is_initialised(&path) {
            return Err(holds_one(&path));
        }
        Ok(Box::new(SledImport { path, options, work: None }))
    }
}

fn holds_one(path: &Path) -> StoreError {
    refused(format!(
        "{} holds a state already, and a dump is imported only where there is none: move it away or name another `state.path`",
        path.display()
    ))
}

/// See the module.
#[derive(Debug)]
struct SledImport {
    path: PathBuf,
    options: OpenOptions,
    work: Option<Box<Work>>,
}

#[derive(Debug)]
struct Work {
    disk: Disk,
    chains: BTreeMap<ChainId, ChainNumber>,
    /// What records that follow are of.
    chain: ChainNumber,
    consumer: ConsumerNumber,
    /// Reorgs of the chain so far, and of the chain with most.
    reorgs: u64,
    reorgs_most: u64,
    /// The deposit of the last step, and its number.
    step: Option<(KeyDigest, u32)>,
}

#[async_trait]
impl StoreImport for SledImport {
    async fn put(&mut self, records: Vec<DumpRecord>) -> Result<(), StoreError> {
        let (work, path, options) = (self.work.take(), self.path.clone(), self.options.clone());
        let put = move || {
            guarded(&path, || {
                let mut records = records.into_iter();
                let mut work = match work {
                    Some(work) => work,
                    None => match records.next() {
                        None => return Ok(None),
                        Some(DumpRecord::Store(store)) => Box::new(Work::begin(&path, &options, &store)?),
                        Some(_) => {
                            return Err(refused(
                                "a dump begins with the store's own record; take a copy that is whole".to_owned(),
                            ));
                        }
                    },
                };
                let put = work.put(records);
                if put.is_err() {
                    work.disk.abandon();
                    return put.map(|()| None);
                }
                Ok(Some(work))
            })
        };
        self.work = blocking(put).await?;
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        let Some(work) = self.work.take() else {
            return Err(refused("a dump without a record makes no state".to_owned()));
        };
        let path = self.path.clone();
        blocking(move || guarded(&path, || work.finish())).await
    }
}

impl Drop for SledImport {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            work.disk.abandon();
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, StoreError> + Send + 'static) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(StoreError::Unknown { context: "importing was interrupted".to_owned(), source: Some(error.into()) })
    })
}

impl Work {
    fn begin(path: &Path, options: &OpenOptions, store: &DumpedStore) -> Result<Self, StoreError> {
        let instance =
            u128::from_str_radix(store.id.as_str(), 16).map_err(|error| refused(format!("the store's id: {error}")))?;
        let epoch = match options.restored {
            true => store.epoch.restored(options.clock.now()),
            false => store.epoch,
        };
        let meta = Meta { format: FORMAT, epoch, instance: instance.to_be_bytes(), created_at: store.created_at };
        let mut disk = Disk::begin(path, options, meta)?.ok_or_else(|| holds_one(path))?;
        disk.progress.next_position = store.next_position;
        let (chains, chain, consumer) = (BTreeMap::new(), 0, 0);
        Ok(Self { disk, chains, chain, consumer, reorgs: 0, reorgs_most: 0, step: None })
    }

    /// Writes a part; nobody sees it yet.
    fn put(&mut self, records: impl Iterator<Item = DumpRecord>) -> Result<(), StoreError> {
        let (mut rows, mut watched) = (Rows::default(), Vec::new());
        for record in records {
            if matches!(record, DumpRecord::Chain(_)) {
                self.watched(&mut watched, &mut rows)?;
            }
            self.record(record, &mut rows, &mut watched)?;
        }
        self.watched(&mut watched, &mut rows)?;
        self.disk.apply(rows)
    }

    fn watched(&mut self, watched: &mut Vec<Change>, rows: &mut Rows) -> Result<(), StoreError> {
        self.disk.watched.take(self.chain, &std::mem::take(watched), rows).map(drop)
    }

    fn record(&mut self, record: DumpRecord, rows: &mut Rows, watched: &mut Vec<Change>) -> Result<(), StoreError> {
        let (chain, consumer) = (self.chain, self.consumer);
        match record {
            DumpRecord::Store(_) => return Err(refused("the dump holds two stores; take a copy that is whole".to_owned())),
            DumpRecord::Chain(head) => self.chain(head, rows)?,
            DumpRecord::Block(block) => rows.put(keys::trail(chain, block.height), &block.hash)?,
            DumpRecord::Asset(listed) => rows.put(keys::asset(chain, &listed.asset.id), &listed)?,
            DumpRecord::Watched(entry) => watched.push(Change::WatchPut(entry)),
            DumpRecord::Pending(row) => held(Kind::Pending, chain, row, rows)?,
            DumpRecord::Reported(row) => held(Kind::Reported, chain, row, rows)?,
            DumpRecord::Orphaned(row) => held(Kind::Orphaned, chain, row, rows)?,
            DumpRecord::Rescan(rescan) => rows.put(keys::rescan(chain, rescan.id), &rescan)?,
            DumpRecord::Reorg(reorg) => {
                // Commits that come have higher numbers.
                rows.put(keys::reorg(chain, self.reorgs), &reorg)?;
                self.reorgs = self.reorgs.saturating_add(1);
                self.reorgs_most = self.reorgs_most.max(self.reorgs);
            }
            DumpRecord::Archived(DumpedArchive { digest, chain, archived, event }) => {
                let number = self.chains.get(&chain).copied();
                let chain = number.ok_or_else(|| refused(format!("the dump has no record of the chain {chain}")))?;
                rows.put(keys::archive(&digest), &ArchiveRow { chain, archived, event })?;
            }
            DumpRecord::Event(event) => {
                let DumpedEvent { position, event, body } = *event;
                rows.put(keys::event_id(&event.id), &position)?;
                rows.put(keys::event(position), &EventRow { event, body: body.into_bytes().into() })?;
            }
            DumpRecord::Consumer(row) => self.consumer(row, rows)?,
            DumpRecord::Open(open) => {
                rows.put(keys::delivery(Kind::Open, consumer, open.position), &OpenRow::from(open.delivery()))?;
            }
            DumpRecord::Skipped(skip) => {
                let row = SkippedRow { at: skip.at, attempts: skip.attempts };
                rows.put(keys::delivery(Kind::Skipped, consumer, skip.position), &row)?;
            }
            DumpRecord::Attempt(DumpedAttempt { position, ever, attempt }) => {
                rows.put(keys::attempt(consumer, position, ever), &AttemptRow::from(&attempt))?;
                if let Some(excerpt) = &attempt.excerpt {
                    rows.put(keys::excerpt(consumer, position, ever), excerpt)?;
                }
            }
            DumpRecord::Deposit(deposit) => {
                let digest = KeyDigest::of(&deposit.chain, &deposit.key);
                for entry in index_keys(&digest, &deposit) {
                    rows.put(entry, &())?;
                }
                rows.put(keys::deposit(&digest), &*deposit)?;
            }
            DumpRecord::Step(step) => {
                let number = match self.step {
                    Some((digest, number)) if digest == step.digest => number.saturating_add(1),
                    _ => 0,
                };
                self.step = Some((step.digest, number));
                rows.put(keys::life_step(&step.digest, 0, number), &step.step)?;
            }
            DumpRecord::Cursor(cursor) => rows.put(keys::cursor(&cursor.name), &cursor)?,
        }
        Ok(())
    }

    fn chain(&mut self, head: DumpedChain, rows: &mut Rows) -> Result<(), StoreError> {
        self.chain = self.disk.progress.next_chain;
        self.disk.progress.next_chain = self.chain.saturating_add(1);
        self.reorgs = 0;
        self.chains.insert(head.id.clone(), self.chain);
        let halt = head.halt.as_ref().map(serde_json::to_string).transpose();
        let row = HeadRow {
            chain: head.id,
            version: head.version.0,
            name: head.name,
            floor: head.floor,
            linked_from: head.linked_from,
            marks: head.marks.into_iter().collect(),
            halt: halt.map_err(|error| crate::damage::refused_by("writing down a halt failed", error))?,
        };
        rows.put(keys::head(self.chain), &row)
    }

    fn consumer(&mut self, row: DumpedConsumer, rows: &mut Rows) -> Result<(), StoreError> {
        self.consumer = self.disk.progress.next_consumer;
        self.disk.progress.next_consumer = self.consumer.saturating_add(1);
        let DumpedConsumer { name, filter, began, cursor, paused } = row;
        rows.put(keys::consumer(self.consumer), &ConsumerRow { name, filter, began, cursor, paused })
    }

    fn finish(mut self) -> Result<(), StoreError> {
        self.disk.progress.commits = self.disk.progress.commits.max(self.reorgs_most);
        self.disk.apply(Rows::default())?;
        self.disk.complete()
    }
}

fn held<T: Serialize>(kind: Kind, chain: ChainNumber, row: DumpedHeld<T>, rows: &mut Rows) -> Result<(), StoreError> {
    let DumpedHeld { digest, event, deposit } = row;
    rows.put(keys::held(kind, chain, &digest), &HeldRow { deposit, event })
}
