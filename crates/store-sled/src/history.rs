//! `History`: the read model for people.

use crate::deposit_index::{index_for, matches};
use crate::keys;
use crate::prune::{Pruning, Stage};
use crate::reader::{Reader, Rows};
use crate::record::Kind;
use crate::rows::DepositRow;
use crate::store::SledStore;
use crate::writer::Core;
use async_trait::async_trait;
use confirmd_core::{
    CURSORS_MAX, ChainId, CursorName, DepositFilter, DepositKey, DepositRecord, EventId, EventRecord, History, KeyDigest,
    LifeStep, Position, PullCursor, ReorgRecord, StoreError, Timestamp,
};

/// Records in one page, whatever was asked for.
const PAGE_MAX: usize = 1_000;

#[async_trait]
impl History for SledStore {
    async fn deposits(
        &self,
        filter: &DepositFilter,
        after: Option<&DepositRecord>,
        limit: usize,
    ) -> Result<Vec<DepositRecord>, StoreError> {
        let (filter, after) = (filter.clone(), after.cloned());
        self.read(move |reader| deposits(reader, &filter, after.as_ref(), limit.min(PAGE_MAX))).await
    }

    async fn event(&self, id: &EventId) -> Result<Option<EventRecord>, StoreError> {
        let id = id.clone();
        self.read(move |reader| reader.event_by_id(&id)).await
    }

    async fn events(&self, after: Position, limit: usize) -> Result<Vec<EventRecord>, StoreError> {
        // Only what is synced may leave: the writer says how far that is.
        let end = self.writer.run(|core| Ok(core.disk.progress.next_position)).await?;
        self.read(move |reader| {
            let events = reader.events(after.next(), end).take(limit.min(PAGE_MAX));
            events.map(|row| row.map(|(position, event)| event.record(position))).collect()
        })
        .await
    }

    async fn life(&self, chain: &ChainId, key: &DepositKey) -> Result<Vec<LifeStep>, StoreError> {
        let prefix = keys::life(&KeyDigest::of(chain, key));
        self.read(move |reader| reader.scan::<LifeStep>(&prefix).take(PAGE_MAX).map(|row| row.map(|(_, step)| step)).collect())
            .await
    }

    async fn reorgs(&self, chain: &ChainId, limit: usize) -> Result<Vec<ReorgRecord>, StoreError> {
        let chain = chain.clone();
        let number = self.writer.run(move |core| Ok(core.heads.get(&chain).map(|head| head.number))).await?;
        let Some(number) = number else { return Ok(Vec::new()) };
        self.read(move |reader| {
            let (from, to) = (keys::reorg(number, 0), keys::reorg(number, u64::MAX));
            let newest_first = reader.range::<ReorgRecord>(&from, &to).rev();
            newest_first.take(limit.min(PAGE_MAX)).map(|row| row.map(|(_, reorg)| reorg)).collect()
        })
        .await
    }

    async fn cursors(&self) -> Result<Vec<PullCursor>, StoreError> {
        self.writer.run(|core| core.cursors()).await
    }

    async fn put_cursor(&self, cursor: &PullCursor) -> Result<(), StoreError> {
        let cursor = cursor.clone();
        self.writer.run(move |core| core.put_cursor(&cursor)).await
    }

    async fn remove_cursor(&self, name: &CursorName) -> Result<bool, StoreError> {
        let key = keys::cursor(name);
        self.writer
            .run(move |core| {
                let known = core.disk.reader.has(&key)?;
                if known {
                    let mut rows = Rows::default();
                    rows.remove(key);
                    core.write(rows)?;
                }
                Ok(known)
            })
            .await
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mut pruning = Pruning::new(before);
        while pruning.stage != Stage::Done {
            pruning = self.writer.run(move |core| core.prune(pruning)).await?;
        }
        Ok(pruning.events)
    }
}

impl Core {
    pub(crate) fn cursors(&self) -> Result<Vec<PullCursor>, StoreError> {
        self.disk.reader.scan(&keys::all(Kind::Cursor)).map(|row| row.map(|(_, cursor)| cursor)).collect()
    }

    fn put_cursor(&mut self, cursor: &PullCursor) -> Result<(), StoreError> {
        let known = self.cursors()?;
        if known.len() >= CURSORS_MAX && !known.iter().any(|one| one.name == cursor.name) {
            return Err(StoreError::Invalid(format!("there are {CURSORS_MAX} cursors already; remove one first")));
        }
        let mut rows = Rows::default();
        rows.put(keys::cursor(&cursor.name), cursor)?;
        self.write(rows)
    }
}

/// Newest first by the time a deposit was first seen.
fn deposits(
    reader: &Reader,
    filter: &DepositFilter,
    after: Option<&DepositRecord>,
    limit: usize,
) -> Result<Vec<DepositRecord>, StoreError> {
    let (kind, value) = index_for(filter);
    let to = match after {
        Some(last) => keys::index_entry(kind, &value, last.seen_at, &KeyDigest::of(&last.chain, &last.key)),
        None => keys::index_entry(kind, &value, Timestamp(u64::MAX), &KeyDigest([0xff; 16])),
    };
    let first = KeyDigest([0; 16]);
    let bound = filter.seen_before.map(|before| keys::index_entry(kind, &value, before, &first));
    let to = bound.filter(|bound| bound.as_ref() < to.as_ref()).unwrap_or(to);
    let from = match filter.seen_from {
        Some(from) => keys::index_entry(kind, &value, from, &first),
        None => keys::index(kind, &value),
    };
    let mut found = Vec::new();
    for entry in reader.range::<()>(&from, &to).rev() {
        if found.len() >= limit {
            break;
        }
        let Some(digest) = keys::digest_of(&entry?.0) else { continue };
        // A commit may have moved it between the two reads.
        let Some(row) = reader.get::<DepositRow>(&keys::deposit(&digest))? else { continue };
        found.extend(Some(row).filter(|row| matches(filter, row)));
    }
    Ok(found)
}
