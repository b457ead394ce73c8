//! Deliveries: listed, shown, queued again, given up.

use super::LocalOperator;
use super::deposits::time;
use confirmd_api::view::{AttemptView, Counted, DeliveryDetail, DeliveryQuery, DeliveryView, DeliveryWithAttempts, Requeue};
use confirmd_api::view::{DeadGroup, DeadQuery, Replay, TestResult};
use confirmd_api::{Cursor, OperatorError, Page, page_size};
use confirmd_core::{
    Attempt, ChainId, ConsumerName, Delivery, DeliveryFilter, DeliveryRecord, DeliveryState, DepositKey, EventId, EventKind,
    Pace, Position, Sequence, TextIdError, Timestamp, TxId, with_causes,
};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// Records read at a time.
const LIST_STEP: usize = 1_000;
/// How fast delivered events are sent again if nobody says otherwise.
const REPLAY_PER_SECOND: NonZeroU32 = NonZeroU32::new(50).expect("invariant: not zero");
/// The kind whose receivers tell a test from a deposit by the body alone.
const TESTABLE: &str = "webhook";

/// No event has more consumers.
const CONSUMERS_MAX: usize = 1_000;

/// Parts of history looked at for one page of what was delivered.
const LOOKS_MAX: u32 = 10;

/// Where a page of delivered events ended.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum DeliveredPlace {
    /// What the consumer was delivered below this place comes next; `None`: all it was.
    Delivered(ConsumerName, Option<Position>),
}

impl LocalOperator {
    pub(super) async fn list_deliveries(&self, query: &DeliveryQuery) -> Result<Page<DeliveryView>, OperatorError> {
        let limit = page_size(query.limit)?;
        if let Some(consumer) = &query.consumer {
            self.known_consumer(consumer).await?;
        }
        if query.state == Some(DeliveryState::Delivered) && query.event.is_none() {
            return self.list_delivered(query, limit).await;
        }
        let filter = DeliveryFilter { consumer: query.consumer.clone(), state: query.state, event: query.event.clone() };
        let after: Option<(ConsumerName, Position)> = query.after.as_ref().map(Cursor::place).transpose()?;
        let mut records = self.store(self.stores.outbox.list(&filter, after, limit.saturating_add(1)).await)?;
        let more = records.len() > limit;
        records.truncate(limit);
        let place = |record: &DeliveryRecord| Cursor::of(&(&record.consumer, record.position));
        let next = if more { records.last().map(place) } else { None };
        Ok(Page { items: records.into_iter().map(DeliveryView::from).collect(), next })
    }

    /// What was delivered, by consumer, newest first.
    async fn list_delivered(&self, query: &DeliveryQuery, limit: usize) -> Result<Page<DeliveryView>, OperatorError> {
        let place: Option<DeliveredPlace> = query.after.as_ref().map(Cursor::place).transpose()?;
        let (from, mut below) = place.map_or((None, None), |DeliveredPlace::Delivered(name, below)| (Some(name), below));
        let wanted = |name: &ConsumerName| {
            query.consumer.as_ref().is_none_or(|wanted| wanted == name) && from.as_ref().is_none_or(|from| name >= from)
        };
        let known = self.store(self.stores.outbox.consumers().await)?;
        let names = known.into_iter().map(|consumer| consumer.name).filter(wanted);
        let (mut items, mut looks) = (Vec::new(), 0);
        for name in names {
            // The place is within the consumer it names.
            below = below.filter(|_| from.as_ref() == Some(&name));
            loop {
                if items.len() >= limit || looks == LOOKS_MAX {
                    return Ok(Page { items, next: Some(Cursor::of(&DeliveredPlace::Delivered(name, below))) });
                }
                let page = self.store(self.stores.outbox.delivered(&name, below, limit - items.len()).await)?;
                looks += 1;
                items.extend(page.records.into_iter().map(DeliveryView::from));
                below = page.below;
                if below.is_none() {
                    break;
                }
            }
        }
        Ok(Page { items, next: None })
    }

    pub(super) async fn show_delivery(&self, event: &EventId) -> Result<DeliveryDetail, OperatorError> {
        let record = self.store(self.stores.history.event(event).await)?;
        let filter = DeliveryFilter { event: Some(event.clone()), ..DeliveryFilter::default() };
        let found = self.store(self.stores.outbox.list(&filter, None, CONSUMERS_MAX).await)?;
        if record.is_none() && found.is_empty() {
            return Err(OperatorError::not_found(format!("no event {event} is known; it may be older than `state.history`")));
        }
        let body = record.and_then(|record| serde_json::from_slice(&record.body).ok());
        let mut deliveries = Vec::with_capacity(found.len());
        for delivery in found {
            let failed = self.store(self.stores.outbox.attempts(&delivery.consumer, delivery.position).await)?;
            let failed = failed.into_iter().map(AttemptView::from).collect();
            deliveries.push(DeliveryWithAttempts { delivery: delivery.into(), failed });
        }
        Ok(DeliveryDetail { event: event.clone(), body, deliveries })
    }

