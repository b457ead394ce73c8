//! A JSON-RPC proxy on loopback that spoils what goes through it: between a reader under test and a real node.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use confirmd_testkit::http::LoopbackServer;
use confirmd_testkit::http::client;
use serde_json::{Value, json};

/// What happens to a whole request instead of its being passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestFault {
    /// An HTTP answer of the proxy's own.
    Status {
        /// HTTP status.
        status: u16,
        /// `Retry-After`.
        retry_after: Option<Duration>,
        /// Body, as plain text.
        body: String,
    },
    /// No answer, and the connection stays open.
    Silence,
}

/// Changes a call before it is passed on.
pub type BeforeCall = Box<dyn Fn(&mut Value) + Send + Sync>;
/// Changes the reply to a call: the call, then the reply object with `result` or `error`.
pub type AfterCall = Box<dyn Fn(&Value, &mut Value) + Send + Sync>;

#[derive(Default)]
struct Faults {
    request: Option<(RequestFault, u32)>,
    before: Vec<BeforeCall>,
    after: Vec<AfterCall>,
    reversed: bool,
    requests: u64,
}

struct Inner {
    node: String,
    authorization: Option<String>,
    faults: Mutex<Faults>,
}

impl Inner {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running proxy. It stops when it is dropped.
pub struct FaultProxy {
    inner: Arc<Inner>,
    server: LoopbackServer,
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxy").field("server", &self.server.address()).finish_non_exhaustive()
    }
}

impl FaultProxy {
    /// A proxy in front of a node's URL, which logs in there with `user:password` if any.
    pub async fn start(node: &str, credentials: Option<&str>) -> Result<Self> {
        let authorization = credentials.map(|pair| format!("Basic {}", STANDARD.encode(pair)));
        let inner = Arc::new(Inner { node: node.to_owned(), authorization, faults: Mutex::default() });
        let app = Router::new().fallback(pass).with_state(Arc::clone(&inner));
        let server = LoopbackServer::start(app).await.context("start the proxy")?;
        Ok(Self { inner, server })
    }

    /// Where it listens; every path is served.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Requests that came in.
    pub fn requests(&self) -> u64 {
        self.inner.faults().requests
    }

    /// The next `requests` requests meet this.
    pub fn fault(&self, fault: RequestFault, requests: u32) {
        self.inner.faults().request = Some((fault, requests));
    }

    /// From now on every call is changed before it is passed on.
    pub fn before(&self, change: impl Fn(&mut Value) + Send + Sync + 'static) {
        self.inner.faults().before.push(Box::new(change));
    }

    /// From now on every reply is changed.
    pub fn after(&self, change: impl Fn(&Value, &mut Value) + Send + Sync + 'static) {
        self.inner.faults().after.push(Box::new(change));
    }

    /// From now on the replies of a batch come in reverse order.
    pub fn reverse(&self) {
        self.inner.faults().reversed = true;
    }

    /// Takes everything back.
    pub fn repair(&self) {
        let mut faults = self.inner.faults();
        let requests = faults.requests;
        *faults = Faults { requests, ..Faults::default() };
    }

    /// Closes every connection; new ones are taken again.
    pub async fn reconnect(&self) -> Result<()> {
        self.server.stop().await.context("stop the proxy")?;
        self.server.restart().await.context("start the proxy again")
    }
}

/// The reply becomes this result.
pub fn with_result(reply: &mut Value, result: Value) {
    if let Some(fields) = reply.as_object_mut() {
        fields.insert("result".into(), result);
        // The older dialect has both fields always.
        if fields.contains_key("jsonrpc") {
            fields.remove("error");
        } else {
            fields.insert("error".into(), Value::Null);
        }
    }
}

/// The reply becomes this error.
pub fn with_error(reply: &mut Value, code: i64, message: &str) {
    if let Some(fields) = reply.as_object_mut() {
        fields.remove("result");
        fields.insert("error".into(), json!({ "code": code, "message": message }));
    }
}

async fn pass(State(inner): State<Arc<Inner>>, body: Bytes) -> Response {
    let fault = {
        let mut faults = inner.faults();
        faults.requests += 1;
        match &mut faults.request {
            Some((fault, left)) if *left > 0 => {
                *left -= 1;
                Some(fault.clone())
            }
            _ => None,
        }
    };
    match fault {
        Some(RequestFault::Silence) => std::future::pending().await,
        Some(RequestFault::Status { status, retry_after, body }) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            match retry_after {
                Some(wait) => (status, [(header::RETRY_AFTER, wait.as_secs().to_string())], body).into_response(),
                None => (status, body).into_response(),
            }
        }
        None => match forward(&inner, &body).await {
            Ok(response) => response,
            Err(error) => (StatusCode::BAD_GATEWAY, format!("the proxy failed: {error:#}")).into_response(),
        },
    }
}

async fn forward(inner: &Inner, body: &[u8]) -> Result<Response> {
    let mut request: Value = serde_json::from_slice(body).context("the request is no JSON")?;
    {
        let faults = inner.faults();
        each(&mut request, |call| faults.before.iter().for_each(|change| change(call)));
    }
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(inner.authorization.as_deref().map(|authorization| ("authorization", authorization)));
    let reply = client::post(&inner.node, &headers, request.to_string().as_bytes()).await.context("ask the node")?;
    let Ok(mut answer) = serde_json::from_slice::<Value>(&reply.body) else {
        return Ok((StatusCode::from_u16(reply.status)?, reply.body).into_response());
    };
    let mut status = StatusCode::from_u16(reply.status)?;
    let calls: Vec<Value> = request.as_array().cloned().unwrap_or_else(|| vec![request.clone()]);
    let faults = inner.faults();
    if !faults.after.is_empty() {
        each(&mut answer, |reply| {
            let call = calls.iter().find(|call| call.get("id") == reply.get("id"));
            call.into_iter().for_each(|call| faults.after.iter().for_each(|change| change(call, reply)));
        });
        // The older dialect tells by the status too, which may no longer be true.
        status = StatusCode::OK;
    }
    if let (true, Some(replies)) = (faults.reversed, answer.as_array_mut()) {
        replies.reverse();
    }
    Ok((status, [(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response())
}

/// A single object, or each of a batch.
fn each(value: &mut Value, mut act: impl FnMut(&mut Value)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(act),
        single => act(single),
    }
}
