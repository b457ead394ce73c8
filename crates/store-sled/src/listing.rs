//! Deliveries as an operator sees them.

use crate::consumers::Consumer;
use crate::keys;
use crate::reader::Reader;
use crate::record::Kind;
use crate::rows::{AttemptRow, EventRow, SkippedRow};
use crate::writer::Core;
use confirmd_core::{
    Attempt, ConsumerName, DELIVERED_LOOK_MAX, DeliveredPage, DeliveryFilter, DeliveryRecord, DeliveryState, OpenState, Position,
    StoreError,
};
use std::collections::BTreeSet;

/// Records in one page, whatever was asked for.
const PAGE_MAX: usize = 1_000;
/// Unread events looked at for one page.
const UNREAD_SCAN_MAX: usize = 10_000;

impl Core {
    /// Undelivered and skipped deliveries in outbox order, by consumer.
    pub(crate) fn list(
        &self,
        filter: &DeliveryFilter,
        after: Option<&(ConsumerName, Position)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        let limit = limit.min(PAGE_MAX);
        let mut records = Vec::new();
        for consumer in self.consumers.iter() {
            let name = &consumer.row.name;
            let from = match after {
                Some((last, _)) if name < last => continue,
                Some((last, position)) if name == last => position.next(),
                _ => Position(0),
            };
            if filter.consumer.as_ref().is_some_and(|wanted| wanted != name) || records.len() >= limit {
                continue;
            }
            let positions = match &filter.event {
                Some(id) => self.disk.reader.event_position(id)?.into_iter().filter(|position| *position >= from).collect(),
                None => self.candidates(consumer, filter.state, from, limit - records.len())?,
            };
            for position in positions {
                let record = record(&self.disk.reader, consumer, position)?;
                records.extend(record.filter(|record| filter.state.is_none_or(|state| state == record.state)));
            }
        }
        Ok(records)
    }

    /// What a consumer was delivered, newest first, below a place.
    pub(crate) fn delivered(
        &self,
        name: &ConsumerName,
        below: Option<Position>,
        limit: usize,
    ) -> Result<DeliveredPage, StoreError> {
        let consumer = self.consumers.get(name)?;
        let reader = &self.disk.reader;
        let end = below.map_or(consumer.queue.read(), |below| below.min(consumer.queue.read()));
        let (mut page, mut looked_at) = (DeliveredPage::default(), 0);
        for row in reader.events(consumer.row.began, end).rev() {
            let (position, event) = row?;
            looked_at += 1;
            if consumer.row.filter.takes(&event.event) && consumer.queue.get(position).is_none() {
                let record = shown(reader, consumer, position, event)?;
                page.records.extend(record.filter(|record| record.state == DeliveryState::Delivered));
            }
            if page.records.len() >= limit.clamp(1, PAGE_MAX) || looked_at == DELIVERED_LOOK_MAX {
                page.below = Some(position);
                break;
            }
        }
        Ok(page)
    }

    /// The failed attempts of one delivery, oldest first.
    pub(crate) fn attempts(&self, name: &ConsumerName, position: Position) -> Result<Vec<Attempt>, StoreError> {
        let consumer = self.consumers.get(name)?;
        let prefix = keys::delivery(Kind::Attempt, consumer.number, position);
        let reader = &self.disk.reader;
        let attempt = |row: Result<(sled::IVec, AttemptRow), StoreError>| {
            let (key, attempt) = row?;
            Ok(attempt.with(excerpt(reader, consumer, position, ever_of(&key))?))
        };
        reader.scan::<AttemptRow>(&prefix).map(attempt).collect()
    }

