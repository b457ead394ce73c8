//! Connections in memory: what stands in for sockets. A host name leads to whatever serves it in this run.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;

use super::world::World;

/// What fits between the two ends before the writer waits.
const BUFFER_BYTES: usize = 64 * 1024;

/// Connects to the hosts of a world, in the life in which it was made.
#[derive(Clone)]
pub(super) struct Wires {
    pub(super) world: Arc<World>,
    pub(super) life: u64,
}

impl tower::Service<Uri> for Wires {
    type Response = Wire;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Wire>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let host = target.host().unwrap_or_default();
        let app: Option<Router> = self.world.answer_at(host, self.life);
        let connected = app.map(|app| {
            let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
            tokio::spawn(confirmd_testkit::http::serve(theirs, app));
            Wire(TokioIo::new(ours))
        });
        std::future::ready(connected.ok_or_else(|| io::ErrorKind::ConnectionRefused.into()))
    }
}

/// Our end of a connection.
#[derive(Debug)]
pub(super) struct Wire(TokioIo<DuplexStream>);

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
