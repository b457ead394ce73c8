//! Counts what is tried, on its way to a sink.

use super::{Failing, Metrics};
use async_trait::async_trait;
use confirmd_core::{ConsumerName, DeliverError, Delivery, Sink, SinkBooks, SinkError, SinkErrorKind, SinkProfile, with_causes};
use std::sync::{Arc, PoisonError};

/// A sink whose attempts are counted.
#[derive(Debug)]
pub(crate) struct MeteredSink {
    consumer: ConsumerName,
    inner: Arc<dyn Sink>,
    metrics: Arc<Metrics>,
}

impl MeteredSink {
    pub(crate) fn around(consumer: &ConsumerName, inner: Arc<dyn Sink>, metrics: Arc<Metrics>) -> Arc<dyn Sink> {
        Arc::new(Self { consumer: consumer.clone(), inner, metrics })
    }
}

#[async_trait]
impl Sink for MeteredSink {
    fn profile(&self) -> SinkProfile {
        self.inner.profile()
    }

    async fn check(&self) -> Result<(), SinkError> {
        self.inner.check().await
    }

    async fn deliver(&self, batch: &[Delivery]) -> Result<(), DeliverError> {
        let result = self.inner.deliver(batch).await;
        self.metrics.attempted(&self.consumer, batch, result.as_ref().err());
        result
    }

    fn books(&self) -> Option<&dyn SinkBooks> {
        self.inner.books()
    }
}

impl Metrics {
    /// A batch came back from a sink.
    fn attempted(&self, consumer: &ConsumerName, batch: &[Delivery], error: Option<&DeliverError>) {
        let name = consumer.as_str();
        let (accepted, now) = (error.map_or(batch.len(), |error| error.accepted.min(batch.len())), self.clock.now());
        let count = u64::try_from(accepted).unwrap_or(u64::MAX);
        self.attempts.with_label_values(&[name, "delivered"]).inc_by(count);
        {
            let decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
            let seconds = self.delivery.with_label_values(&[name]);
            for at in batch.iter().take(accepted).filter_map(|delivery| decided.of(delivery)) {
                seconds.observe(now.since(at).as_secs_f64());
            }
        }
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if accepted > 0 {
            failing.remove(consumer);
        }
        let Some(DeliverError { error, .. }) = error else { return };
        let outcome = match error.kind {
            SinkErrorKind::Transient { .. } => "transient",
            SinkErrorKind::Rejected { .. } => "rejected",
            SinkErrorKind::Fatal => "fatal",
        };
        self.attempts.with_label_values(&[name, outcome]).inc();
        let since = failing.get(consumer).map_or(now, |failing| failing.since);
        failing.insert(consumer.clone(), Failing { since, error: with_causes(error), fatal: error.kind == SinkErrorKind::Fatal });
    }
}
