//! The reader: which endpoint, how often, how long.

use crate::classify::{Verdict, verdict};
use crate::connect::{BoxError, exchange_over};
use crate::endpoint::{Connect, Endpoint};
use crate::endpoint_config::EndpointConfig;
use crate::error::{CallError, Context, RpcError};
use crate::failure::Failure;
use crate::health::EndpointHealth;
use crate::limits::Limits;
use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use confirmd_core::{ConfigError, SourceMeter};
use http::Uri;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep};
use tower::Service;

/// Pauses double from here, each with up to as much again as jitter.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Reads from one of several endpoints. Cheap to share behind an `Arc`; calls may run at the same time, and dropping a
/// call's future leaves the client usable.
///
/// It stays with an endpoint until a call has used up its attempts or its deadline there; that call still fails, and the
/// next one goes to the next endpoint. So a caller that gives up its tick on the first error reads each tick from one
/// endpoint.
pub struct RpcClient {
    endpoints: Vec<Arc<Endpoint>>,
    limits: Limits,
    current: AtomicUsize,
    generation: AtomicU64,
    jitter_seed: AtomicU64,
}

/// Makes an [`RpcClient`] that is not quite the usual one.
#[derive(Default)]
pub struct RpcClientBuilder {
    connect: Option<Box<Connect>>,
    jitter_seed: Option<u64>,
    now: Option<fn() -> SystemTime>,
    meter: SourceMeter,
}

impl RpcClientBuilder {
    /// Connects with `connector` instead of TCP (and without TLS): in memory, for example.
    #[must_use]
    pub fn connector<C>(mut self, connector: C) -> Self
    where
        C: Service<Uri> + Clone + Send + Sync + 'static,
        C::Response: Read + Write + Connection + Send + Unpin + 'static,
        C::Error: Into<BoxError>,
        C::Future: Send + 'static,
    {
        self.connect = Some(Box::new(move |links| exchange_over(connector.clone(), links)));
        self
    }

    /// Makes the pauses between attempts repeatable.
    #[must_use]
    pub fn jitter_seed(mut self, seed: u64) -> Self {
        self.jitter_seed = Some(seed);
        self
    }

    /// Counts the requests of all endpoints here, too.
    #[must_use]
    pub fn meter(mut self, meter: SourceMeter) -> Self {
        self.meter = meter;
        self
    }

    /// The wall clock for `Retry-After` dates.
    #[must_use]
    pub fn wall_clock(mut self, now: fn() -> SystemTime) -> Self {
        self.now = Some(now);
        self
    }

    /// Reads the secrets and makes the client; connects to nothing yet. Needs a tokio runtime from the first call on.
    /// Errors name the key: `rpc[1].password`.
    pub fn build(self, endpoints: &[EndpointConfig], limits: &Limits) -> Result<RpcClient, ConfigError> {
        limits.check()?;
        if endpoints.is_empty() {
            return Err(ConfigError::new("rpc", "at least one endpoint is needed: rpc = [{ url = \"http://127.0.0.1:8332\" }]"));
        }
        let mut slowest: Option<Limits> = None;
        let make = |(n, config): (usize, &EndpointConfig)| {
            let target = config.resolve().map_err(|error| error.below(&format!("rpc[{n}]")))?;
            let now = self.now.unwrap_or(SystemTime::now);
            let own = limits.for_host(target.uri.host().unwrap_or_default());
            let made = Endpoint::new(target, &own, self.connect.as_deref(), now, &self.meter).map(Arc::new);
            if slowest.as_ref().is_none_or(|slowest| own.rate() < slowest.rate()) {
                slowest = Some(own);
            }
            made
        };
        let made = endpoints.iter().enumerate().map(make).collect::<Result<_, _>>()?;
        let slowest = slowest.unwrap_or_else(|| limits.clone());
        self.meter.limited_to(u64::from(slowest.rate().get()));
        Ok(RpcClient {
            endpoints: made,
            limits: slowest,
            current: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            jitter_seed: AtomicU64::new(self.jitter_seed.unwrap_or_else(|| fastrand::u64(..))),
        })
    }
}

impl RpcClient {
    /// A client over TCP. See [`RpcClientBuilder::build`].
    pub fn new(endpoints: &[EndpointConfig], limits: &Limits) -> Result<Self, ConfigError> {
        Self::builder().build(endpoints, limits)
    }

    /// For tests and other transports.
    pub fn builder() -> RpcClientBuilder {
        RpcClientBuilder::default()
    }

    /// Calls `method`. `params` serialise to an array or object; `()` is no parameters. A result that is not a `T` is
    /// read a second time before it is [`RpcError::Malformed`]; a node's `null` is a `T` only if `T` says so (`Option`).
    pub async fn call<T: DeserializeOwned>(&self, method: &'static str, params: impl Serialize) -> Result<T, RpcError> {
        let params = &self.params(method, &params)?;
        self.run(method, 1, |endpoint| async move { endpoint.decode(method, &endpoint.call(method, params).await?) }).await
    }

