//! Watcher state.

use super::disk::{Books, ChainBooks};
use super::{MemoryStore, deposits, lives};
use async_trait::async_trait;
use confirmd_core::{
    Archived, ChainId, ChainState, Change, ChangeSet, CommitReceipt, DepositKey, Epoch, EventRecord, Height, KeyDigest, Position,
    Rescan, SettledDeposit, StateStore, StateVersion, StoreError, StoreId, WatchEntry,
};
use std::collections::BTreeMap;

#[async_trait]
impl StateStore for MemoryStore {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn identity(&self) -> StoreId {
        StoreId::new(format!("{:032x}", self.epoch.0)).expect("invariant: 32 hex digits")
    }

    async fn chains(&self) -> Result<Vec<ChainId>, StoreError> {
        Ok(self.work()?.image.books.chains.keys().cloned().collect())
    }

    async fn load(&self, chain: &ChainId) -> Result<Option<ChainState>, StoreError> {
        Ok(self.work()?.image.books.chains.get(chain).map(|chain| chain.state.clone()))
    }

    async fn settled_among(&self, chain: &ChainId, keys: &[DepositKey]) -> Result<BTreeMap<DepositKey, Archived>, StoreError> {
        let work = self.work()?;
        let Some(chain) = work.image.books.chains.get(chain) else { return Ok(BTreeMap::new()) };
        let archived = |key: &DepositKey| Some((key.clone(), chain.archived.get(key)?.0));
        Ok(keys.iter().filter_map(archived).collect())
    }

    async fn settled_above(&self, id: &ChainId, height: Height) -> Result<Vec<SettledDeposit>, StoreError> {
        let work = self.work()?;
        let books = &work.image.books;
        let Some(chain) = books.chains.get(id) else { return Ok(Vec::new()) };
        let above = chain.archived.iter().filter(|(_, (archived, _))| archived.height > height && archived.sequence.stands());
        let settled = above.map(|(key, (archived, event))| SettledDeposit {
            digest: KeyDigest::of(id, key),
            archived: *archived,
            event: event.and_then(|position| books.events.get(&position).cloned()),
        });
        Ok(settled.collect())
    }

    async fn watched(&self, chain: &ChainId, after: Option<&[u8]>, limit: usize) -> Result<Vec<WatchEntry>, StoreError> {
        let work = self.work()?;
        let Some(chain) = work.image.books.chains.get(chain) else { return Ok(Vec::new()) };
        let mut entries: Vec<_> = chain.state.watch.addresses().collect();
        entries.sort_by(|a, b| a.address.cmp(&b.address));
        let behind = entries.into_iter().filter(|entry| after.is_none_or(|after| entry.address.bytes() > after));
        Ok(behind.take(limit).collect())
    }

    async fn rescans(&self, chain: &ChainId) -> Result<Vec<Rescan>, StoreError> {
        let work = self.work()?;
        let chain = work.image.books.chains.get(chain);
        Ok(chain.map(|chain| chain.state.rescans.values().cloned().collect()).unwrap_or_default())
    }

    async fn commit(&self, changes: ChangeSet) -> Result<CommitReceipt, StoreError> {
        self.commit_with(|books, _| commit(books, &changes))
    }
}

fn commit(books: &mut Books, set: &ChangeSet) -> Result<CommitReceipt, StoreError> {
    let found = books.chains.get(&set.chain).map_or(StateVersion(0), |chain| chain.state.version);
    if found != set.base {
        return Err(StoreError::Conflict { chain: set.chain.clone(), expected: set.base, found });
    }
    let first = books.next;
    for (event, body) in &set.events {
        let position = books.next;
        if books.positions.insert(event.id.clone(), position).is_some() {
            return Err(StoreError::Invalid(format!("the event {} was decided before; nothing was written", event.id)));
        }
        books.events.insert(position, EventRecord { position, event: event.clone(), body: body.clone() });
        books.next = position.next();
    }
    books.commits += 1;
    let before = books.chains.get(&set.chain).map(|chain| chain.state.clone()).unwrap_or_default();
    lives::keep(books, set, &before);
    deposits::keep(books, set, first);
    let chain = books.chains.entry(set.chain.clone()).or_default();
    for change in &set.changes {
        if let Change::Archived(key, archived) = change {
            let event = last_event(&books.events, &set.chain, key).or(chain.archived.get(key).and_then(|(_, event)| *event));
            chain.archived.insert(key.clone(), (*archived, event));
        }
    }
    chain.state.apply(set);
    let first_event = (!set.events.is_empty()).then_some(first);
    Ok(CommitReceipt { version: chain.state.version, first_event })
}

/// Where the newest decision of a key is, as long as history holds it.
fn last_event(events: &BTreeMap<Position, EventRecord>, chain: &ChainId, key: &DepositKey) -> Option<Position> {
    let newest = events
        .values()
        .rev()
        .find(|record| record.event.chain == *chain && record.event.transfer.key == *key && record.event.decides());
    newest.map(|record| record.position)
}

impl ChainBooks {
    /// Whether a key is pending, reported or orphaned right now.
    pub(super) fn holds(&self, key: &DepositKey) -> bool {
        let state = &self.state;
        state.pending.get(key).is_some() || state.reported.get(key).is_some() || state.orphaned.get(key).is_some()
    }
}
