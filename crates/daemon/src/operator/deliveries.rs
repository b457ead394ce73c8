//! Deliveries: listed, shown, queued again, given up.

use super::LocalOperator;
use confirmd_api::view::{AttemptView, Counted, DeliveryDetail, DeliveryQuery, DeliveryView, DeliveryWithAttempts, Requeue};
use confirmd_api::{Cursor, OperatorError, Page, page_size};
use confirmd_core::{ConsumerName, DeliveryFilter, DeliveryRecord, EventId, Position};

/// No event has more consumers.
const CONSUMERS_MAX: usize = 1_000;

impl LocalOperator {
    pub(super) async fn list_deliveries(&self, query: &DeliveryQuery) -> Result<Page<DeliveryView>, OperatorError> {
        let limit = page_size(query.limit);
        if let Some(consumer) = &query.consumer {
            self.known_consumer(consumer).await?;
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
        let mut positions = Vec::with_capacity(request.events.len());
        for event in &request.events {
            positions.push(self.position(consumer, event).await?);
        }
        if positions.is_empty() != request.all_dead {
            return Err(OperatorError::invalid("name events, or ask for all dead ones, not both"));
        }
        let count = self.store(self.stores.outbox.requeue(consumer, &positions).await)?;
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
}
