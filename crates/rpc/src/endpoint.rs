//! One endpoint and one attempt at it.

use crate::classify::{Verdict, verdict};
use crate::connect::{Exchange, Links, exchange_over_tcp};
use crate::endpoint_config::Target;
use crate::error::CallError;
use crate::failure::Failure;
use crate::health::Stats;
use crate::layer::{WireLayer, WireService, failure_of};
use crate::limits::Limits;
use crate::permits::Permits;
use crate::wire::Wire;
use bytes::Bytes;
use confirmd_core::{ConfigError, SourceMeter};
use jsonrpsee::core::client::ClientT;
use jsonrpsee::core::params::BatchRequestBuilder;
use jsonrpsee::core::traits::ToRpcParams;
use jsonrpsee::http_client::{HttpClient, HttpClientBuilder, RpcService, RpcServiceBuilder};
use jsonrpsee::types::ErrorObjectOwned;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout};

/// jsonrpsee never learns the real URL: the wire has it, and nothing that jsonrpsee logs can show it.
const PLACEHOLDER: &str = "http://endpoint.invalid/";
/// Calls sent together are bounded by the permits; a request above this is a mistake.
const REQUEST_BYTES_MAX: u32 = 16 * 1024 * 1024;

pub(crate) struct Endpoint {
    pub(crate) wire: Arc<Wire>,
    pub(crate) permits: Permits,
    rpc: HttpClient<RpcService<WireService>>,
    timeout: Duration,
}

/// One call of a batch.
pub(crate) type Call = (&'static str, Box<RawValue>);
/// Makes the exchange of an endpoint; the default one speaks TCP.
pub(crate) type Connect = dyn Fn(Arc<Links>) -> Box<dyn Exchange> + Send + Sync;

struct Params<'a>(&'a RawValue);

impl ToRpcParams for Params<'_> {
    fn to_rpc_params(self) -> Result<Option<Box<RawValue>>, serde_json::Error> {
        Ok(Some(self.0.to_owned()))
    }
}

impl Endpoint {
    pub(crate) fn new(
        target: Target,
        limits: &Limits,
        connect: Option<&Connect>,
        now: fn() -> SystemTime,
        meter: &SourceMeter,
    ) -> Result<Self, ConfigError> {
        let links = Arc::new(Links::default());
        let exchange = match connect {
            Some(connect) => connect(links.clone()),
            None => exchange_over_tcp(target.tls, links.clone()),
        };
        let timeout = target.timeout.unwrap_or(limits.request_timeout.0);
        let wire = Arc::new(Wire {
            target: target.uri,
            shown: target.shown,
            headers: target.headers,
            credentials: target.credentials,
            scrubber: target.scrubber,
            exchange,
            links,
            stats: Arc::new(Stats::counting_into(meter.clone())),
            response_bytes_max: limits.response_bytes_max.get(),
            now,
        });
        let rpc = HttpClientBuilder::default()
            .max_request_size(REQUEST_BYTES_MAX)
            // The rewritten answer may be a little longer than what was read under the cap.
            .max_response_size(u32::MAX)
            // The attempt's own time-out comes first.
            .request_timeout(limits.deadline.0.saturating_add(timeout))
            .set_rpc_middleware(RpcServiceBuilder::new())
            .set_http_middleware(tower::ServiceBuilder::new().layer(WireLayer(wire.clone())))
            .build(PLACEHOLDER)
            .map_err(|error| ConfigError::new("", format!("the RPC client can't be made: {error}")))?;
        Ok(Self { wire, permits: Permits::new(limits), rpc, timeout })
    }

    /// One attempt: permits, then the request under the attempt's time-out.
    pub(crate) async fn attempt<T>(
        &self,
        permits: u32,
        deadline: Instant,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let before = Instant::now();
        let permitted = self.permits.take(permits, deadline).await;
        self.wire.stats.waited(before.elapsed());
        permitted?;
        let time = self.timeout.min(deadline.saturating_duration_since(Instant::now()));
        let outcome = timeout(time, request).await.unwrap_or(Err(Failure::TimedOut(time)));
        match &outcome {
            Err(failure) if verdict(failure) != Verdict::Answer => {
                self.wire.stats.failed(failure);
                if failure.lost_connection() {
                    self.wire.links.lost();
                }
            }
            _ => self.wire.stats.answered(),
        }
        outcome
    }