    fn candidates(
        &self,
        consumer: &Consumer,
        state: Option<DeliveryState>,
        from: Position,
        limit: usize,
    ) -> Result<BTreeSet<Position>, StoreError> {
        let (reader, queue) = (&self.disk.reader, &consumer.queue);
        let wanted = |which: DeliveryState| state.is_none_or(|state| state == which);
        let mut found: BTreeSet<_> = queue
            .positions_from(from)
            .filter(|position| queue.get(*position).is_some_and(|(state, ..)| wanted(state)))
            .take(limit)
            .collect();
        if wanted(DeliveryState::Skipped) {
            let range = |position| keys::delivery(Kind::Skipped, consumer.number, position);
            for row in reader.range::<SkippedRow>(&range(from), &range(Position(u64::MAX))).take(limit) {
                found.extend(keys::position_at(&row?.0, 5));
            }
        }
        if wanted(DeliveryState::Queued) && found.len() < limit {
            let mut left = limit;
            for row in reader.events(queue.read().max(from), self.disk.progress.next_position).take(UNREAD_SCAN_MAX) {
                let (position, event) = row?;
                if consumer.row.filter.takes(&event.event) {
                    found.insert(position);
                    left -= 1;
                }
                if left == 0 {
                    break;
                }
            }
        }
        Ok(found.into_iter().take(limit).collect())
    }
}

/// One delivery; `None` if the event is not this consumer's.
fn record(reader: &Reader, consumer: &Consumer, position: Position) -> Result<Option<DeliveryRecord>, StoreError> {
    let Some(row) = reader.event(position)? else { return Ok(None) };
    shown(reader, consumer, position, row)
}

/// The delivery of an event; `None` if it is not this consumer's.
fn shown(reader: &Reader, consumer: &Consumer, position: Position, row: EventRow) -> Result<Option<DeliveryRecord>, StoreError> {
    let open = consumer.queue.get(position);
    let skipped: Option<SkippedRow> = reader.get(&keys::delivery(Kind::Skipped, consumer.number, position))?;
    let last_attempt = match last_attempt(reader, consumer, position)? {
        Some((ever, attempt)) => Some(attempt.with(excerpt(reader, consumer, position, ever)?)),
        None => None,
    };
    let (state, attempts, next, blocked_by) = match (open, skipped) {
        (Some((state, open, blocked_by)), _) => {
            let next = match open.state {
                OpenState::Retrying { at } if state == DeliveryState::Retrying => Some(at),
                _ => None,
            };
            (state, open.attempts, next, blocked_by)
        }
        (None, Some(skipped)) => (DeliveryState::Skipped, skipped.attempts, None, None),
        (None, None) if position < consumer.row.began || !consumer.row.filter.takes(&row.event) => return Ok(None),
        (None, None) if position >= consumer.queue.read() => (DeliveryState::Queued, 0, None, None),
        (None, None) => (DeliveryState::Delivered, Attempt::until_delivered(last_attempt.as_ref()), None, None),
    };
    let blocked_by = blocked_by.map(|position| reader.needed_event(position)).transpose()?.map(|row| row.event.id);
    let record = DeliveryRecord::new(consumer.row.name.clone(), position, row.event, state);
    Ok(Some(DeliveryRecord { attempts, last_attempt, next_attempt_at: next, blocked_by, ..record }))
}

/// The last failed attempt, with how many there were ever.
pub(crate) fn last_attempt(
    reader: &Reader,
    consumer: &Consumer,
    position: Position,
) -> Result<Option<(u32, AttemptRow)>, StoreError> {
    let from = keys::attempt(consumer.number, position, 0);
    let to = keys::attempt(consumer.number, position, u32::MAX);
    let last = reader.range::<AttemptRow>(&from, &to).next_back().transpose()?;
    Ok(last.map(|(key, attempt)| (ever_of(&key), attempt)))
}

/// Which attempt ever a record is of.
fn ever_of(key: &[u8]) -> u32 {
    key.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn excerpt(reader: &Reader, consumer: &Consumer, position: Position, ever: u32) -> Result<Option<String>, StoreError> {
    reader.get(&keys::excerpt(consumer.number, position, ever))
}
