//! Consumers and deliveries as an operator sees them.

use super::disk::{Books, Consumer};
use confirmd_core::{
    Attempt, ConsumerName, ConsumerStatus, DELIVERED_LOOK_MAX, DeliveredPage, DeliveryFilter, DeliveryQueue, DeliveryRecord,
    DeliveryState, EventRecord, OpenState, Position,
};
use std::collections::BTreeMap;

/// One consumer.
pub(super) fn status(books: &Books, name: &ConsumerName, row: &Consumer, queue: &DeliveryQueue) -> ConsumerStatus {
    let counts = queue.counts();
    let unread = books.events.range(queue.read()..).filter(|(_, record)| row.filter.takes(&record.event)).count();
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    ConsumerStatus {
        name: name.clone(),
        paused: row.paused.clone(),
        cursor: queue.read(),
        waiting: number(counts.waiting.saturating_add(unread)),
        retrying: number(counts.retrying),
        dead: number(counts.dead),
        blocked: number(counts.blocked),
    }
}

/// Undelivered and skipped deliveries by consumer and position; of one event also the delivered one.
pub(super) fn list(
    books: &Books,
    queues: &BTreeMap<ConsumerName, DeliveryQueue>,
    filter: &DeliveryFilter,
    after: Option<&(ConsumerName, Position)>,
    limit: usize,
) -> Vec<DeliveryRecord> {
    let mut records = Vec::new();
    for (name, row) in &books.consumers {
        let Some(queue) = queues.get(name).filter(|_| filter.consumer.as_ref().is_none_or(|wanted| wanted == name)) else {
            continue;
        };
        for event in books.events.values() {
            let behind = after.is_none_or(|(last, position)| (name, event.position) > (last, *position));
            if !behind || filter.event.as_ref().is_some_and(|id| *id != event.event.id) {
                continue;
            }
            let found = record(books, name, row, queue, event);
            let wanted = |record: &DeliveryRecord| filter.state.is_none_or(|state| state == record.state);
            // Delivered ones are found by their event only.
            let shown = |record: &DeliveryRecord| filter.event.is_some() || record.state != DeliveryState::Delivered;
            records.extend(found.filter(|record| wanted(record) && shown(record)));
        }
    }
    records.truncate(limit);
    records
}

/// What a consumer was delivered, newest first.
pub(super) fn delivered(
    books: &Books,
    name: &ConsumerName,
    row: &Consumer,
    queue: &DeliveryQueue,
    below: Option<Position>,
    limit: usize,
) -> DeliveredPage {
    let mut page = DeliveredPage::default();
    let below = below.unwrap_or(books.next);
    for (looked_at, (position, event)) in books.events.range(..below).rev().enumerate() {
        if page.records.len() >= limit.max(1) || looked_at == DELIVERED_LOOK_MAX {
            page.below = Some(position.next());
            break;
        }
        let found = record(books, name, row, queue, event);
        page.records.extend(found.filter(|record| record.state == DeliveryState::Delivered));
    }
    page
}

/// One delivery; `None` if the event is not this consumer's.
fn record(
    books: &Books,
    name: &ConsumerName,
    row: &Consumer,
    queue: &DeliveryQueue,
    event: &EventRecord,
) -> Option<DeliveryRecord> {
    let position = event.position;
    let last_attempt = row.attempts.get(&position).and_then(|attempts| attempts.last()).cloned();
    let (state, attempts, next, blocked_by) = match (queue.get(position), row.skipped.get(&position)) {
        (Some((state, open, blocked_by)), _) => {
            let next = match open.state {
                OpenState::Retrying { at } if state == DeliveryState::Retrying => Some(at),
                _ => None,
            };
            (state, open.attempts, next, blocked_by)
        }
        (None, Some(attempts)) => (DeliveryState::Skipped, *attempts, None, None),
        (None, None) if position < row.began || !row.filter.takes(&event.event) => return None,
        (None, None) if position >= queue.read() => (DeliveryState::Queued, 0, None, None),
        (None, None) => (DeliveryState::Delivered, Attempt::until_delivered(last_attempt.as_ref()), None, None),
    };
    let blocked_by = blocked_by.and_then(|position| books.events.get(&position)).map(|record| record.event.id.clone());
    let record = DeliveryRecord::new(name.clone(), position, event.event.clone(), state);
    Some(DeliveryRecord { attempts, last_attempt, next_attempt_at: next, blocked_by, ..record })
}
