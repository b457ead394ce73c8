//! A sink that posts events to a receiver.

use crate::WebhookConfig;
use crate::address_policy::AddressPolicy;
use crate::answer::{self, BodyEnd};
use crate::connector::{self, BoxError, Exchange, Lookup};
use crate::signing::SigningKeys;
use crate::target::Target;
use async_trait::async_trait;
use bytes::Bytes;
use confirmd_core::{
    Clock, ConfigError, ConsumerName, DeliverError, Delivery, Forgery, HumanDuration, Sink, SinkBooks, SinkError, SinkErrorKind,
    SinkProfile,
};
use http::{HeaderName, HeaderValue, Request, Uri, header};
use http_body_util::Full;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::Connection;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

const USER_AGENT: &str = concat!("confirmd/", env!("CARGO_PKG_VERSION"));
/// A forged timestamp is older than any receiver's tolerance by this.
const OLD_S: u64 = 3_600;
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const DELIVERY: HeaderName = HeaderName::from_static("x-confirmd-delivery");
/// W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const SIGNATURE: HeaderName = HeaderName::from_static("x-confirmd-signature");

/// Posts each event, signed, and judges the answer.
pub struct WebhookSink {
    consumer: ConsumerName,
    target: Target,
    keys: SigningKeys,
    timeout: Duration,
    concurrency: NonZeroUsize,
    exchange: Box<dyn Exchange>,
    clock: Arc<dyn Clock>,
    /// For `confirmd conform`: what is wrong with every request.
    forgery: Option<Forgery>,
}

impl fmt::Debug for WebhookSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSink")
            .field("consumer", &self.consumer)
            .field("target", &self.target)
            .field("keys", &self.keys)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl WebhookSink {
    /// Reads the secrets, the URL and the CA file; opens no connection. The clock stamps the signatures.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the key below `[sinks.NAME]`, and shows neither secret nor URL.
    pub fn new(consumer: &ConsumerName, config: &WebhookConfig, clock: Arc<dyn Clock>) -> Result<Self, ConfigError> {
        Self::with_lookup(consumer, config, clock, connector::system_lookup())
    }

    pub(crate) fn with_lookup(
        consumer: &ConsumerName,
        config: &WebhookConfig,
        clock: Arc<dyn Clock>,
        lookup: Lookup,
    ) -> Result<Self, ConfigError> {
        Self::build(consumer, config, clock, |policy| connector::exchange_over_tcp(config, policy, lookup))
    }

    /// Like [`new`](Self::new), over `connector` instead of TCP (and without TLS and the look at resolved addresses): in
    /// memory, for example.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn over<C>(
        connector: C,
        consumer: &ConsumerName,
        config: &WebhookConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ConfigError>
    where
        C: tower::Service<Uri> + Clone + Send + Sync + 'static,
        C::Response: Read + Write + Connection + Send + Unpin + 'static,
        C::Error: Into<BoxError>,
        C::Future: Send + Unpin + 'static,
    {
        let idle_max = config.concurrency.get();
        Self::build(consumer, config, clock, |_| Ok(connector::exchange_over(connector, idle_max)))
    }

    fn build(
        consumer: &ConsumerName,
        config: &WebhookConfig,
        clock: Arc<dyn Clock>,
        exchange: impl FnOnce(AddressPolicy) -> Result<Box<dyn Exchange>, ConfigError>,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let policy = AddressPolicy::new(config.allow_private.clone())?;
        let target = Target::resolve(&config.url, &policy)?;
        let keys = SigningKeys::read(config)?;
        let exchange = exchange(policy)?;
        let (timeout, concurrency) = (config.timeout.0, config.concurrency);
        Ok(Self { consumer: consumer.clone(), target, keys, timeout, concurrency, exchange, clock, forgery: None })
    }

    /// The same, with one thing wrong in every request.
    pub(crate) fn forged(mut self, forgery: Forgery) -> Self {
        if forgery == Forgery::WrongSecret {
            self.keys = self.keys.falsified();
        }
        Self { forgery: Some(forgery), ..self }
    }

    /// One attempt, signed now.
    fn request(&self, delivery: &Delivery) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut timestamp_s = self.clock.now().seconds();
        if self.forgery == Some(Forgery::OldTimestamp) {
            timestamp_s = timestamp_s.saturating_sub(OLD_S);
        }
        let signatures = match self.forgery {
            Some(Forgery::AlteredBody) => self.keys.sign(&delivery.event, timestamp_s, &[&*delivery.body, b" "].concat()),
            _ => self.keys.sign(&delivery.event, timestamp_s, &delivery.body),
        };
        let id = HeaderValue::from_str(delivery.event.as_str())?;
        let mut request = Request::post(self.target.uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, USER_AGENT)
            .header(WEBHOOK_ID, id.clone())
            .header(WEBHOOK_TIMESTAMP, timestamp_s)
            .header(DELIVERY, id);
        if self.forgery != Some(Forgery::NoSignature) {
            request = request.header(WEBHOOK_SIGNATURE, signatures.standard).header(SIGNATURE, signatures.plain);
        }
        if let Some(trace) = &delivery.trace {
            request = request.header(TRACEPARENT, trace.to_string());
        }
        if let Some(authorization) = &self.target.authorization {
            request = request.header(header::AUTHORIZATION, authorization.clone());
        }
        request.body(Full::new(Bytes::copy_from_slice(&delivery.body)))
    }

    async fn post(&self, delivery: &Delivery, deadline: Instant) -> Result<(), SinkError> {
        let request = self.request(delivery).map_err(|error| {
            self.error(SinkErrorKind::Rejected { retry_after: None }, &format!("the request can't be made: {error}"))
        })?;
        let response = match timeout_at(deadline, self.exchange.send(request)).await {
            Err(_) => return Err(self.timed_out("no answer")),
            Ok(Err(error)) => return Err(self.transient(&connector::explain(&error))),
            Ok(Ok(response)) => response,
        };
        let (head, body) = response.into_parts();
        let (body, end) = answer::read_body(body, deadline).await;
        let Some(kind) = answer::judge(head.status, &head.headers, self.clock.now()) else {
            return match end {
                BodyEnd::Read => Ok(()),
                // It may have failed after it had sent its status; a duplicate is harmless, a lost event is not.
                BodyEnd::Broken(error) => {
                    let why = format!("its answer {} broke off: {}", head.status.as_u16(), connector::explain(&error));
                    Err(self.transient(&why).with_status(head.status.as_u16()))
                }
                BodyEnd::TimedOut => {
                    let what = format!("the answer {} did not end", head.status.as_u16());
                    Err(self.timed_out(&what).with_status(head.status.as_u16()))
                }
            };
        };
        let hidden = self.target.hidden.iter().map(String::as_str).chain(self.keys.hidden());
        let excerpt = answer::excerpt(&body, hidden);
        let said = if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") };
        let why = format!("answered {}{}{said}", head.status.as_u16(), answer::advice(head.status));
        Err(self.error(kind, &why).with_status(head.status.as_u16()).with_excerpt(excerpt))
    }

    fn timed_out(&self, what: &str) -> SinkError {
        self.transient(&format!("{what} within {}", HumanDuration(self.timeout)))
    }

    fn transient(&self, why: &str) -> SinkError {
        self.error(SinkErrorKind::Transient { retry_after: None }, why)
    }

    fn error(&self, kind: SinkErrorKind, why: &str) -> SinkError {
        SinkError::new(kind, format!("POST to {}: {why}", self.target))
    }
}

