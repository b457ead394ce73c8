//! A loopback HTTP server that can be taken down and brought back on the same port, and what serves one connection.

pub mod client;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Mutex, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tower::ServiceExt;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Put into a response's extensions: the connection is closed without an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CloseConnection;

/// A response that is never sent; its connection is closed instead.
pub fn close_connection() -> Response {
    let mut response = ().into_response();
    response.extensions_mut().insert(CloseConnection);
    response
}

/// Whether an answer stands for a connection that is closed without one.
pub fn closes_connection(response: &Response) -> bool {
    response.extensions().get::<CloseConnection>().is_some()
}

/// An HTTP/1.1 server on 127.0.0.1. While it is stopped its port stays reserved and refuses
/// connections, so that nothing else can take the port before it is restarted.
#[derive(Debug)]
pub struct LoopbackServer {
    address: SocketAddr,
    app: Router,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Up {
        task: JoinHandle<()>,
        _stop: oneshot::Sender<()>,
    },
    /// The bound socket does not listen: it only keeps the port.
    Down(TcpSocket),
    /// Only while changing over, or after a failed change.
    Gone,
    /// Never on a socket: whoever holds the app serves it.
    Detached,
}

impl LoopbackServer {
    /// Serves `app` on a free port.
    ///
    /// # Errors
    /// When none of many ports is free.
    pub async fn start(app: Router) -> io::Result<Self> {
        let socket = free_port()?;
        let address = socket.local_addr()?;
        let state = Mutex::new(listen(socket, app.clone())?);
        Ok(Self { address, app, state })
    }

    /// Serves nothing by itself: for whoever brings `app` to its callers without a socket.
    pub fn detached(app: Router) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self { address, app, state: Mutex::new(State::Detached) }
    }

    /// What it serves.
    pub fn app(&self) -> Router {
        self.app.clone()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes every connection and refuses new ones. Does nothing when it is stopped already.
    ///
    /// # Errors
    /// None today: a port that could not be kept is asked for again by `restart`.
    pub async fn stop(&self) -> io::Result<()> {
        let mut state = self.state.lock().await;
        match std::mem::replace(&mut *state, State::Gone) {
            State::Up { task, _stop } => {
                drop(_stop);
                // A panic of the accept loop leaves nothing to close.
                let _ = task.await;
            }
            down => *state = down,
        }
        if matches!(*state, State::Gone) {
            // Kept if it can be; otherwise the start tries anew.
            *state = reserve(self.address).map_or(State::Gone, State::Down);
        }
        Ok(())
    }

    /// Listens again on the same port. Does nothing when it is up.
    ///
    /// # Errors
    /// When the port was lost.
    pub async fn restart(&self) -> io::Result<()> {
        let mut state = self.state.lock().await;
        let mut socket = match std::mem::replace(&mut *state, State::Gone) {
            State::Down(socket) => Ok(socket),
            State::Gone => reserve(self.address),
            up => {
                *state = up;
                return Ok(());
            }
        };
        for _ in 0..RESTARTS_TRIED {
            match socket.and_then(|socket| listen(socket, self.app.clone())) {
                Ok(up) => {
                    *state = up;
                    return Ok(());
                }
                // The kernel may still hold a connection that was closed a moment ago.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => tokio::time::sleep(RESTART_WAIT).await,
                Err(error) => return Err(error),
            }
            socket = reserve(self.address);
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, format!("{} is taken by something else", self.address)))
    }
}

/// Below the ports that the kernel hands out by itself, and others than those of real nodes: a port that is ours while nobody listens
/// on it must be nobody else's.
const PORTS: Range<u16> = 10_000..20_000;
const PORTS_TRIED: u32 = 200;

/// How often a stopped server tries to get its port back, and the wait in between: 5 s in all.
const RESTARTS_TRIED: u32 = 500;
const RESTART_WAIT: Duration = Duration::from_millis(10);

/// A socket on a port of its own.
fn free_port() -> io::Result<TcpSocket> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..PORTS_TRIED {
        let random = RandomState::new().build_hasher().finish() % u64::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(random).map_err(io::Error::other)?;
        let socket = TcpSocket::new_v4()?;
        // Whoever may reuse an address could get one that is reserved and not listened on.
        match socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
            // What is bound again after a stop must be able to; connections inherit it.
            Ok(()) => return socket.set_reuseaddr(true).map(|()| socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn reserve(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn listen(socket: TcpSocket, app: Router) -> io::Result<State> {
    let listener = socket.listen(BACKLOG)?;
    let (stop, stopped) = oneshot::channel();
    Ok(State::Up { task: tokio::spawn(accept_until(listener, app, stopped)), _stop: stop })
}

/// Runs until the other end of `stopped` is dropped, then closes the connections.
async fn accept_until(listener: TcpListener, app: Router, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, app.clone()));
                }
                Err(_) => tokio::task::yield_now().await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// Serves one connection, whatever it runs over, until it ends.
pub async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, app: Router) {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let app = app.clone();
        async move {
            let response = match app.oneshot(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            if closes_connection(&response) {
                return Err(io::Error::other("closed on purpose"));
            }
            Ok(response)
        }
    });
    // A client that goes away, or a connection closed on purpose, is not our error.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use axum::routing::get;

    #[tokio::test]
    async fn a_stopped_server_refuses_connections_and_returns_on_the_same_port() {
        let app = Router::new().route("/", get(|| async { "hello" }));
        let server = LoopbackServer::start(app).await.unwrap();
        let url = format!("http://{}/", server.address());
        assert_eq!(client::get(&url).await.unwrap().text(), "hello");

        server.stop().await.unwrap();
        server.stop().await.unwrap();
        let refused = client::get(&url).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        // Meanwhile no other server is given the port, here or by the kernel.
        assert!(PORTS.contains(&server.address().port()));
        let taken = TcpSocket::new_v4().unwrap().bind(server.address()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);

        server.restart().await.unwrap();
        assert_eq!(client::get(&url).await.unwrap().status, 200);
    }

    #[tokio::test]
    async fn a_connection_closed_on_purpose_gets_no_answer() {
        let app = Router::new().route("/", get(|| async { close_connection() }));
        let server = LoopbackServer::start(app).await.unwrap();
        assert!(client::get(&format!("http://{}/", server.address())).await.is_err());
    }
}
