//! Records each attempt, on its way to a sink.

use super::span::{Attributes, Nanos, Span, SpanKind};
use super::{Recorder, Traces};
use async_trait::async_trait;
use confirmd_core::{ConsumerName, DeliverError, Delivery, Sink, SinkBooks, SinkError, SinkErrorKind, SinkProfile, TraceContext};
use std::sync::Arc;

/// A sink whose attempts are recorded.
#[derive(Debug)]
pub(crate) struct TracedSink {
    consumer: ConsumerName,
    inner: Arc<dyn Sink>,
    traces: Arc<Traces>,
}

impl TracedSink {
    pub(crate) fn around(consumer: &ConsumerName, inner: Arc<dyn Sink>, traces: Arc<Traces>) -> Arc<dyn Sink> {
        Arc::new(Self { consumer: consumer.clone(), inner, traces })
    }
}

impl Recorder {
    /// The delivery as one attempt of its event's trace.
    fn placed(&self, delivery: &Delivery) -> Delivery {
        let trace_id = TraceContext::trace_of(&delivery.event);
        // Never twice, also where an attempt is made again under its number. Zero is no id.
        let span_id = fastrand::u64(1..).to_be_bytes();
        Delivery { trace: Some(TraceContext { trace_id, span_id, sampled: self.takes(&trace_id) }), ..delivery.clone() }
    }

    /// A batch came back. What lies behind a failed delivery was not tried.
    fn attempted(&self, consumer: &ConsumerName, batch: &[Delivery], from: Nanos, error: Option<&DeliverError>) {
        let accepted = error.map_or(batch.len(), |error| error.accepted.min(batch.len()));
        let period = (from, Nanos::now());
        for (at, delivery) in batch.iter().enumerate() {
            let failed = match error {
                Some(error) if at == accepted => Some(&error.error),
                _ if at >= accepted => return,
                _ => None,
            };
            let Some(place) = delivery.trace.filter(|place| place.sampled) else { continue };
            let mut span = Span::new(place.trace_id, place.span_id, "deliver", period);
            span.parent = Some(Self::whole(&place.trace_id));
            span.kind = SpanKind::Client;
            span.attributes = attributes(consumer, delivery, batch.len(), failed);
            span.failed = failed.map(ToString::to_string);
            self.record(span);
        }
    }
}

fn attributes(consumer: &ConsumerName, delivery: &Delivery, batch: usize, failed: Option<&SinkError>) -> Attributes {
    let outcome = match failed.map(|error| error.kind) {
        None => "delivered",
        Some(SinkErrorKind::Transient { .. }) => "transient",
        Some(SinkErrorKind::Rejected { .. }) => "rejected",
        Some(SinkErrorKind::Fatal) => "fatal",
    };
    let mut attributes: Attributes = vec![
        ("confirmd.consumer", consumer.as_str().into()),
        ("confirmd.event", delivery.event.as_str().into()),
        ("confirmd.chain", delivery.chain.as_str().into()),
        ("confirmd.attempt", u64::from(delivery.attempt).into()),
        ("confirmd.outcome", outcome.into()),
        ("confirmd.batch", u64::try_from(batch).unwrap_or(u64::MAX).into()),
    ];
    if let Some(status) = failed.and_then(|error| error.status) {
        attributes.push(("http.response.status_code", u64::from(status).into()));
    }
    attributes
}

#[async_trait]
impl Sink for TracedSink {
    fn profile(&self) -> SinkProfile {
        self.inner.profile()
    }

    async fn check(&self) -> Result<(), SinkError> {
        self.inner.check().await
    }

    async fn deliver(&self, batch: &[Delivery]) -> Result<(), DeliverError> {
        let Some(recorder) = self.traces.recorder() else { return self.inner.deliver(batch).await };
        let placed: Vec<Delivery> = batch.iter().map(|delivery| recorder.placed(delivery)).collect();
        let from = Nanos::now();
        let result = self.inner.deliver(&placed).await;
        recorder.attempted(&self.consumer, &placed, from, result.as_ref().err());
        result
    }

    fn books(&self) -> Option<&dyn SinkBooks> {
        self.inner.books()
    }
}
