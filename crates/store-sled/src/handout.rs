//! Handing deliveries out and taking their outcomes back.

use crate::keys::{self, ConsumerNumber};
use crate::listing::last_attempt;
use crate::reader::Rows;
use crate::record::Kind;
use crate::rows::{AttemptRow, SkippedRow};
use crate::writer::{Core, Lost};
use confirmd_core::{Attempt, ConsumerName, Delivery, Pace, Position, StoreError, Timestamp};
use std::collections::BTreeSet;
use std::sync::PoisonError;

/// Fresh events looked at in one turn of the writer; others get their turn in between.
const SCAN_MAX: usize = 1_000;
/// Events passed over, not for this consumer, before that is written down.
const UNSAVED_MAX: u64 = 10_000;
/// Failed attempts kept per delivery; older ones go.
const ATTEMPTS_KEPT: u32 = 50;

/// Deliveries on their way to whoever asked. If nobody receives them, they go back.
#[derive(Debug)]
pub(crate) struct Handout {
    lost: Lost,
    consumer: ConsumerName,
    deliveries: Vec<Delivery>,
    /// Whether there may be more behind what was looked at.
    pub(crate) more: bool,
}

impl Handout {
    pub(crate) fn take(mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.deliveries)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }
}

impl Drop for Handout {
    fn drop(&mut self) {
        if !self.deliveries.is_empty() {
            let back = self.deliveries.drain(..).map(|delivery| (self.consumer.clone(), delivery.position));
            self.lost.lock().unwrap_or_else(PoisonError::into_inner).extend(back);
        }
    }
}

impl Core {
    /// What may be tried now.
    pub(crate) fn due(&mut self, name: &ConsumerName, now: Timestamp, limit: usize) -> Result<Handout, StoreError> {
        self.take_back_lost();
        let mut out = Handout { lost: self.lost(), consumer: name.clone(), deliveries: Vec::new(), more: false };
        let end = self.disk.progress.next_position;
        let reader = &self.disk.reader;
        let consumer = self.consumers.get_mut(name)?;
        if consumer.row.paused.is_some() {
            return Ok(out);
        }
        for (position, attempt) in consumer.queue.take_due(now, limit) {
            out.deliveries.push(reader.needed_event(position)?.delivery(position, attempt));
        }
        let mut looked_at = 0;
        let mut events = reader.events(consumer.queue.read(), end);
        while out.deliveries.len() < limit && consumer.queue.has_room() {
            if looked_at == SCAN_MAX {
                out.more = true;
                break;
            }
            let Some(event) = events.next() else {
                consumer.queue.pass_to(end);
                break;
            };
            let (position, event) = event?;
            let key = consumer.row.filter.takes(&event.event).then(|| event.digest());
            if consumer.queue.offer(position, key) {
                out.deliveries.push(event.delivery(position, 1));
            }
            looked_at += 1;
        }
        drop(events);
        if consumer.queue.unsaved() >= UNSAVED_MAX && out.deliveries.is_empty() {
            self.save_consumer(name, Rows::default())?;
        }
        Ok(out)
    }

    /// These were delivered.
    pub(crate) fn acknowledge(&mut self, name: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        self.consumers.get_mut(name)?.queue.acknowledge(positions);
        self.save_consumer(name, Rows::default())
    }

    /// An attempt failed; with `at` it is tried again, without it is a dead letter.
    pub(crate) fn failed(
        &mut self,
        name: &ConsumerName,
        position: Position,
        attempt: &Attempt,
        at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let consumer = self.consumers.get_mut(name)?;
        let ever = match at {
            Some(at) => consumer.queue.retry_later(position, at),
            None => consumer.queue.bury(position),
        };
        let mut rows = Rows::default();
        if let Some(ever) = ever {
            put_attempt(consumer.number, position, ever, attempt, &mut rows)?;
        }
        self.save_consumer(name, rows)
    }

