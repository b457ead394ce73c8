//! A node made of a script: real HTTP/1.1 bytes, over a socket or over a pipe in memory (which works with paused time).

use super::endpoint;
use crate::{EndpointConfig, Limits, RpcClient};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

/// One request as the node saw it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) head: String,
    pub(super) body: String,
}

impl Seen {
    /// The ids of the calls, one for a single call.
    pub(super) fn ids(&self) -> Vec<u64> {
        match serde_json::from_str(&self.body).unwrap() {
            serde_json::Value::Array(calls) => calls.iter().map(|call| call["id"].as_u64().unwrap()).collect(),
            call => vec![call["id"].as_u64().unwrap()],
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }
}

/// What the node sends back.
#[derive(Debug, Clone, Default)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    pub(super) manner: Manner,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Manner {
    #[default]
    Whole,
    /// Announces more than it sends, then closes.
    CutOff,
    /// In chunks, without saying how much comes.
    Chunked,
    /// Says nothing, ever.
    Hang,
    /// Closes without a word.
    Close,
    /// The body alone, which need not be HTTP, then the end.
    Raw,
    /// Answers, then closes without having announced it.
    AnswerAndClose,
}

impl Reply {
    pub(super) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }

    pub(super) fn ok(seen: &Seen, result: &str) -> Self {
        Self::new(200, format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", seen.ids()[0]))
    }

    /// As a node before Bitcoin Core 28 answers.
    pub(super) fn old_error(seen: &Seen, status: u16, code: i32, message: &str) -> Self {
        let id = seen.ids()[0];
        Self::new(status, format!("{{\"result\":null,\"error\":{{\"code\":{code},\"message\":\"{message}\"}},\"id\":{id}}}"))
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn manner(manner: Manner) -> Self {
        Self { status: 200, manner, ..Self::default() }
    }
}

type Script = Arc<dyn Fn(usize, &Seen) -> Reply + Send + Sync>;

/// The node. `script` gets the number of the request, from 0, and the request.
#[derive(Clone)]
pub(super) struct Node {
    script: Script,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Node {
    pub(super) fn new(script: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), seen: Arc::default() }
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(super) fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// A client that reaches the node in memory.
    pub(super) fn client(&self, limits: &Limits) -> RpcClient {
        self.client_with(limits, &[endpoint("url = 'http://node.test'")])
    }

    pub(super) fn client_with(&self, limits: &Limits, endpoints: &[EndpointConfig]) -> RpcClient {
        network(&[("node.test", self)]).build(endpoints, limits).unwrap()
    }

    /// Serves on loopback; returns the URL.
    pub(super) async fn listen(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let node = self.clone();
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(node.clone().serve(socket));
            }
        });
        url
    }

    async fn serve(self, mut io: impl AsyncRead + AsyncWrite + Unpin) {
        while let Some(seen) = read_request(&mut io).await {
            let n = {
                let mut all = self.seen.lock().unwrap();
                all.push(seen.clone());
                all.len() - 1
            };
            let reply = (self.script)(n, &seen);
            if !write_reply(&mut io, reply).await {
                return;
            }
        }
    }
}

async fn read_request(io: &mut (impl AsyncRead + Unpin)) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await.ok()?);
    }
    let mut seen = Seen { head: String::from_utf8(head).unwrap(), body: String::new() };
    let length = seen.header("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    io.read_exact(&mut body).await.ok()?;
    seen.body = String::from_utf8(body).unwrap();
    Some(seen)
}

/// False if the connection is at its end.
async fn write_reply(io: &mut (impl AsyncWrite + Unpin), reply: Reply) -> bool {
    let length = match reply.manner {
        Manner::Close => return false,
        Manner::Raw => return io.write_all(&reply.body).await.and(io.flush().await).is_err(),
        Manner::Hang => std::future::pending().await,
        Manner::Chunked => "transfer-encoding: chunked".to_owned(),
        Manner::CutOff => format!("content-length: {}", reply.body.len() + 10),
        Manner::Whole | Manner::AnswerAndClose => format!("content-length: {}", reply.body.len()),
    };
    let mut head = format!("HTTP/1.1 {} X\r\n{length}\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut sent = io.write_all(head.as_bytes()).await;
    if reply.manner == Manner::Chunked {
        for chunk in reply.body.chunks(1000) {
            let size = format!("{:x}\r\n", chunk.len());
            sent = sent.and(io.write_all(&[size.as_bytes(), chunk, b"\r\n"].concat()).await);
        }
        sent = sent.and(io.write_all(b"0\r\n\r\n").await);
    } else {
        sent = sent.and(io.write_all(&reply.body).await);
    }
    sent.and(io.flush().await).is_ok() && matches!(reply.manner, Manner::Whole | Manner::Chunked)
}

/// A network in memory: host names and their nodes. Other hosts refuse the connection.
pub(super) fn network(nodes: &[(&str, &Node)]) -> crate::RpcClientBuilder {
    let nodes: Vec<(String, Node)> = nodes.iter().map(|(host, node)| ((*host).to_owned(), (*node).clone())).collect();
    let connector = tower::service_fn(move |target: http::Uri| {
        let node = nodes.iter().find(|(host, _)| target.host() == Some(host.as_str())).map(|(_, node)| node.clone());
        async move {
            let node = node.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::ConnectionRefused))?;
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            tokio::spawn(node.serve(theirs));
            Ok::<_, std::io::Error>(Pipe(TokioIo::new(ours)))
        }
    });
    RpcClient::builder().connector(connector).jitter_seed(7)
}

/// A connection in memory.
struct Pipe(TokioIo<DuplexStream>);

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Pipe {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: hyper::rt::ReadBufCursor<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
