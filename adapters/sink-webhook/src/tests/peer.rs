//! A receiver that answers in ways no library would, over plain TCP or TLS.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// How a request is met.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// These bytes; the connection stays open for the next request.
    Stay(String),
    /// These bytes, then the end of the connection.
    Last(String),
    /// These bytes, then nothing for ever.
    Stall(String),
    /// These bytes, then others as fast as they are taken.
    Flood(String),
}

impl Answer {
    /// A complete answer with an empty body.
    pub(crate) fn status(status: u16) -> Self {
        Self::with(status, "", "")
    }

    /// A complete answer; `headers` are whole lines.
    pub(crate) fn with(status: u16, headers: &str, body: &str) -> Self {
        Self::Stay(format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))
    }
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) request_line: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Default)]
struct Shared {
    answers: Vec<Answer>,
    seen: Mutex<Vec<Seen>>,
    flooded: AtomicUsize,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    /// Connections opened, connections closed.
    connections: watch::Receiver<(usize, usize)>,
    _server: JoinSet<()>,
}

impl Peer {
    /// Request n gets answer n, and the last one from then on.
    pub(crate) async fn start(answers: Vec<Answer>) -> Self {
        Self::start_with(answers, None).await
    }

    pub(crate) async fn start_with(answers: Vec<Answer>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { answers, ..Shared::default() });
        let (counter, connections) = watch::channel((0, 0));
        let mut server = JoinSet::new();
        let state = Arc::clone(&shared);
        server.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (state, counter, tls) = (Arc::clone(&state), counter.clone(), tls.clone());
                counter.send_modify(|count| count.0 += 1);
                open.spawn(async move {
                    match tls {
                        None => serve(stream, &state).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &state).await;
                            }
                        }
                    }
                    counter.send_modify(|count| count.1 += 1);
                });
            }
        });
        Self { address, shared, connections, _server: server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hooks/deposits", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    pub(crate) fn flooded(&self) -> usize {
        self.shared.flooded.load(Ordering::SeqCst)
    }

    pub(crate) fn opened(&self) -> usize {
        self.connections.borrow().0
    }

    /// Returns once so many connections were opened and closed again.
    pub(crate) async fn closed(&mut self, count: usize) {
        self.connections.wait_for(|(_, closed)| *closed >= count).await.unwrap();
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, shared: &Shared) {
    while let Some(seen) = read_request(&mut stream).await {
        let number = {
            let mut all = shared.seen.lock().unwrap();
            all.push(seen);
            all.len() - 1
        };
        let answer = shared.answers.get(number).or(shared.answers.last()).unwrap();
        match answer {
            Answer::Stay(bytes) => stream.write_all(bytes.as_bytes()).await.unwrap(),
            Answer::Last(bytes) => {
                stream.write_all(bytes.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                return;
            }
            Answer::Stall(bytes) => {
                stream.write_all(bytes.as_bytes()).await.unwrap();
                // Until the other side hangs up.
                let _ = stream.read_u8().await;
                return;
            }
            Answer::Flood(bytes) => {
                stream.write_all(bytes.as_bytes()).await.unwrap();
                while stream.write_all(&[b'x'; 1024]).await.is_ok() {
                    shared.flooded.fetch_add(1024, Ordering::SeqCst);
                }
                return;
            }
        }
    }
}

async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let request_line = lines.next()?.to_owned();
    let headers: http::HeaderMap = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse::<http::HeaderValue>().unwrap()))
        .collect();
    let length = headers.get("content-length")?.to_str().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Seen { request_line, headers, body })
}
