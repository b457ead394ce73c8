//! `Outbox` over the writer thread: every answer is given after the sync that covers it.

use crate::handout::Handout;
use crate::store::SledStore;
use async_trait::async_trait;
use confirmd_core::{
    Attempt, ConsumerName, ConsumerSpec, ConsumerStatus, DeliveredPage, Delivery, DeliveryFilter, DeliveryRecord, Outbox, Pace,
    Position, StoreError, Timestamp,
};

/// Unread events counted for a status.
const UNREAD_COUNT_MAX: u64 = 10_000;

#[async_trait]
impl Outbox for SledStore {
    async fn register(&self, spec: &ConsumerSpec) -> Result<(), StoreError> {
        let spec = spec.clone();
        self.writer.run(move |core| core.register(&spec)).await
    }

    async fn consumers(&self) -> Result<Vec<ConsumerStatus>, StoreError> {
        let snapshots = self.writer.run(|core| Ok(core.consumers.iter().map(|c| core.snapshot(c)).collect::<Vec<_>>())).await?;
        self.read(move |reader| {
            let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
            let status = |snapshot: crate::consumers::Snapshot| {
                let unread = snapshot.unread(reader, UNREAD_COUNT_MAX)?;
                Ok(ConsumerStatus {
                    name: snapshot.row.name,
                    paused: snapshot.row.paused,
                    cursor: snapshot.read,
                    waiting: count(snapshot.counts.waiting).saturating_add(unread),
                    retrying: count(snapshot.counts.retrying),
                    dead: count(snapshot.counts.dead),
                    blocked: count(snapshot.counts.blocked),
                })
            };
            snapshots.into_iter().map(status).collect()
        })
        .await
    }

    async fn due(&self, consumer: &ConsumerName, now: Timestamp, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        loop {
            let name = consumer.clone();
            let handout: Handout = self.writer.run(move |core| core.due(&name, now, limit)).await?;
            if !handout.is_empty() || !handout.more {
                return Ok(handout.take());
            }
        }
    }

    async fn next_due(&self, consumer: &ConsumerName) -> Result<Option<Timestamp>, StoreError> {
        let name = consumer.clone();
        self.writer
            .run(move |core| {
                core.take_back_lost();
                let consumer = core.consumers.get(&name)?;
                Ok(if consumer.row.paused.is_some() { None } else { consumer.queue.next_due() })
            })
            .await
    }

    async fn acknowledge(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        let (name, positions) = (consumer.clone(), positions.to_vec());
        self.writer.run(move |core| core.acknowledge(&name, &positions)).await
    }

    async fn retry_later(
        &self,
        consumer: &ConsumerName,
        position: Position,
        attempt: Attempt,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let name = consumer.clone();
        self.writer.run(move |core| core.failed(&name, position, &attempt, Some(at))).await
    }

    async fn bury(&self, consumer: &ConsumerName, position: Position, attempt: Attempt) -> Result<(), StoreError> {
        let name = consumer.clone();
        self.writer.run(move |core| core.failed(&name, position, &attempt, None)).await
    }

    async fn release(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<(), StoreError> {
        let (name, positions) = (consumer.clone(), positions.to_vec());
        self.writer
            .run(move |core| {
                let consumer = core.consumers.get_mut(&name)?;
                positions.into_iter().for_each(|position| consumer.queue.release(position));
                Ok(())
            })
            .await
    }

    async fn requeue(&self, consumer: &ConsumerName, positions: &[Position]) -> Result<u64, StoreError> {
        let (name, positions) = (consumer.clone(), positions.to_vec());
        self.writer.run(move |core| core.requeue(&name, &positions)).await
    }

    async fn replay(&self, consumer: &ConsumerName, positions: &[Position], pace: Option<Pace>) -> Result<u64, StoreError> {
        let (name, positions) = (consumer.clone(), positions.to_vec());
        self.writer.run(move |core| core.replay(&name, &positions, pace)).await
    }

    async fn skip(&self, consumer: &ConsumerName, position: Position, now: Timestamp) -> Result<(), StoreError> {
        let name = consumer.clone();
        self.writer.run(move |core| core.skip(&name, position, now)).await
    }

    async fn list(
        &self,
        filter: &DeliveryFilter,
        after: Option<(ConsumerName, Position)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        let filter = filter.clone();
        self.writer.run(move |core| core.list(&filter, after.as_ref(), limit)).await
    }

    async fn delivered(
        &self,
        consumer: &ConsumerName,
        below: Option<Position>,
        limit: usize,
    ) -> Result<DeliveredPage, StoreError> {
        let name = consumer.clone();
        self.writer.run(move |core| core.delivered(&name, below, limit)).await
    }

    async fn attempts(&self, consumer: &ConsumerName, position: Position) -> Result<Vec<Attempt>, StoreError> {
        let name = consumer.clone();
        self.writer.run(move |core| core.attempts(&name, position)).await
    }

    async fn pause(&self, consumer: &ConsumerName, why: Option<String>) -> Result<(), StoreError> {
        let name = consumer.clone();
        self.writer.run(move |core| core.pause(&name, why)).await
    }

    async fn rename(&self, from: &ConsumerName, to: &ConsumerName) -> Result<(), StoreError> {
        let (from, to) = (from.clone(), to.clone());
        self.writer.run(move |core| core.rename(&from, &to)).await
    }

    async fn purge(&self, consumer: &ConsumerName) -> Result<u64, StoreError> {
        let name = consumer.clone();
        self.writer.run(move |core| core.purge(&name)).await
    }
}