    /// The delivery of an event to a consumer.
    async fn position(&self, consumer: &ConsumerName, event: &EventId) -> Result<Position, OperatorError> {
        let filter = DeliveryFilter { consumer: Some(consumer.clone()), event: Some(event.clone()), state: None };
        let found = self.store(self.stores.outbox.list(&filter, None, 1).await)?;
        let text = || format!("{consumer} has no delivery of event {event}; `confirmd deliveries list` shows what it has");
        found.first().map(|record| record.position).ok_or_else(|| OperatorError::not_found(text()))
    }

    pub(super) async fn requeue_events(&self, consumer: &ConsumerName, request: Requeue) -> Result<Counted, OperatorError> {
        self.known_consumer(consumer).await?;
        if request.events.is_empty() != request.all_dead {
            return Err(OperatorError::invalid("name `events`, or ask for `all_dead`: one of them, and not both"));
        }
        let narrowed = request.status.is_some() || request.error.is_some();
        if narrowed && !request.all_dead {
            return Err(OperatorError::invalid("`status` and `error` narrow `all_dead`; named events need neither"));
        }
        let plain = !narrowed && request.per_second.is_none();
        let mut positions = Vec::with_capacity(request.events.len());
        for event in &request.events {
            positions.push(self.position(consumer, event).await?);
        }
        if request.all_dead && !plain {
            let dead = self.all_dead(consumer).await?;
            let wanted = |record: &&DeliveryRecord| {
                let last = record.last_attempt.as_ref();
                (request.status.is_none() || last.and_then(|attempt| attempt.status) == request.status)
                    && request.error.as_ref().is_none_or(|error| last.is_some_and(|attempt| alike(attempt) == *error))
            };
            positions.extend(dead.iter().filter(wanted).map(|record| record.position));
        }
        let count = if plain {
            self.store(self.stores.outbox.requeue(consumer, &positions).await)?
        } else {
            let pace = request.per_second.map(|per_second| Pace { from: self.clock.now(), per_second });
            self.store(self.stores.outbox.replay(consumer, &positions, pace).await)?
        };
        tracing::info!(sink = %consumer, count, "deliveries queued again by an operator");
        self.wake.notify_waiters();
        Ok(Counted { count })
    }

    pub(super) async fn skip_event(&self, consumer: &ConsumerName, event: &EventId) -> Result<(), OperatorError> {
        self.known_consumer(consumer).await?;
        let position = self.position(consumer, event).await?;
        self.store(self.stores.outbox.skip(consumer, position, self.clock.now()).await)?;
        tracing::warn!(sink = %consumer, event = %event, "event given up by an operator");
        self.wake.notify_waiters();
        Ok(())
    }

    /// Every dead letter of a consumer.
    async fn all_dead(&self, consumer: &ConsumerName) -> Result<Vec<DeliveryRecord>, OperatorError> {
        let filter = DeliveryFilter { consumer: Some(consumer.clone()), state: Some(DeliveryState::Dead), event: None };
        let (mut after, mut dead) = (None, Vec::new());
        loop {
            let page = self.store(self.stores.outbox.list(&filter, after, LIST_STEP).await)?;
            let Some(last) = page.last() else { return Ok(dead) };
            after = Some((last.consumer.clone(), last.position));
            dead.extend(page);
        }
    }

    pub(super) async fn group_dead(&self, query: &DeadQuery) -> Result<Vec<DeadGroup>, OperatorError> {
        if let Some(consumer) = &query.consumer {
            self.known_consumer(consumer).await?;
        }
        let mut groups: BTreeMap<(ConsumerName, Option<u16>, String), DeadGroup> = BTreeMap::new();
        for consumer in self.store(self.stores.outbox.consumers().await)? {
            if consumer.dead == 0 || query.consumer.as_ref().is_some_and(|wanted| *wanted != consumer.name) {
                continue;
            }
            for record in self.all_dead(&consumer.name).await? {
                let Some(mut attempt) = record.last_attempt else { continue };
                attempt.error = alike(&attempt);
                let at = attempt.at.to_rfc3339();
                let group = groups.entry((record.consumer.clone(), attempt.status, attempt.error.clone()));
                let group = group.or_insert_with(|| DeadGroup {
                    consumer: record.consumer,
                    status: attempt.status,
                    error: attempt.error,
                    excerpt: attempt.excerpt,
                    count: 0,
                    first_at: at.clone(),
                    last_at: at.clone(),
                    example: record.event,
                });
                group.count = group.count.saturating_add(1);
                group.first_at = at.clone().min(std::mem::take(&mut group.first_at));
                group.last_at = at.max(std::mem::take(&mut group.last_at));
            }
        }
        let mut groups: Vec<DeadGroup> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        Ok(groups)
    }

