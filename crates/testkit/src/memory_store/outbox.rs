//! Events on their way to consumers.

use super::disk::{Books, Consumer};
use super::{MemoryStore, Queues, listing, no_consumer, no_event};
use async_trait::async_trait;
use confirmd_core::{
    Attempt, ConsumerName, ConsumerSpec, ConsumerStart, ConsumerStatus, DeliveredPage, Delivery, DeliveryFilter, DeliveryQueue,
    DeliveryRecord, EventRecord, KeyDigest, Outbox, Pace, Position, StoreError, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

#[async_trait]
impl Outbox for MemoryStore {
    async fn register(&self, spec: &ConsumerSpec) -> Result<(), StoreError> {
        self.commit_with(|books, queues| {
            if let Ok((queue, consumer)) = queues.both(books, &spec.name) {
                queue.release_all();
                consumer.filter = spec.filter.clone();
                return queues.save(books, &spec.name);
            }
            let end = books.next;
            let began = match spec.start {
                _ if end == Position(1) => end,
                Some(ConsumerStart::Now) => end,
                Some(ConsumerStart::Beginning) => books.events.keys().next().copied().unwrap_or(end),
                None => {
                    let name = &spec.name;
                    return Err(StoreError::Invalid(format!(
                        "the consumer {name} is new to a store that holds events: say where it starts, now or beginning"
                    )));
                }
            };
            let consumer = Consumer {
                filter: spec.filter.clone(),
                began,
                cursor: began,
                paused: None,
                open: BTreeMap::new(),
                skipped: BTreeMap::new(),
                attempts: BTreeMap::new(),
            };
            books.consumers.insert(spec.name.clone(), consumer);
            queues.0.insert(spec.name.clone(), DeliveryQueue::new(began));
            Ok(())
        })
    }

    async fn consumers(&self) -> Result<Vec<ConsumerStatus>, StoreError> {
        let work = self.work()?;
        let books = &work.image.books;
        let status = |(name, consumer): (&ConsumerName, &Consumer)| {
            work.queues.get(name).map(|queue| listing::status(books, name, consumer, queue))
        };
        Ok(books.consumers.iter().filter_map(status).collect())
    }

    async fn due(&self, consumer: &ConsumerName, now: Timestamp, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        let mut work = self.work()?;
        let super::Work { image, queues } = &mut work;
        let (queue, row) =
            Queues(queues).0.get_mut(consumer).zip(image.books.consumers.get(consumer)).ok_or_else(|| no_consumer(consumer))?;
        if row.paused.is_some() {
            return Ok(Vec::new());
        }
        let events = &image.books.events;
        let mut out = Vec::new();
        for (position, attempt) in queue.take_due(now, limit) {
            out.push(delivery(events.get(&position).ok_or_else(|| no_event(consumer, position))?, attempt));
        }
        for (position, record) in events.range(queue.read()..) {
            if out.len() >= limit || !queue.has_room() {
                return Ok(out);
            }
            let key = row.filter.takes(&record.event).then(|| digest(record));
            if queue.offer(*position, key) {
                out.push(delivery(record, 1));
            }
        }
        if out.len() < limit {
            queue.pass_to(image.books.next);
        }
        Ok(out)
    }

    async fn next_due(&self, consumer: &ConsumerName) -> Result<Option<Timestamp>, StoreError> {
        let work = self.work()?;
        let row = work.image.books.consumers.get(consumer).ok_or_else(|| no_consumer(consumer))?;
        let next = work.queues.get(consumer).and_then(DeliveryQueue::next_due);
        Ok(next.filter(|_| row.paused.is_none()))
    }

    async fn acknowledge(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        self.commit_with(|books, queues| {
            queues.both(books, consumer)?.0.acknowledge(positions);
            queues.save(books, consumer)
        })
    }

    async fn retry_later(
        &self,
        consumer: &ConsumerName,
        position: Position,
        attempt: Attempt,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.failed(consumer, position, attempt, |queue| queue.retry_later(position, at))
    }

    async fn bury(&self, consumer: &ConsumerName, position: Position, attempt: Attempt) -> Result<(), StoreError> {
        self.failed(consumer, position, attempt, |queue| queue.bury(position))
    }

    async fn release(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        let mut work = self.work()?;
        let queue = work.queues.get_mut(consumer).ok_or_else(|| no_consumer(consumer))?;
        positions.iter().for_each(|position| queue.release(*position));
        Ok(())
    }

    async fn requeue(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<u64, StoreError> {
        self.commit_with(|books, queues| {
            must_exist(books, consumer, positions)?;
            let (queue, _) = queues.both(books, consumer)?;
            let count = match positions {
                [] => {
                    let dead = queue.dead();
                    queue.requeue(&dead)
                }
                named => queue.requeue(named),
            };
            queues.save(books, consumer)?;
            Ok(count)
        })
    }

    async fn replay(&self, consumer: &ConsumerName, positions: &[Position], pace: Option<Pace>) -> Result<u64, StoreError> {
        self.commit_with(|books, queues| {
            must_exist(books, consumer, positions)?;
            let places: BTreeSet<_> = positions.iter().copied().collect();
            let named: Vec<_> = places.iter().filter_map(|position| books.events.get(position).cloned()).collect();
            let (queue, row) = queues.both(books, consumer)?;
            let (mut count, mut keys) = (0_u64, BTreeSet::new());
            for record in named {
                let position = record.position;
                if position < row.began || !row.filter.takes(&record.event) || row.skipped.contains_key(&position) {
                    continue;
                }
                let index = u64::try_from(keys.len()).unwrap_or(u64::MAX);
                keys.insert(digest(&record));
                let ever = row.attempts.get(&position).map_or(0, |attempts| u32::try_from(attempts.len()).unwrap_or(u32::MAX));
                count = count.saturating_add(queue.replay(position, digest(&record), ever, pace.map(|pace| pace.at(index))));
            }
            queues.save(books, consumer)?;
            Ok(count)
        })
    }

    async fn skip(&self, consumer: &ConsumerName, position: Position, _now: Timestamp) -> Result<(), StoreError> {
        self.commit_with(|books, queues| {
            must_exist(books, consumer, &[position])?;
            let event = books.events.get(&position).cloned();
            let (queue, row) = queues.both(books, consumer)?;
            if row.skipped.contains_key(&position) {
                return Ok(());
            }
            let attempts = queue.get(position).map_or(0, |(_, open, _)| open.attempts);
            let concerns = position >= row.began && event.is_some_and(|record| row.filter.takes(&record.event));
            if !concerns || !queue.skip(position) {
                return Err(no_event(consumer, position));
            }
            row.skipped.insert(position, attempts);
            queues.save(books, consumer)
        })
    }

    async fn list(
        &self,
        filter: &DeliveryFilter,
        after: Option<(ConsumerName, Position)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        let work = self.work()?;
        Ok(listing::list(&work.image.books, &work.queues, filter, after.as_ref(), limit))
    }

    async fn delivered(
        &self,
        consumer: &ConsumerName,
        below: Option<Position>,
        limit: usize,
    ) -> Result<DeliveredPage, StoreError> {
        let work = self.work()?;
        let books = &work.image.books;
        let (queue, row) = work.queues.get(consumer).zip(books.consumers.get(consumer)).ok_or_else(|| no_consumer(consumer))?;
        Ok(listing::delivered(books, consumer, row, queue, below, limit))
    }

    async fn attempts(&self, consumer: &ConsumerName, position: Position) -> Result<Vec<Attempt>, StoreError> {
        let work = self.work()?;
        let row = work.image.books.consumers.get(consumer).ok_or_else(|| no_consumer(consumer))?;
        Ok(row.attempts.get(&position).cloned().unwrap_or_default())
    }

    async fn pause(&self, consumer: &ConsumerName, why: Option<String>) -> Result<(), StoreError> {
        self.commit_with(|books, queues| {
            queues.both(books, consumer)?.1.paused = why;
            Ok(())
        })
    }

    async fn rename(&self, from: &ConsumerName, to: &ConsumerName) -> Result<(), StoreError> {
        self.commit_with(|books, queues| {
            if books.consumers.contains_key(to) {
                return Err(StoreError::Invalid(format!("the consumer {to} has records of its own; purge them first")));
            }
            let row = books.consumers.remove(from).ok_or_else(|| no_consumer(from))?;
            let queue = queues.0.remove(from).ok_or_else(|| no_consumer(from))?;
            books.consumers.insert(to.clone(), row);
            queues.0.insert(to.clone(), queue);
            queues.save(books, to)
        })
    }

    async fn purge(&self, consumer: &ConsumerName) -> Result<u64, StoreError> {
        self.commit_with(|books, queues| {
            let row = books.consumers.remove(consumer).ok_or_else(|| no_consumer(consumer))?;
            let queue = queues.0.remove(consumer).ok_or_else(|| no_consumer(consumer))?;
            let status = listing::status(books, consumer, &row, &queue);
            Ok(status.waiting.saturating_add(status.dead))
        })
    }
}

impl MemoryStore {
    fn failed(
        &self,
        name: &ConsumerName,
        position: Position,
        attempt: Attempt,
        fail: impl FnOnce(&mut DeliveryQueue) -> Option<u32>,
    ) -> Result<(), StoreError> {
        self.commit_with(|books, queues| {
            let (queue, row) = queues.both(books, name)?;
            if fail(queue).is_some() {
                row.attempts.entry(position).or_default().push(attempt);
            }
            queues.save(books, name)
        })
    }
}

fn must_exist(books: &Books, name: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
    let missing = positions.iter().find(|position| !books.events.contains_key(position));
    missing.map_or(Ok(()), |position| Err(no_event(name, *position)))
}

fn digest(record: &EventRecord) -> KeyDigest {
    KeyDigest::of(&record.event.chain, &record.event.transfer.key)
}

fn delivery(record: &EventRecord, attempt: u32) -> Delivery {
    Delivery::new(record.position, record.event.clone(), record.body.clone(), attempt)
}