    /// One call, asked once.
    pub(crate) async fn call(&self, method: &'static str, params: &RawValue) -> Result<Box<RawValue>, Failure> {
        self.rpc.request(method, Params(params)).await.map_err(|error| match error {
            jsonrpsee::core::client::Error::Call(error) => answered(own_error(method, &error)),
            error => self.own_failure(method, failure_of(error, None)),
        })
    }

    /// A batch, asked once: one answer per call, in order. An error that passes with time fails the whole batch.
    pub(crate) async fn batch(&self, calls: &[Call]) -> Result<Vec<Result<Box<RawValue>, CallError>>, Failure> {
        let mut batch = BatchRequestBuilder::new();
        for (method, params) in calls {
            batch.insert(method, Params(params)).map_err(|error| Failure::Request(error.to_string()))?;
        }
        let first = calls.first().map_or("", |(method, _)| *method);
        let replies = self
            .rpc
            .batch_request::<Box<RawValue>>(batch)
            .await
            .map_err(|error| self.own_failure(first, failure_of(error, Some(calls.len()))))?;
        let missing = Failure::MissingReply { asked: calls.len() };
        // jsonrpsee says nothing of a missing tail, and fills the holes of doubled ids with code 0 and no text.
        if replies.len() != calls.len() {
            return Err(missing);
        }
        let mut answers = Vec::with_capacity(calls.len());
        for (reply, (method, _)) in replies.into_iter().zip(calls) {
            match reply {
                Ok(result) => answers.push(Ok(result)),
                Err(error) if error.code() == 0 && error.message().is_empty() => return Err(missing),
                Err(error) => {
                    let error = own_error(method, &error);
                    if error.is_throttle() {
                        return Err(answered(error));
                    }
                    answers.push(Err(error));
                }
            }
        }
        Ok(answers)
    }

    /// A path of the host, asked once. A 400 or 404 is the node's answer.
    pub(crate) async fn get(&self, path: &str) -> Result<Bytes, Failure> {
        let answer = self.wire.get(path).await?;
        let (status, retry_after, text) = (answer.status, answer.retry_after, answer.beginning());
        match status {
            200..300 if answer.body.is_empty() => Err(Failure::EmptyBody),
            200..300 => Ok(answer.body),
            400 | 404 if !text.starts_with('<') => {
                let message = if text.is_empty() { "(no message)".into() } else { text };
                Err(answered(CallError { method: "GET", code: i32::from(status), message, data: None }))
            }
            _ => Err(Failure::Status { status, retry_after, text }),
        }
    }

    /// The result as the caller's type.
    pub(crate) fn decode<T: DeserializeOwned>(&self, method: &str, result: &RawValue) -> Result<T, Failure> {
        serde_json::from_str(result.get()).map_err(|error| {
            Failure::Undecodable(self.wire.scrub(&format!("the result of {method} is not what it should be: {error}")))
        })
    }

    fn own_failure(&self, method: &'static str, failure: Failure) -> Failure {
        match failure {
            Failure::Answered { error, status, retry_after } => {
                Failure::Answered { error: CallError { method, ..error }, status, retry_after }
            }
            Failure::Undecodable(text) => Failure::Undecodable(self.wire.scrub(&text)),
            Failure::Request(text) => Failure::Request(self.wire.scrub(&text)),
            failure => failure,
        }
    }
}

/// The node's error as ours; the layer below has scrubbed its texts and passes data on as JSON text within a string.
fn own_error(method: &'static str, error: &ErrorObjectOwned) -> CallError {
    let data = error.data().and_then(|data| serde_json::from_str::<Option<String>>(data.get()).ok().flatten());
    CallError { method, code: error.code(), message: error.message().to_owned(), data }
}

/// An error that came within a well-formed answer.
fn answered(error: CallError) -> Failure {
    Failure::Answered { error, status: 200, retry_after: None }
}