    pub(super) async fn replay_events(&self, consumer: &ConsumerName, request: Replay) -> Result<Counted, OperatorError> {
        self.known_consumer(consumer).await?;
        let from = request.decided_from.as_deref().map(|text| time("decided_from", text)).transpose()?;
        let before = request.decided_before.as_deref().map(|text| time("decided_before", text)).transpose()?;
        if request.events.is_empty() != (from.is_some() || before.is_some()) {
            return Err(OperatorError::invalid(
                "name `events`, or a time range by `decided_from` and `decided_before`: one of them, and not both",
            ));
        }
        let mut positions = Vec::with_capacity(request.events.len());
        for event in &request.events {
            positions.push(self.position(consumer, event).await?);
        }
        let mut after = Position(0);
        while request.events.is_empty() {
            let page = self.store(self.stores.history.events(after, LIST_STEP).await)?;
            let Some(last) = page.last() else { break };
            after = last.position;
            let within = |at: Timestamp| from.is_none_or(|from| at >= from) && before.is_none_or(|before| at < before);
            positions.extend(page.iter().filter(|record| within(record.event.decided_at)).map(|record| record.position));
        }
        let per_second = request.per_second.unwrap_or(REPLAY_PER_SECOND);
        let pace = Pace { from: self.clock.now(), per_second };
        let count = self.store(self.stores.outbox.replay(consumer, &positions, Some(pace)).await)?;
        tracing::info!(sink = %consumer, count, per_second, "events replayed by an operator");
        self.wake.notify_waiters();
        Ok(Counted { count })
    }

    pub(super) async fn send_test(&self, consumer: &ConsumerName) -> Result<TestResult, OperatorError> {
        self.known_consumer(consumer).await?;
        let Some(sink) = self.sinks.get().get(consumer).cloned() else {
            return Err(OperatorError::conflict("a test event is sent by a running instance; start it first"));
        };
        let kind = self.kinds.get().get(consumer).copied().unwrap_or("unknown");
        if kind != TESTABLE {
            return Err(OperatorError::conflict(format!(
                "a sink of kind {kind} could take a test event for a deposit; only {TESTABLE} sinks are tested this way"
            )));
        }
        let delivery = test_delivery(self.clock.now())?;
        let began = std::time::Instant::now();
        let outcome = sink.deliver(std::slice::from_ref(&delivery)).await;
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let error = outcome.err().map(|failed| failed.error);
        Ok(TestResult {
            event: delivery.event,
            delivered: error.is_none(),
            status: error.as_ref().and_then(|error| error.status),
            error: error.map(|error| with_causes(&error)),
            took_ms,
        })
    }
}

/// An error without what the receiver said: that may differ from one to the next; that they failed alike does not.
fn alike(attempt: &Attempt) -> String {
    match &attempt.excerpt {
        Some(excerpt) => attempt.error.replace(&format!(": {excerpt}"), ""),
        None => attempt.error.clone(),
    }
}

/// Marked as a test by its type and by `test`; it names no chain and no deposit that exists.
fn test_delivery(now: Timestamp) -> Result<Delivery, OperatorError> {
    let wrong = |error: TextIdError| OperatorError::failed(error.to_string());
    let event = EventId::new(format!("evt_{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))).map_err(wrong)?;
    let body =
        serde_json::json!({ "id": event, "type": "confirmd.test", "version": 1, "test": true, "sent_at": now.to_rfc3339() });
    Ok(Delivery {
        position: Position(0),
        event,
        chain: ChainId::new("confirmd:test").map_err(wrong)?,
        key: DepositKey { tx_id: TxId::new("test").map_err(wrong)?, output_index: 0 },
        sequence: Sequence(1),
        kind: EventKind::Confirmed,
        attempt: 1,
        body: body.to_string().into_bytes().into(),
        trace: None,
    })
}
