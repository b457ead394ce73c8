//! JSON-RPC over HTTP, as small as a driver needs it. It is not the client under test.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::process::Process;

const CALL_DEADLINE: Duration = Duration::from_secs(120);
const READY_DEADLINE: Duration = Duration::from_secs(60);
/// A node tells that it is ready by answering, and by nothing else.
const READY_POLL: Duration = Duration::from_millis(20);

/// The node's own error answer. Found in the `anyhow::Error` of a call by `downcast_ref`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the node answers {code}: {message}")]
pub struct RpcError {
    /// As sent, for example -8.
    pub code: i64,
    /// As sent.
    pub message: String,
}

/// A client of one node. Clones share connections; it belongs to the runtime of its trial.
#[derive(Debug, Clone)]
pub struct Rpc {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
    authorization: Option<String>,
}

impl Rpc {
    /// A client of `url`, with HTTP basic credentials (`user:password`) if any.
    pub fn new(url: &str, credentials: Option<&str>) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            url: url.to_owned(),
            authorization: credentials.map(|pair| format!("Basic {}", STANDARD.encode(pair))),
        }
    }

    /// The same node and credentials under another path, for example a wallet.
    pub fn at(&self, path: &str) -> Self {
        Self { url: format!("{}{path}", self.url.trim_end_matches('/')), ..self.clone() }
    }

    /// One call; the result, or the node's error as [`RpcError`].
    pub async fn call(&self, method: &str, params: Value) -> Result<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let (status, bytes) = self.post(body).await.with_context(|| format!("call {method} of {}", self.url))?;
        let answer: Value = serde_json::from_slice(&bytes)
            .with_context(|| format!("{method}: HTTP {status}, body {:?}", String::from_utf8_lossy(&bytes)))?;
        if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
            let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
            let message = error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
            return Err(RpcError { code, message }).with_context(|| format!("call {method} with {params}"));
        }
        answer.get("result").cloned().with_context(|| format!("{method}: neither result nor error in {answer}"))
    }

    /// As [`Rpc::call`], for a result that is a string.
    pub async fn text(&self, method: &str, params: Value) -> Result<String> {
        let result = self.call(method, params).await?;
        let text = result.as_str().map(str::to_owned);
        text.with_context(|| format!("{method} answers {result}, not a string"))
    }

    async fn post(&self, body: String) -> Result<(StatusCode, Bytes)> {
        let mut request = Request::post(&self.url).header("content-type", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let exchange = async {
            let response = self.client.request(request).await?;
            let status = response.status();
            Ok::<_, anyhow::Error>((status, response.into_body().collect().await?.to_bytes()))
        };
        match tokio::time::timeout(CALL_DEADLINE, exchange).await {
            Ok(answer) => answer,
            Err(_) => bail!("no answer within {CALL_DEADLINE:?}"),
        }
    }

    /// Waits until `method` is answered with a result; fails at once if the process ends before.
    pub(crate) async fn wait_ready(&self, method: &str, process: &mut Process) -> Result<()> {
        let start = Instant::now();
        loop {
            if let Some(status) = process.exited()? {
                bail!("the node ended while starting: {status}");
            }
            match self.call(method, json!([])).await {
                Ok(_) => return Ok(()),
                Err(error) if start.elapsed() > READY_DEADLINE => {
                    return Err(error).with_context(|| format!("not ready within {READY_DEADLINE:?}"));
                }
                Err(_) => tokio::time::sleep(READY_POLL).await,
            }
        }
    }
}