#[async_trait]
impl Sink for WebhookSink {
    fn profile(&self) -> SinkProfile {
        SinkProfile { batch_max: NonZeroUsize::MIN, concurrency: self.concurrency }
    }

    fn books(&self) -> Option<&dyn SinkBooks> {
        None
    }

    /// Connects, with TLS where the URL says so, and hangs up. A receiver that can't be reached is `Transient`.
    async fn check(&self) -> Result<(), SinkError> {
        let connecting = self.exchange.try_connecting(self.target.uri.clone());
        let failed = |kind, why: &str| SinkError::new(kind, format!("connecting to {}: {why}", self.target));
        match timeout_at(Instant::now() + self.timeout, connecting).await {
            Ok(Ok(_)) => Ok(()),
            Err(_) => {
                let why = format!("no connection within {}", HumanDuration(self.timeout));
                Err(failed(SinkErrorKind::Transient { retry_after: None }, &why))
            }
            Ok(Err(error)) => {
                let refused = connector::is_refused(error.as_ref());
                let kind = if refused { SinkErrorKind::Fatal } else { SinkErrorKind::Transient { retry_after: None } };
                Err(failed(kind, &connector::explain(error.as_ref())))
            }
        }
    }

    async fn deliver(&self, batch: &[Delivery]) -> Result<(), DeliverError> {
        let deadline = Instant::now() + self.timeout;
        for (accepted, delivery) in batch.iter().enumerate() {
            self.post(delivery, deadline).await.map_err(|error| DeliverError { accepted, error })?;
        }
        Ok(())
    }
}
