//! The read model for people, and its retention.

use super::MemoryStore;
use async_trait::async_trait;
use confirmd_core::{
    CURSORS_MAX, ChainId, CursorName, DepositFilter, DepositKey, DepositRecord, EventId, EventRecord, History, LifeStep,
    Position, PullCursor, ReorgRecord, StoreError, Timestamp,
};
use std::cmp::Reverse;

#[async_trait]
impl History for MemoryStore {
    async fn deposits(
        &self,
        filter: &DepositFilter,
        after: Option<&DepositRecord>,
        limit: usize,
    ) -> Result<Vec<DepositRecord>, StoreError> {
        let work = self.work()?;
        let place = |record: &DepositRecord| (Reverse(record.seen_at), record.chain.clone(), record.key.clone());
        let mut records: Vec<_> = work.image.books.deposits.values().filter(|record| matches(filter, record)).collect();
        records.sort_by_key(|record| place(record));
        let behind = records.into_iter().filter(|record| after.is_none_or(|after| place(record) > place(after)));
        Ok(behind.take(limit).cloned().collect())
    }

    async fn event(&self, id: &EventId) -> Result<Option<EventRecord>, StoreError> {
        let work = self.work()?;
        let books = &work.image.books;
        Ok(books.positions.get(id).and_then(|position| books.events.get(position)).cloned())
    }

    async fn events(&self, after: Position, limit: usize) -> Result<Vec<EventRecord>, StoreError> {
        let work = self.work()?;
        Ok(work.image.books.events.range(after.next()..).take(limit.min(1_000)).map(|(_, record)| record.clone()).collect())
    }

    async fn life(&self, chain: &ChainId, key: &DepositKey) -> Result<Vec<LifeStep>, StoreError> {
        Ok(self.work()?.image.books.lives.get(&(chain.clone(), key.clone())).cloned().unwrap_or_default())
    }

    async fn reorgs(&self, chain: &ChainId, limit: usize) -> Result<Vec<ReorgRecord>, StoreError> {
        let work = self.work()?;
        let reorgs = work.image.books.reorgs.iter().rev().filter(|(of, _)| of == chain);
        Ok(reorgs.take(limit).map(|(_, reorg)| reorg.clone()).collect())
    }

    async fn cursors(&self) -> Result<Vec<PullCursor>, StoreError> {
        Ok(self.work()?.image.books.cursors.values().cloned().collect())
    }

    async fn put_cursor(&self, cursor: &PullCursor) -> Result<(), StoreError> {
        self.commit_with(|books, _| {
            if books.cursors.len() >= CURSORS_MAX && !books.cursors.contains_key(&cursor.name) {
                return Err(StoreError::Invalid(format!("there are {CURSORS_MAX} cursors already; remove one first")));
            }
            books.cursors.insert(cursor.name.clone(), cursor.clone());
            Ok(())
        })
    }

    async fn remove_cursor(&self, name: &CursorName) -> Result<bool, StoreError> {
        self.commit_with(|books, _| Ok(books.cursors.remove(name).is_some()))
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.commit_with(|books, queues| {
            let idle = |cursor: &&mut PullCursor| cursor.used_at < before;
            books.cursors.values_mut().filter(idle).for_each(|cursor| cursor.expired = true);
            let held_from = books.cursors.values().filter(|cursor| !cursor.expired).map(|cursor| cursor.after.next()).min();
            let needed = |position: Position| {
                queues.0.values().any(|queue| queue.needs(position)) || held_from.is_some_and(|from| position >= from)
            };
            let live = |record: &EventRecord| {
                books.chains.get(&record.event.chain).is_some_and(|chain| chain.holds(&record.event.transfer.key))
            };
            let ended = |record: &&EventRecord| record.event.decided_at < before && !needed(record.position) && !live(record);
            let gone: Vec<_> =
                books.events.values().filter(ended).map(|record| (record.position, record.event.id.clone())).collect();
            let over = |record: &DepositRecord| {
                let live = books.chains.get(&record.chain).is_some_and(|chain| chain.holds(&record.key));
                record.state.has_ended() && !live && record.changed_at < before && !record.event.is_some_and(needed)
            };
            let kept = books.deposits.clone().into_iter().filter(|(_, record)| !over(record)).collect();
            books.deposits = kept;
            books.lives.retain(|place, _| books.deposits.contains_key(place));
            books.reorgs.retain(|(_, reorg)| reorg.at >= before);
            for (position, id) in &gone {
                books.events.remove(position);
                books.positions.remove(id);
                for consumer in books.consumers.values_mut() {
                    consumer.skipped.remove(position);
                    consumer.attempts.remove(position);
                }
            }
            Ok(u64::try_from(gone.len()).unwrap_or(u64::MAX))
        })
    }
}

fn matches(filter: &DepositFilter, record: &DepositRecord) -> bool {
    filter.chain.as_ref().is_none_or(|chain| *chain == record.chain)
        && filter.address.as_deref().is_none_or(|address| address == record.address.as_str())
        && filter.reference.as_deref().is_none_or(|reference| Some(reference) == record.reference.as_deref())
        && filter.state.is_none_or(|state| state == record.state)
        && filter.tx_id.as_deref().is_none_or(|tx_id| tx_id == record.key.tx_id.as_str())
        && filter.output_index.is_none_or(|index| index == record.key.output_index)
        && filter.asset.as_deref().is_none_or(|asset| asset == record.asset.symbol || asset == record.asset.id.as_str())
        && filter.seen_from.is_none_or(|from| record.seen_at >= from)
        && filter.seen_before.is_none_or(|before| record.seen_at < before)
}
