//! A node for a network of your own: JSON-RPC 2.0 over HTTP, answered by a function, with every fault of the transport.

use std::fmt;
use std::io;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::Value;

use crate::faults::Faults;
use crate::http::LoopbackServer;
use crate::json_rpc::{self, Dialect, RpcError, RpcNode, RpcResult};

type Answer = dyn Fn(&str, &[Value]) -> Result<Value, RpcError> + Send + Sync;

struct Node {
    answer: Box<Answer>,
    faults: Faults,
}

impl RpcNode for Node {
    fn dialect(&self) -> Dialect {
        Dialect::V2
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn authorised(&self, _: &HeaderMap) -> bool {
        true
    }

    fn call(&self, method: &str, params: &[Value]) -> RpcResult {
        json_rpc::raw(&(self.answer)(method, params)?)
    }

    fn get(&self, _: &str, _: Option<&str>) -> Option<Response> {
        None
    }
}

/// A running node. Clones steer the same one.
#[derive(Clone)]
pub struct FakeNode {
    node: Arc<Node>,
    server: Arc<LoopbackServer>,
}

impl fmt::Debug for FakeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeNode").field("address", &self.server.address()).finish_non_exhaustive()
    }
}

impl FakeNode {
    /// Starts one that gives every call (method and positional parameters) to `answer`.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(answer: impl Fn(&str, &[Value]) -> Result<Value, RpcError> + Send + Sync + 'static) -> io::Result<Self> {
        let node = Arc::new(Node { answer: Box::new(answer), faults: Faults::default() });
        let server = Arc::new(LoopbackServer::start(json_rpc::router(Arc::clone(&node))).await?);
        Ok(Self { node, server })
    }

    /// Where it listens; every path is served.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Faults of the transport.
    pub fn faults(&self) -> &Faults {
        &self.node.faults
    }

    /// Closes every connection and refuses new ones.
    ///
    /// # Errors
    /// When the port can't be kept.
    pub async fn stop(&self) -> io::Result<()> {
        self.server.stop().await
    }

    /// Listens again at the same URL.
    ///
    /// # Errors
    /// When the port was lost.
    pub async fn restart(&self) -> io::Result<()> {
        self.server.restart().await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::http::client;
    use serde_json::json;

    #[tokio::test]
    async fn it_answers_by_the_function_and_fails_as_it_is_told_to() {
        let node = FakeNode::start(|method, params| match method {
            "add" => Ok(json!(params.iter().filter_map(Value::as_u64).sum::<u64>())),
            _ => Err(RpcError::new(-32601, "no such method")),
        })
        .await
        .unwrap();
        assert_eq!(client::rpc(&node.url(), "add", json!([1, 2])).await.unwrap()["result"], 3);
        assert_eq!(client::rpc(&node.url(), "sub", json!([])).await.unwrap()["error"]["code"], -32601);
        node.faults().rate_limit(1, "7");
        let reply = client::post(&node.url(), &[], b"{}").await.unwrap();
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some("7")));
        assert_eq!(node.faults().calls("add"), 1);
    }
}