    /// Calls `method` and returns the result's JSON text.
    pub async fn call_raw(&self, method: &'static str, params: impl Serialize) -> Result<Box<RawValue>, RpcError> {
        let params = &self.params(method, &params)?;
        self.run(method, 1, |endpoint| async move { endpoint.call(method, params).await }).await
    }

    /// Sends all calls in one request and returns one answer per call, in order. Takes one permit per call, waiting for
    /// all of them first; the deadline covers that, so split what is larger than a few seconds' worth of permits (or use
    /// [`batch_in_parts`](Self::batch_in_parts)). A missing or doubled reply fails the batch, it is never an empty answer.
    pub async fn batch<T: DeserializeOwned>(
        &self,
        calls: Vec<(&'static str, impl Serialize)>,
    ) -> Result<Vec<Result<T, CallError>>, RpcError> {
        let Some(&(first, _)) = calls.first() else { return Ok(Vec::new()) };
        let calls = calls
            .iter()
            .map(|(method, params)| Ok((*method, self.params(method, params)?)))
            .collect::<Result<Vec<_>, RpcError>>()?;
        let calls = &calls;
        self.run(first, calls.len(), |endpoint| async move {
            let answers = endpoint.batch(calls).await?;
            let decoded = answers.into_iter().zip(calls).map(|(answer, (method, _))| match answer {
                Ok(result) => endpoint.decode(method, &result).map(Ok),
                Err(error) => Ok(Err(error)),
            });
            decoded.collect()
        })
        .await
    }

    /// Like [`batch`](Self::batch) in as many requests as needed, each with at most `calls_max` calls and at most the burst,
    /// and with a deadline of its own. For calls that need not be answered together. Fails as a whole.
    pub async fn batch_in_parts<T: DeserializeOwned>(
        &self,
        calls: Vec<(&'static str, impl Serialize)>,
        calls_max: usize,
    ) -> Result<Vec<Result<T, CallError>>, RpcError> {
        let burst = usize::try_from(self.limits.burst().get()).unwrap_or(usize::MAX);
        let size = calls_max.min(burst).max(1);
        let mut answers = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter().peekable();
        while calls.peek().is_some() {
            answers.extend(self.batch(calls.by_ref().take(size).collect()).await?);
        }
        Ok(answers)
    }

    /// Gets `path` (beginning with `/`) from the endpoint's host, for example `/rest/block/<hash>.bin` of a node with
    /// `-rest`. Same permits, attempts and deadline as a call. HTTP 400 and 404 are [`RpcError::Call`] with that code.
    pub async fn rest_get(&self, path: &str) -> Result<Bytes, RpcError> {
        self.run("GET", 1, |endpoint| async move { endpoint.get(path).await }).await
    }

    /// As [`rest_get`](Self::rest_get), but asked once, and a failure is no news of the endpoint: for finding out whether a
    /// node has a REST interface at all. `None`: it gave nothing, for whatever reason.
    pub async fn rest_probe(&self, path: &str) -> Option<Bytes> {
        let (_, endpoint) = self.endpoint();
        let deadline = Instant::now() + self.limits.deadline.0;
        let answer = endpoint.attempt(1, deadline, endpoint.get(path)).await.ok()?;
        self.heard(endpoint);
        Some(answer)
    }

    /// Grows whenever another node may be answering: after a change of endpoint, and with the first success after the
    /// connection was lost or made anew. Read it after a call: if it has moved, ask who the node is before using what it said.
    pub fn generation(&self) -> u64 {
        self.generation.load(SeqCst)
    }

    /// The position of the endpoint that is read from now.
    pub fn endpoint_index(&self) -> usize {
        self.current.load(SeqCst)
    }

    /// How many endpoints there are.
    pub fn endpoint_count(&self) -> usize {
        self.endpoints.len()
    }

    /// The limits in force; those of the slowest endpoint, where they differ.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counters of all endpoints, in configured order.
    pub fn health(&self) -> Vec<EndpointHealth> {
        let active = self.endpoint_index();
        let each = self.endpoints.iter().enumerate();
        each.map(|(n, endpoint)| endpoint.wire.stats.snapshot(&endpoint.wire.shown, n == active, endpoint.permits.taken()))
            .collect()
    }

    fn params(&self, method: &'static str, params: &impl Serialize) -> Result<Box<RawValue>, RpcError> {
        let made =
            to_raw_value(params).and_then(|raw| if raw.get() == "null" { RawValue::from_string("[]".into()) } else { Ok(raw) });
        made.map_err(|error| RpcError::Fatal {
            context: self.context(method, 1, self.endpoint().1, 0),
            source: Box::new(Failure::Request(error.to_string())),
        })
    }

    fn endpoint(&self) -> (usize, &Arc<Endpoint>) {
        let index = self.endpoint_index();
        (index, self.endpoints.get(index).expect("invariant: the index is taken modulo the number of endpoints"))
    }

    fn context(&self, method: &'static str, calls: usize, endpoint: &Endpoint, attempts: u32) -> Context {
        Context { method, calls, endpoint: endpoint.wire.shown.clone(), attempts }
    }

    fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        let seed = self.jitter_seed.fetch_add(1, SeqCst);
        ExponentialBuilder::new()
            .with_min_delay(PAUSE_FIRST)
            .with_max_delay(PAUSE_MAX)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(seed)
            .build()
    }

    /// The one retry loop.
    async fn run<'a, T, F>(
        &'a self,
        method: &'static str,
        calls: usize,
        request: impl Fn(&'a Endpoint) -> F,
    ) -> Result<T, RpcError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let (index, endpoint) = self.endpoint();
        let permits = u32::try_from(calls).unwrap_or(u32::MAX);
        let deadline = Instant::now() + self.limits.deadline.0;
        let mut pauses = self.pauses();
        let mut budget = Budget { attempts_max: self.limits.attempts.get(), ..Budget::default() };
        loop {
            let failure = match endpoint.attempt(permits, deadline, request(endpoint)).await {
                Ok(value) => {
                    self.heard(endpoint);
                    return Ok(value);
                }
                Err(failure) => failure,
            };
            let verdict = verdict(&failure);
            budget.attempts += u32::from(!matches!(verdict, Verdict::Later(_)));
            let attempts = budget.attempts;
            let context = || self.context(method, calls, endpoint, attempts);
            let give_up = |retry_after| {
                if !matches!(failure, Failure::NoPermit(_)) {
                    self.leave(index, &failure);
                }
                RpcError::Transient { retry_after, context: context(), source: Box::new(failure.clone()) }
            };
            let retry_after = match verdict {
                Verdict::Answer => {
                    self.heard(endpoint);
                    let Failure::Answered { error, .. } = failure else {
                        unreachable!("invariant: only an answer is judged one")
                    };
                    return Err(error.into());
                }
                Verdict::Later(wait) => return Err(give_up(Some(wait))),
                Verdict::Authenticate if budget.authenticate(endpoint, &failure) => {
                    endpoint.wire.stats.retried();
                    continue;
                }
                Verdict::ReadAgain if !budget.read_again() => {
                    return Err(RpcError::Malformed { context: context(), source: Box::new(failure) });
                }
                Verdict::Authenticate | Verdict::Stop => {
                    return Err(RpcError::Fatal { context: context(), source: Box::new(failure) });
                }
                Verdict::Retry(retry_after) => retry_after,
                Verdict::ReadAgain => None,
            };
            let pause = pauses.next().unwrap_or(PAUSE_MAX).max(retry_after.unwrap_or_default());
            if let Some(wait) = retry_after {
                endpoint.permits.pause(Instant::now() + wait);
            }
            if budget.attempts >= budget.attempts_max || Instant::now() + pause > deadline {
                return Err(give_up(retry_after));
            }
            tracing::debug!(endpoint = %endpoint.wire.shown, method, attempt = budget.attempts, error = %failure, "asking again");
            sleep(pause).await;
            endpoint.wire.stats.retried();
        }
    }

