//! The JSON-RPC side that both fake nodes share: dialects, batches, errors and faults.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::faults::{BatchFault, Faults, HttpFault};
use crate::http::close_connection;

/// Which envelope the answers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Always JSON-RPC 2.0 with HTTP 200, as geth and its like.
    V2,
    /// 2.0 when the request says so and the old form otherwise, as Bitcoin Core since 28.
    #[default]
    Core29,
    /// `result` and `error` always both present, errors with HTTP 500 or 404, as Litecoin 0.21.
    Legacy,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RpcError {
    /// The code on the wire.
    pub code: i64,
    /// The message on the wire.
    pub message: String,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: &str) -> Self {
        Self { code, message: message.to_owned() }
    }
}

pub(crate) type RpcResult = Result<Box<RawValue>, RpcError>;

/// A method's result, as the JSON text that goes out.
pub(crate) fn raw<T: Serialize + ?Sized>(value: &T) -> RpcResult {
    serde_json::value::to_raw_value(value).map_err(|error| RpcError::new(-32603, &format!("can't encode the result: {error}")))
}

/// What a fake node has to offer.
pub(crate) trait RpcNode: Send + Sync + 'static {
    fn dialect(&self) -> Dialect;
    fn faults(&self) -> &Faults;
    fn authorised(&self, headers: &HeaderMap) -> bool;
    fn call(&self, method: &str, params: &[Value]) -> RpcResult;
    /// A GET, for nodes with a REST interface; None is a 404.
    fn get(&self, path: &str, query: Option<&str>) -> Option<Response>;
}

pub(crate) fn router<N: RpcNode>(node: Arc<N>) -> Router {
    Router::new().fallback(handle::<N>).with_state(node)
}

async fn handle<N: RpcNode>(State(node): State<Arc<N>>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let fault = node.faults().next_http();
    match fault {
        Some(HttpFault::Hang) => return std::future::pending().await,
        Some(HttpFault::Close) => return close_connection(),
        Some(HttpFault::Status { status, retry_after, body }) => {
            return error_page(status, retry_after, body);
        }
        Some(HttpFault::Rpc(_)) | None => {}
    }
    if method == Method::GET {
        return node.get(uri.path(), uri.query()).unwrap_or_else(|| not_found(uri.path()));
    }
    if !node.authorised(&headers) {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Basic realm=\"jsonrpc\"")]).into_response();
    }
    let error = match fault {
        Some(HttpFault::Rpc(error)) => Some(error),
        _ => None,
    };
    answer(node.as_ref(), &body, error.as_ref())
}

