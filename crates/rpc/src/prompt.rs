//! TCP connections whose answers are acknowledged at once.
//!
//! Nodes of the Bitcoin family before Bitcoin Core 29 send an answer's head and body apart, under Nagle's algorithm: the end of
//! one of some 30 kB waits for our acknowledgement, which the system delays by 40 ms unless it is told otherwise before
//! each read.

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tower::Service;

/// Makes [`PromptStream`]s.
#[derive(Clone)]
pub(crate) struct Prompt(pub(crate) HttpConnector);

/// A connection that acknowledges what it reads at once, where the system can.
pub(crate) struct PromptStream(TokioIo<TcpStream>);

impl Service<http::Uri> for Prompt {
    type Response = PromptStream;
    type Error = <HttpConnector as Service<http::Uri>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<PromptStream, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, target: http::Uri) -> Self::Future {
        let connecting = self.0.call(target);
        Box::pin(async move { connecting.await.map(PromptStream) })
    }
}

impl PromptStream {
    /// The system forgets it after some segments. A failure costs time, nothing else.
    #[cfg(target_os = "linux")]
    fn acknowledge_at_once(&self) {
        let _ = rustix::net::sockopt::set_tcp_quickack(self.0.inner(), true);
    }

    #[cfg(not(target_os = "linux"))]
    fn acknowledge_at_once(&self) {}
}

impl Connection for PromptStream {
    fn connected(&self) -> Connected {
        self.0.connected()
    }
}

impl Read for PromptStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<std::io::Result<()>> {
        self.acknowledge_at_once();
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for PromptStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }
    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}
