//! A collector: takes OTLP over HTTP, reads it with the official types, and refuses on demand.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use confirmd_testkit::http::LoopbackServer;
use e2e::SOON;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::sync::watch;

/// One span that was taken.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    /// `service.instance.id`: another one after a restart.
    pub(super) instance: String,
    pub(super) service: String,
    pub(super) span: Span,
}

#[derive(Debug, Default)]
struct Books {
    spans: Vec<Taken>,
    /// `authorization` of each request, refused ones included.
    tokens: Vec<Option<String>>,
    /// What no collector would take.
    problems: Vec<String>,
    refuse: Option<StatusCode>,
}

#[derive(Debug)]
struct Shared {
    books: Mutex<Books>,
    changed: watch::Sender<u64>,
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running collector.
#[derive(Debug)]
pub(super) struct Collector {
    shared: Arc<Shared>,
    server: LoopbackServer,
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|pair| pair.key == key)?.value.clone()?.value?;
    match value {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

impl Taken {
    /// A text, or a number as text.
    pub(super) fn says(&self, key: &str) -> String {
        text(&self.span.attributes, key).unwrap_or_default()
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.span.name == name
    }
}

async fn take(State(shared): State<Arc<Shared>>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let answer = shared.books().take(&method, &uri, &headers, &body);
    shared.changed.send_modify(|version| *version += 1);
    answer
}

impl Books {
    fn take(&mut self, method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Response {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        self.tokens.push(header(header::AUTHORIZATION));
        if let Some(status) = self.refuse {
            return status.into_response();
        }
        let kind = header(header::CONTENT_TYPE);
        if *method != Method::POST || uri.path() != "/v1/traces" || kind.as_deref() != Some("application/x-protobuf") {
            self.problems.push(format!("{method} {uri} {kind:?}"));
            return StatusCode::NOT_FOUND.into_response();
        }
        match ExportTraceServiceRequest::decode(body) {
            Ok(request) => self.keep(request),
            Err(error) => self.problems.push(error.to_string()),
        }
        let answer = ExportTraceServiceResponse::default().encode_to_vec();
        ([(header::CONTENT_TYPE, "application/x-protobuf")], answer).into_response()
    }

    fn keep(&mut self, request: ExportTraceServiceRequest) {
        for of_resource in request.resource_spans {
            let attributes = of_resource.resource.unwrap_or_default().attributes;
            let resource = |key| text(&attributes, key).unwrap_or_default();
            let (instance, service) = (resource("service.instance.id"), resource("service.name"));
            for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                self.spans.push(Taken { instance: instance.clone(), service: service.clone(), span });
            }
        }
    }
}

impl Collector {
    pub(super) async fn start() -> Result<Self> {
        let shared = Arc::new(Shared { books: Mutex::default(), changed: watch::Sender::new(0) });
        let app = Router::new().fallback(take).with_state(shared.clone());
        let server = LoopbackServer::start(app).await.context("start the collector")?;
        Ok(Self { shared, server })
    }

    /// Where it takes OTLP.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Refuses connections; the port stays ours.
    pub(super) async fn down(&self) -> Result<()> {
        Ok(self.server.stop().await?)
    }

    pub(super) async fn up(&self) -> Result<()> {
        Ok(self.server.restart().await?)
    }

    /// Answers every request so, or takes it.
    pub(super) fn refuse(&self, status: Option<u16>) -> Result<()> {
        self.shared.books().refuse = status.map(StatusCode::from_u16).transpose()?;
        Ok(())
    }

    pub(super) fn spans(&self) -> Vec<Taken> {
        self.shared.books().spans.clone()
    }

    /// `authorization` of every request.
    pub(super) fn tokens(&self) -> Vec<Option<String>> {
        self.shared.books().tokens.clone()
    }

    /// Nothing came that no collector would take.
    pub(super) fn ensure_sound(&self) -> Result<()> {
        let books = self.shared.books();
        ensure!(books.problems.is_empty(), "{:#?}", books.problems);
        let whole = |span: &Span| span.trace_id.len() == 16 && span.span_id.len() == 8 && span.span_id != [0; 8];
        let ordered = |span: &Span| 0 < span.start_time_unix_nano && span.start_time_unix_nano <= span.end_time_unix_nano;
        for taken in &books.spans {
            ensure!(whole(&taken.span) && ordered(&taken.span), "{taken:#?}");
        }
        Ok(())
    }

    /// Waits until spans and number of requests are as wanted.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&[Taken], usize) -> bool) -> Result<()> {
        let mut changed = self.shared.changed.subscribe();
        let wait = async {
            loop {
                {
                    let books = self.shared.books();
                    if holds(&books.spans, books.tokens.len()) {
                        return;
                    }
                }
                // The sender lives as long as we do.
                let _ = changed.changed().await;
            }
        };
        if tokio::time::timeout(SOON, wait).await.is_err() {
            bail!("the collector did not see {what} within {SOON:?}; it has {:#?}", self.spans());
        }
        Ok(())
    }
}