fn error_page(status: u16, retry_after: Option<String>, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, body).into_response();
    if let Some(value) = retry_after.and_then(|text| text.parse().ok()) {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

fn not_found(path: &str) -> Response {
    (StatusCode::NOT_FOUND, format!("nothing is served at {path}")).into_response()
}

/// One reply in its envelope.
struct Reply {
    id: Value,
    v2: bool,
    result: RpcResult,
}

impl Reply {
    fn text(&self) -> String {
        let id = &self.id;
        match (&self.result, self.v2) {
            (Ok(result), true) => format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{id}}}"#),
            (Ok(result), false) => format!(r#"{{"result":{result},"error":null,"id":{id}}}"#),
            (Err(error), true) => {
                format!(r#"{{"jsonrpc":"2.0","error":{},"id":{id}}}"#, json!(error))
            }
            (Err(error), false) => {
                format!(r#"{{"result":null,"error":{},"id":{id}}}"#, json!(error))
            }
        }
    }

    fn status(&self) -> StatusCode {
        match &self.result {
            Err(error) if !self.v2 => match error.code {
                -32600 => StatusCode::BAD_REQUEST,
                -32601 => StatusCode::NOT_FOUND,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
            _ => StatusCode::OK,
        }
    }
}

fn answer<N: RpcNode>(node: &N, body: &[u8], error: Option<&RpcError>) -> Response {
    let v2 = node.dialect() == Dialect::V2;
    match serde_json::from_slice(body) {
        Ok(Value::Array(calls)) => answer_batch(node, calls, error, v2),
        Ok(call) => {
            let reply = answer_one(node, &call, error);
            json_response(reply.status(), reply.text())
        }
        Err(_) => {
            let result = Err(RpcError::new(-32700, "Parse error"));
            let reply = Reply { id: Value::Null, v2, result };
            json_response(reply.status(), reply.text())
        }
    }
}

fn answer_batch<N: RpcNode>(node: &N, calls: Vec<Value>, error: Option<&RpcError>, v2: bool) -> Response {
    let fault = match node.faults().next_batch(calls.len()) {
        Ok(fault) => fault,
        Err(error) => {
            let reply = Reply { id: Value::Null, v2, result: Err(error) };
            return json_response(StatusCode::OK, reply.text());
        }
    };
    let mut replies: Vec<Reply> = calls.iter().map(|call| answer_one(node, call, error)).collect();
    match fault {
        Some(BatchFault::Reversed) => replies.reverse(),
        Some(BatchFault::LastMissing) => {
            replies.pop();
        }
        Some(BatchFault::DuplicateId) => {
            let first = replies.first().map(|reply| reply.id.clone());
            if let (Some(id), Some(second)) = (first, replies.get_mut(1)) {
                second.id = id;
            }
        }
        None => {}
    }
    let texts: Vec<String> = replies.iter().map(Reply::text).collect();
    json_response(StatusCode::OK, format!("[{}]", texts.join(",")))
}

fn answer_one<N: RpcNode>(node: &N, call: &Value, error: Option<&RpcError>) -> Reply {
    let v2 = match node.dialect() {
        Dialect::V2 => true,
        Dialect::Core29 => call.get("jsonrpc").and_then(Value::as_str) == Some("2.0"),
        Dialect::Legacy => false,
    };
    let id = call.get("id").cloned().unwrap_or(Value::Null);
    Reply { id, v2, result: outcome(node, call, error) }
}

fn outcome<N: RpcNode>(node: &N, call: &Value, error: Option<&RpcError>) -> RpcResult {
    let method = call.get("method").and_then(Value::as_str).ok_or_else(|| RpcError::new(-32600, "Missing method"))?;
    let given = node.faults().before_call(method);
    if let Some(error) = error {
        return Err(error.clone());
    }
    if let Some(given) = given {
        return raw(&given?);
    }
    match call.get("params") {
        None | Some(Value::Null) => node.call(method, &[]),
        Some(Value::Array(params)) => node.call(method, params),
        Some(_) => Err(RpcError::new(-32602, "Params must be an array")),
    }
}

fn json_response(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jsonrpsee::core::client::ClientT;
    use jsonrpsee::core::params::BatchRequestBuilder;
    use jsonrpsee::http_client::HttpClientBuilder;
    use jsonrpsee::rpc_params;

    use crate::{BitcoinOptions, EvmOptions, FakeBitcoin, FakeEvm};

    #[tokio::test]
    async fn the_transport_of_the_adapters_understands_single_and_batched_answers() {
        let (bitcoin, evm) =
            (FakeBitcoin::start(BitcoinOptions::default()).await.unwrap(), FakeEvm::start(EvmOptions::default()).await.unwrap());
        bitcoin.mine(1);
        let client = HttpClientBuilder::default().build(bitcoin.url()).unwrap();
        let count: u32 = client.request("getblockcount", rpc_params![]).await.unwrap();
        assert_eq!(count, 1);
        let mut batch = BatchRequestBuilder::new();
        for height in 0..3u32 {
            batch.insert("getblockhash", rpc_params![height]).unwrap();
        }
        let answers = client.batch_request::<String>(batch).await.unwrap();
        assert_eq!((answers.num_successful_calls(), answers.num_failed_calls()), (2, 1));

        let client = HttpClientBuilder::default().build(evm.url()).unwrap();
        let id: String = client.request("eth_chainId", rpc_params![]).await.unwrap();
        assert_eq!(id, "0x7a69");
        // A connection that was kept alive does not outlive the server.
        evm.stop().await.unwrap();
        assert!(client.request::<String, _>("eth_chainId", rpc_params![]).await.is_err());
        evm.restart().await.unwrap();
        let id: String = client.request("eth_chainId", rpc_params![]).await.unwrap();
        assert_eq!(id, "0x7a69");
    }
}
