//! The asking side: the same operations over HTTP.

use crate::instance::InstanceAddress;
use crate::problem::Problem;
use crate::view::{
    ChainDetail, ConsumerView, Counted, Coverage, CoverageQuery, CursorView, DeadGroup, DeadQuery, DeliveryDetail, DeliveryQuery,
    DeliveryView, DepositLife, DepositQuery, DepositView, Done, EventsPage, EventsQuery, ExplainQuery, Explanation, Pause,
    PutCursor, Reloaded, Replay, Requeue, RescanOrder, RescanRequest, RescanView, ResumeRequest, ResumeView, Skip, Status,
    TestResult, WatchAdd, WatchAdded, WatchQuery, WatchRemove, WatchRequest, Watched,
};
use crate::{DumpStream, Operator, OperatorError, Page, guard, merge};
use async_trait::async_trait;
use bytes::Bytes;
use confirmd_core::{ChainName, ConsumerName, CursorName, EventId, Secret, with_causes};
use futures::StreamExt;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::{Client as Http, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// The longest operation is a commit of a long list.
const DEADLINE: Duration = Duration::from_secs(120);
/// A local instance answers this at once, or it is stuck.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);
const ANSWER_MAX: usize = 64 * 1024 * 1024;
/// Addresses in one request; keeps each below the server's limit.
const LIST_MAX: usize = 20_000;

/// A running instance, over its loopback port.
#[derive(Debug, Clone)]
pub struct Client {
    http: Http<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
    token: Option<Secret>,
}

/// What is known of a state's instance.
#[derive(Debug)]
pub enum Found {
    /// It runs and answers.
    Running(Box<Client>),
    /// Nothing answers where the state's folder says, or it says nothing.
    Nothing,
    /// Something holds the port but does not answer in time.
    Stuck(SocketAddr),
}

impl Client {
    /// The instance at this address.
    pub fn new(address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(PROBE_DEADLINE));
        Self { http: Http::builder(TokioExecutor::new()).build(connector), address, token: None }
    }

    /// With a token.
    #[must_use]
    pub fn with_token(self, token: Option<Secret>) -> Self {
        Self { token, ..self }
    }

    /// Looks for the instance that runs on a state's folder.
    pub async fn find(state: &Path) -> Found {
        let Some(known) = InstanceAddress::read(state) else { return Found::Nothing };
        let client = Self::new(known.reachable());
        let probe = client.call::<serde_json::Value>(Method::GET, "/healthz", None);
        match tokio::time::timeout(PROBE_DEADLINE, probe).await {
            Ok(Ok(health)) if health.get("instance").and_then(|i| i.as_str()) == Some(known.instance.as_str()) => {
                Found::Running(Box::new(client))
            }
            Ok(_) => Found::Nothing,
            Err(_) => Found::Stuck(known.reachable()),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn request(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Request<Full<Bytes>>, OperatorError> {
        let mut request = Request::builder();
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        request
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header(header::CONTENT_TYPE, "application/json")
            .header(guard::REQUEST_HEADER, "1")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| OperatorError::invalid(format!("{path} can't be asked for: {error}")))
    }

    async fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<T, OperatorError> {
        let request = self.request(method, path, body)?;
        let answer = tokio::time::timeout(DEADLINE, self.exchange(request)).await;
        let (ok, bytes) = answer.map_err(|_| self.silent())??;
        if ok {
            return serde_json::from_slice(&bytes).map_err(|error| {
                OperatorError::failed(format!(
                    "the answer of the instance at {} can't be read: {error}; is it of another version?",
                    self.address
                ))
            });
        }
        Err(self.refusal(&bytes))
    }

    fn silent(&self) -> OperatorError {
        OperatorError::unavailable(format!("the instance at {} did not answer within {DEADLINE:?}", self.address))
    }

    fn gone(&self, error: &dyn std::error::Error) -> OperatorError {
        OperatorError::unavailable(format!("the instance at {} can't be asked: {}", self.address, with_causes(error)))
    }

    /// What an answer that is none says.
    fn refusal(&self, bytes: &[u8]) -> OperatorError {
        match serde_json::from_slice::<Problem>(bytes) {
            Ok(problem) => problem.into_error(),
            Err(_) => OperatorError::failed(format!("what listens on {} is not confirmd", self.address)),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(bool, Bytes), OperatorError> {
        let response = self.http.request(request).await.map_err(|error| self.gone(&error))?;
        let ok = response.status().is_success();
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await.map_err(|error| self.gone(&*error))?;
        Ok((ok, body.to_bytes()))
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, query: &impl Serialize) -> Result<T, OperatorError> {
        let path = format!("{path}{}", query_string(query));
        self.call(Method::GET, &path, None).await
    }

    async fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: &impl Serialize) -> Result<T, OperatorError> {
        let body = serde_json::to_vec(body).expect("invariant: requests are plain data");
        self.call(method, path, Some(body)).await
    }
}

/// `?name=value&…` of a flat struct; parts that are `None` are left out.
fn query_string(query: &impl Serialize) -> String {
    let Ok(serde_json::Value::Object(parts)) = serde_json::to_value(query) else { return String::new() };
    let mut out = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in &parts {
        match value {
            serde_json::Value::Null => {}
            serde_json::Value::String(text) => drop(out.append_pair(name, text)),
            other => drop(out.append_pair(name, &other.to_string())),
        }
    }
    let text = out.finish();
    if text.is_empty() { text } else { format!("?{text}") }
}

/// One part of a path: what it may not hold is escaped.
fn segment(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

fn must_be_stopped(what: &str) -> OperatorError {
    OperatorError::conflict(format!("an instance runs on this state; stop it, then {what} again"))
}

#[async_trait]
impl Operator for Client {
    async fn status(&self) -> Result<Status, OperatorError> {
        self.get("/v1/status", &()).await
    }

    async fn chain(&self, chain: &ChainName) -> Result<ChainDetail, OperatorError> {
        self.get(&format!("/v1/chains/{chain}"), &()).await
    }

    async fn preview(&self, chain: &ChainName, request: ResumeRequest) -> Result<ResumeView, OperatorError> {
        self.send(Method::POST, &format!("/v1/chains/{chain}/resume/preview"), &request).await
    }

    async fn deposit(&self, chain: &ChainName, tx_id: &str, output_index: u32) -> Result<DepositLife, OperatorError> {
        self.get(&format!("/v1/chains/{chain}/deposits/{}/{output_index}", segment(tx_id)), &()).await
    }

    async fn explain(&self, chain: &ChainName, tx_id: &str, query: &ExplainQuery) -> Result<Explanation, OperatorError> {
        self.get(&format!("/v1/chains/{chain}/transactions/{}/explanation", segment(tx_id)), query).await
    }

    async fn events(&self, query: &EventsQuery) -> Result<EventsPage, OperatorError> {
        self.get("/v1/events", query).await
    }

    async fn cursors(&self) -> Result<Vec<CursorView>, OperatorError> {
        self.get("/v1/cursors", &()).await
    }

    async fn put_cursor(&self, name: &CursorName, put: PutCursor) -> Result<CursorView, OperatorError> {
        self.send(Method::PUT, &format!("/v1/cursors/{name}"), &put).await
    }

    async fn remove_cursor(&self, name: &CursorName) -> Result<(), OperatorError> {
        self.send(Method::DELETE, &format!("/v1/cursors/{name}"), &Done {}).await.map(|Done {}| ())
    }

    async fn dead_letters(&self, query: &DeadQuery) -> Result<Vec<DeadGroup>, OperatorError> {
        self.get("/v1/dead-letters", query).await
    }

    async fn replay(&self, consumer: &ConsumerName, request: Replay) -> Result<Counted, OperatorError> {
        self.send(Method::POST, &format!("/v1/consumers/{consumer}/replay"), &request).await
    }

    async fn test_event(&self, consumer: &ConsumerName) -> Result<TestResult, OperatorError> {
        self.send(Method::POST, &format!("/v1/consumers/{consumer}/test"), &Done {}).await
    }

    async fn watched(&self, query: &WatchQuery) -> Result<Page<Watched>, OperatorError> {
        self.get("/v1/addresses", query).await
    }

    async fn rescans(&self, chain: &ChainName) -> Result<Vec<RescanView>, OperatorError> {
        self.get(&format!("/v1/chains/{chain}/rescans"), &()).await
    }

    async fn rescan(&self, chain: &ChainName, request: RescanRequest) -> Result<RescanView, OperatorError> {
        self.send(Method::POST, &format!("/v1/chains/{chain}/rescans"), &request).await
    }

    async fn order_rescan(&self, chain: &ChainName, id: u64, order: RescanOrder) -> Result<RescanView, OperatorError> {
        self.send(Method::POST, &format!("/v1/chains/{chain}/rescans/{id}/{}", order.as_str()), &Done {}).await
    }

    async fn coverage(&self, chain: &ChainName, query: &CoverageQuery) -> Result<Coverage, OperatorError> {
        self.get(&format!("/v1/chains/{chain}/coverage"), query).await
    }

    async fn watch_add(&self, entries: Vec<WatchRequest>) -> Result<Vec<WatchAdded>, OperatorError> {
        if entries.len() > LIST_MAX {
            let mut added: Vec<WatchAdded> = Vec::new();
            for part in entries.chunks(LIST_MAX) {
                let part =
                    self.send::<Vec<WatchAdded>>(Method::POST, "/v1/addresses", &WatchAdd { entries: part.to_vec() }).await?;
                part.into_iter().for_each(|new| merge(&mut added, new));
            }
            return Ok(added);
        }
        self.send(Method::POST, "/v1/addresses", &WatchAdd { entries }).await
    }

    async fn watch_remove(&self, chain: &ChainName, addresses: Vec<String>) -> Result<Counted, OperatorError> {
        self.send(Method::DELETE, "/v1/addresses", &WatchRemove { chain: chain.clone(), addresses }).await
    }

    async fn deposits(&self, query: &DepositQuery) -> Result<Page<DepositView>, OperatorError> {
        self.get("/v1/deposits", query).await
    }

    async fn deliveries(&self, query: &DeliveryQuery) -> Result<Page<DeliveryView>, OperatorError> {
        self.get("/v1/deliveries", query).await
    }

    async fn delivery(&self, event: &EventId) -> Result<DeliveryDetail, OperatorError> {
        self.get(&format!("/v1/deliveries/{event}"), &()).await
    }

    async fn requeue(&self, consumer: &ConsumerName, request: Requeue) -> Result<Counted, OperatorError> {
        self.send(Method::POST, &format!("/v1/consumers/{consumer}/requeue"), &request).await
    }

    async fn skip(&self, consumer: &ConsumerName, event: &EventId) -> Result<(), OperatorError> {
        self.send(Method::POST, &format!("/v1/consumers/{consumer}/skip"), &Skip { event: event.clone() }).await.map(|Done {}| ())
    }

    async fn consumers(&self) -> Result<Vec<ConsumerView>, OperatorError> {
        self.get("/v1/consumers", &()).await
    }

    async fn pause(&self, consumer: &ConsumerName, why: Option<String>) -> Result<ConsumerView, OperatorError> {
        match why {
            Some(why) => {
                let body = Pause { why: Some(why) };
                self.send(Method::POST, &format!("/v1/consumers/{consumer}/pause"), &body).await
            }
            None => self.send(Method::POST, &format!("/v1/consumers/{consumer}/resume"), &Done {}).await,
        }
    }

    async fn rename(&self, _: &ConsumerName, _: &ConsumerName) -> Result<(), OperatorError> {
        Err(must_be_stopped("rename"))
    }

    async fn purge(&self, _: &ConsumerName) -> Result<Counted, OperatorError> {
        Err(must_be_stopped("purge"))
    }

    async fn reload(&self) -> Result<Reloaded, OperatorError> {
        self.send(Method::POST, "/v1/reload", &Done {}).await
    }

    async fn export(&self) -> Result<DumpStream, OperatorError> {
        let request = self.request(Method::GET, "/v1/state/export", None)?;
        let response = tokio::time::timeout(DEADLINE, self.http.request(request)).await.map_err(|_| self.silent())?;
        let response = response.map_err(|error| self.gone(&error))?;
        if !response.status().is_success() {
            let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await.map_err(|error| self.gone(&*error))?;
            return Err(self.refusal(&body.to_bytes()));
        }
        let parts = futures::stream::unfold((self.clone(), Some(response.into_body())), |(client, body)| async move {
            let mut body = body?;
            // However long the whole takes, a piece of it comes in time.
            let part = match tokio::time::timeout(DEADLINE, body.frame()).await {
                Ok(None) => return None,
                Ok(Some(Ok(frame))) => Ok(frame.into_data().unwrap_or_default()),
                Ok(Some(Err(error))) => Err(client.gone(&error)),
                Err(_) => Err(client.silent()),
            };
            let body = part.is_ok().then_some(body);
            Some((part, (client, body)))
        });
        Ok(parts.boxed())
    }

    async fn resume(&self, chain: &ChainName, request: ResumeRequest) -> Result<ResumeView, OperatorError> {
        self.send(Method::POST, &format!("/v1/chains/{chain}/resume"), &request).await
    }
}
