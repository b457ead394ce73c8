//! `Outbox`: each call is one transaction.

use crate::claim::{self, Due};
use crate::consumers;
use crate::listing;
use crate::outcome::{self, Failure};
use crate::store::PgStore;
use crate::tails::{self, Asked};
use crate::work::Mode::{Read, Write};
use async_trait::async_trait;
use confirmd_core::{
    Attempt, ConsumerName, ConsumerSpec, ConsumerStatus, DeliveredPage, Delivery, DeliveryFilter, DeliveryRecord, Outbox, Pace,
    Position, StoreError, Timestamp,
};
use futures::future::BoxFuture;
use std::sync::Arc;

/// A function as work.
macro_rules! work {
    ($function:path) => {
        |session, args| -> BoxFuture<'_, _> { Box::pin($function(session, args)) }
    };
}
pub(crate) use work;

impl PgStore {
    fn asked_due(&self, consumer: &ConsumerName, now: Timestamp, limit: usize) -> Due {
        Due {
            claims: Arc::clone(&self.inner.claims),
            consumer: consumer.clone(),
            owner: Arc::clone(&self.inner.notice.owner),
            lease_ms: self.inner.lease_ms(),
            now,
            limit,
        }
    }

    fn asked(&self, consumer: &ConsumerName, positions: &[Position]) -> Asked {
        let positions = positions.iter().copied().collect();
        Asked { consumer: consumer.clone(), positions, notice: self.inner.notice.clone() }
    }

    async fn failed(
        &self,
        consumer: &ConsumerName,
        position: Position,
        attempt: Attempt,
        at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let reported = self.inner.claims.report(consumer, &[position]);
        let failure = Failure { consumer: consumer.clone(), reported, attempt, at };
        self.inner.run("recording a failed attempt", Write, failure, work!(outcome::failed)).await
    }
}

#[async_trait]
impl Outbox for PgStore {
    async fn register(&self, spec: &ConsumerSpec) -> Result<(), StoreError> {
        let args = (spec.clone(), Arc::clone(&self.inner.notice.owner));
        self.inner.claims.forget(&spec.name);
        self.inner.run("registering a consumer", Write, args, work!(consumers::register)).await
    }

    async fn consumers(&self) -> Result<Vec<ConsumerStatus>, StoreError> {
        self.inner.run("counting deliveries", Read, (), work!(consumers::statuses)).await
    }

    async fn due(&self, consumer: &ConsumerName, now: Timestamp, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        loop {
            let hold = self.inner.consumer_gate(consumer).lock_owned().await;
            let asked = self.asked_due(consumer, now, limit);
            let handout = self.inner.worker.run("claiming deliveries", Write, hold, asked, work!(claim::due)).await?;
            if !handout.is_empty() || !handout.more {
                return Ok(handout.take());
            }
        }
    }

    async fn next_due(&self, consumer: &ConsumerName) -> Result<Option<Timestamp>, StoreError> {
        let hold = self.inner.consumer_gate(consumer).lock_owned().await;
        let asked = self.asked_due(consumer, Timestamp(0), 0);
        self.inner.worker.run("looking for the next retry", Write, hold, asked, work!(claim::next_due)).await
    }

    async fn acknowledge(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        let args = (consumer.clone(), self.inner.claims.report(consumer, positions));
        self.inner.run("recording deliveries", Write, args, work!(outcome::acknowledge)).await
    }

    async fn retry_later(
        &self,
        consumer: &ConsumerName,
        position: Position,
        attempt: Attempt,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.failed(consumer, position, attempt, Some(at)).await
    }

    async fn bury(&self, consumer: &ConsumerName, position: Position, attempt: Attempt) -> Result<(), StoreError> {
        self.failed(consumer, position, attempt, None).await
    }

    async fn release(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        let args = (consumer.clone(), self.inner.claims.report(consumer, positions));
        self.inner.run("giving deliveries back", Write, args, work!(outcome::release)).await
    }

    async fn requeue(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<u64, StoreError> {
        self.inner.run("queueing again", Write, self.asked(consumer, positions), work!(tails::requeue)).await
    }

    async fn replay(&self, consumer: &ConsumerName, positions: &[Position], pace: Option<Pace>) -> Result<u64, StoreError> {
        let args = (self.asked(consumer, positions), pace);
        self.inner.run("replaying", Write, args, work!(tails::replay)).await
    }

    async fn skip(&self, consumer: &ConsumerName, position: Position, now: Timestamp) -> Result<(), StoreError> {
        let args = (self.asked(consumer, &[position]), now);
        self.inner.run("giving an event up", Write, args, work!(tails::skip)).await
    }

    async fn list(
        &self,
        filter: &DeliveryFilter,
        after: Option<(ConsumerName, Position)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        let args = (filter.clone(), after, limit);
        self.inner.run("listing deliveries", Read, args, work!(listing::list)).await
    }

    async fn delivered(
        &self,
        consumer: &ConsumerName,
        below: Option<Position>,
        limit: usize,
    ) -> Result<DeliveredPage, StoreError> {
        let args = (consumer.clone(), below, limit);
        self.inner.run("listing what was delivered", Read, args, work!(listing::delivered)).await
    }

    async fn attempts(&self, consumer: &ConsumerName, position: Position) -> Result<Vec<Attempt>, StoreError> {
        let args = (consumer.clone(), position);
        self.inner.run("reading failed attempts", Read, args, work!(listing::attempts)).await
    }

    async fn pause(&self, consumer: &ConsumerName, why: Option<String>) -> Result<(), StoreError> {
        let args = (consumer.clone(), why, self.inner.notice.clone());
        self.inner.run("pausing a consumer", Write, args, work!(consumers::pause)).await
    }

    async fn rename(&self, from: &ConsumerName, to: &ConsumerName) -> Result<(), StoreError> {
        let args = (from.clone(), to.clone());
        self.inner.run("renaming a consumer", Write, args, work!(consumers::rename)).await
    }

    async fn purge(&self, consumer: &ConsumerName) -> Result<u64, StoreError> {
        self.inner.claims.forget(consumer);
        self.inner.run("purging a consumer", Write, consumer.clone(), work!(consumers::purge)).await
    }
}