    /// The endpoint answered.
    fn heard(&self, endpoint: &Endpoint) {
        if endpoint.wire.links.take_renewed() {
            self.generation.fetch_add(1, SeqCst);
        }
    }

    /// The endpoint has failed a call: the next call goes to the next one.
    fn leave(&self, index: usize, failure: &Failure) {
        let next = (index + 1) % self.endpoints.len();
        // Of several calls that fail together, one turns the page.
        if next != index && self.current.compare_exchange(index, next, SeqCst, SeqCst).is_ok() {
            self.generation.fetch_add(1, SeqCst);
            let shown = |n: usize| self.endpoints.get(n).map(|endpoint| endpoint.wire.shown.to_string()).unwrap_or_default();
            tracing::warn!(from = shown(index), to = shown(next), error = %failure, "changing to another endpoint");
        }
    }
}

/// What one call has spent.
#[derive(Default)]
struct Budget {
    attempts: u32,
    attempts_max: u32,
    authenticated: bool,
    read_again: bool,
}

impl Budget {
    /// True once, if other credentials can be had.
    fn authenticate(&mut self, endpoint: &Endpoint, failure: &Failure) -> bool {
        let Failure::Denied { version, .. } = failure else { return false };
        let first = !std::mem::replace(&mut self.authenticated, true);
        let again = first && endpoint.wire.credentials.forget(*version);
        self.extend(again);
        again
    }

    /// True once.
    fn read_again(&mut self) -> bool {
        let again = !std::mem::replace(&mut self.read_again, true);
        self.extend(again);
        again
    }

    /// The repetition takes place even if the attempts are used up.
    fn extend(&mut self, again: bool) {
        if again && self.attempts >= self.attempts_max {
            self.attempts_max = self.attempts.saturating_add(1);
        }
    }
}

impl fmt::Debug for RpcClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoints: Vec<_> = self.endpoints.iter().map(|endpoint| &endpoint.wire.shown).collect();
        f.debug_struct("RpcClient")
            .field("endpoints", &endpoints)
            .field("current", &self.endpoint_index())
            .finish_non_exhaustive()
    }
}
