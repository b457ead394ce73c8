//! Takes spans to the collector. It has a queue, a retry and one line in the log where trouble begins; nothing waits for it.

use super::otlp;
use super::span::Span;
use crate::config::TelemetryConfig;
use confirmd_core::with_causes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Spans in one request.
const BATCH_MAX: usize = 512;
/// Spans of one tick go together.
const GATHER: Duration = Duration::from_millis(200);
/// Connecting, sending and the whole answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Between two tries of a batch: doubled from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// At the end; what is not taken by then is lost.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);
/// An answer says little.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// The running export.
#[derive(Debug)]
pub(super) struct Exporter {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Why a batch was not taken.
enum Failure {
    /// It may be taken later.
    Later(String),
    /// It never will be.
    Never(String),
}

struct Export {
    queued: mpsc::Receiver<Span>,
    dropped: Arc<AtomicU64>,
    /// Not yet taken by the collector.
    batch: Vec<Span>,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    config: TelemetryConfig,
    instance: String,
    /// Said in the log, and not over yet.
    troubled: bool,
}

impl Exporter {
    /// Sends what is queued from now on. Nothing is contacted before there is something to send.
    pub(super) fn start(config: &TelemetryConfig, queued: mpsc::Receiver<Span>, dropped: Arc<AtomicU64>) -> anyhow::Result<Self> {
        let tls = HttpsConnectorBuilder::new().with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())?;
        let client = Client::builder(TokioExecutor::new()).build(tls.https_or_http().enable_http1().build());
        let instance = format!("{:x}-{:016x}", std::process::id(), fastrand::u64(..));
        let config = config.clone();
        let export = Export { queued, dropped, batch: Vec::new(), client, config, instance, troubled: false };
        let (stop, stopped) = oneshot::channel();
        Ok(Self { stop, task: tokio::spawn(export.run(stopped)) })
    }

    /// Sends what is left, within a bound. Nothing may be queued any more.
    pub(super) async fn end(self) {
        let Self { stop, task } = self;
        drop(stop);
        // A panic there has lost spans and nothing else.
        let _ = task.await;
    }
}

impl Export {
    async fn run(mut self, stopped: oneshot::Receiver<()>) {
        tokio::select! {
            biased;
            _ = stopped => {}
            () = self.export() => return,
        }
        let _ = tokio::time::timeout(FLUSH_LIMIT, self.flush()).await;
        let lost = u64::try_from(self.batch.len().saturating_add(self.queued.len())).unwrap_or(u64::MAX);
        let lost = lost.saturating_add(self.dropped.swap(0, Ordering::Relaxed));
        if lost > 0 {
            tracing::warn!(
                spans = lost,
                "the collector did not take everything before the end; these spans are lost, nothing else"
            );
        }
    }

    /// Until there is nobody to record.
    async fn export(&mut self) {
        loop {
            if self.batch.is_empty() && self.queued.recv_many(&mut self.batch, BATCH_MAX).await == 0 {
                return;
            }
            tokio::time::sleep(GATHER).await;
            self.fill();
            let mut pause = PAUSE_MIN;
            while !self.send().await {
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(PAUSE_MAX);
            }
        }
    }

    /// What is left, tried once.
    async fn flush(&mut self) {
        self.fill();
        while !self.batch.is_empty() && self.send().await {
            self.fill();
        }
    }

    fn fill(&mut self) {
        while self.batch.len() < BATCH_MAX
            && let Ok(span) = self.queued.try_recv()
        {
            self.batch.push(span);
        }
    }

    /// Sends the batch. Returns whether it is done with.
    async fn send(&mut self) -> bool {
        let body = otlp::request(&self.config.service_name, &self.instance, &self.batch);
        let posted = tokio::time::timeout(REQUEST_LIMIT, self.post(body)).await;
        match posted.unwrap_or_else(|_| Err(Failure::Later(format!("no answer within {REQUEST_LIMIT:?}")))) {
            Ok(()) => self.batch.clear(),
            Err(Failure::Later(why)) => {
                self.trouble(&why, "traces can't be exported; some are kept until they can be, nothing else is affected");
                return false;
            }
            Err(Failure::Never(why)) => {
                self.trouble(&why, "the collector refuses traces; they are lost until it takes them, nothing else is affected");
                self.lose(self.batch.len());
                self.batch.clear();
                return true;
            }
        }
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if std::mem::take(&mut self.troubled) {
            tracing::info!(collector = %shown(&self.config.endpoint), dropped, "traces are exported again");
        } else if dropped > 0 {
            tracing::warn!(dropped, "more spans came at once than are kept; traces lack them, nothing else does");
        }
        true
    }

    async fn post(&self, body: Vec<u8>) -> Result<(), Failure> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = hyper::Method::POST;
        *request.uri_mut() = self.config.endpoint.clone();
        request.headers_mut().extend(self.config.headers.clone());
        request.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/x-protobuf"));
        // The client's own error repeats the URL.
        let response = self.client.request(request).await.map_err(|error| {
            let why = std::error::Error::source(&error).map(with_causes);
            Failure::Later(why.unwrap_or_else(|| "the connection failed".to_owned()))
        })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        match status {
            _ if status.is_success() => match otlp::rejected(&body) {
                None => Ok(()),
                Some((spans, why)) => Err(Failure::Never(format!("it takes all but {spans} spans: {why}"))),
            },
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(Failure::Later(format!("it answers {}", status.as_u16()))),
            _ => Err(Failure::Never(format!("it answers {}: endpoint, token or `telemetry.headers` is wrong", status.as_u16()))),
        }
    }

    fn lose(&self, spans: usize) {
        self.dropped.fetch_add(u64::try_from(spans).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// One line where it begins.
    fn trouble(&mut self, why: &str, line: &'static str) {
        if !std::mem::replace(&mut self.troubled, true) {
            tracing::warn!(collector = %shown(&self.config.endpoint), error = why, "{line}");
        }
    }
}

/// Scheme, host and port.
fn shown(endpoint: &Uri) -> String {
    let authority = endpoint.authority().map(hyper::http::uri::Authority::as_str).unwrap_or_default();
    format!("{}://{authority}", endpoint.scheme_str().unwrap_or_default())
}