    /// Queues again. An empty list means every dead letter.
    pub(crate) fn requeue(&mut self, name: &ConsumerName, positions: &[Position]) -> Result<u64, StoreError> {
        self.must_exist(name, positions)?;
        let consumer = self.consumers.get_mut(name)?;
        let count = if positions.is_empty() {
            let dead = consumer.queue.dead();
            consumer.queue.requeue(&dead)
        } else {
            consumer.queue.requeue(positions)
        };
        self.save_consumer(name, Rows::default())?;
        Ok(count)
    }

    /// Queues again, delivered ones too.
    pub(crate) fn replay(&mut self, name: &ConsumerName, positions: &[Position], pace: Option<Pace>) -> Result<u64, StoreError> {
        self.must_exist(name, positions)?;
        let reader = self.disk.reader.clone();
        let consumer = self.consumers.get_mut(name)?;
        let (mut count, mut keys) = (0_u64, BTreeSet::new());
        for position in positions.iter().copied().collect::<BTreeSet<_>>() {
            let event = reader.needed_event(position)?;
            let concerns = position >= consumer.row.began && consumer.row.filter.takes(&event.event);
            if !concerns || reader.has(&keys::delivery(Kind::Skipped, consumer.number, position))? {
                continue;
            }
            let digest = event.digest();
            let at = pace.map(|pace| pace.at(u64::try_from(keys.len()).unwrap_or(u64::MAX)));
            keys.insert(digest);
            let ever = last_attempt(&reader, consumer, position)?.map_or(0, |(ever, _)| ever);
            count = count.saturating_add(consumer.queue.replay(position, digest, ever, at));
        }
        self.save_consumer(name, Rows::default())?;
        Ok(count)
    }

    /// Gives one event up, on record.
    pub(crate) fn skip(&mut self, name: &ConsumerName, position: Position, now: Timestamp) -> Result<(), StoreError> {
        self.must_exist(name, &[position])?;
        let reader = &self.disk.reader;
        let consumer = self.consumers.get_mut(name)?;
        let key = keys::delivery(Kind::Skipped, consumer.number, position);
        if reader.has(&key)? {
            return Ok(());
        }
        let attempts = consumer.queue.get(position).map_or(0, |(_, open, _)| open.attempts);
        let event = reader.needed_event(position)?;
        let concerns = position >= consumer.row.began && consumer.row.filter.takes(&event.event);
        if !concerns || !consumer.queue.skip(position) {
            return Err(StoreError::Invalid(format!(
                "the event at position {position} is not waiting for the consumer {name}: it was delivered, or never meant for it"
            )));
        }
        let mut rows = Rows::default();
        rows.put(key, &SkippedRow { at: now, attempts })?;
        self.save_consumer(name, rows)
    }

    fn must_exist(&self, name: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        let consumer = self.consumers.get(name)?;
        for position in positions {
            let known = consumer.queue.get(*position).is_some() || self.disk.reader.has(&keys::event(*position))?;
            if !known || *position >= self.disk.progress.next_position {
                return Err(StoreError::Invalid(format!(
                    "there is no event at position {position} for the consumer {name}; `confirmd deliveries list` shows those there are"
                )));
            }
        }
        Ok(())
    }
}

fn put_attempt(
    consumer: ConsumerNumber,
    position: Position,
    number: u32,
    attempt: &Attempt,
    rows: &mut Rows,
) -> Result<(), StoreError> {
    rows.put(keys::attempt(consumer, position, number), &AttemptRow::from(attempt))?;
    if let Some(excerpt) = &attempt.excerpt {
        rows.put(keys::excerpt(consumer, position, number), excerpt)?;
    }
    if let Some(old) = number.checked_sub(ATTEMPTS_KEPT) {
        rows.remove(keys::attempt(consumer, position, old));
        rows.remove(keys::excerpt(consumer, position, old));
    }
    Ok(())
}
