//! Connections to one endpoint, and the notice that they were made anew: another node may answer then (S1).

use crate::prompt::Prompt;
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use std::future::Future;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;
use tower::Service;

/// Waiting longer for a TCP connection means that nobody is there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// bitcoind closes idle connections after 30 s; ours go before, so that no request meets a closing one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(25);
const IDLE_CONNECTIONS_MAX: usize = 16;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Sends one request over some connection.
pub(crate) trait Exchange: Send + Sync {
    fn send(&self, request: Request<Full<Bytes>>) -> BoxFuture<Result<Response<Incoming>, Error>>;
}

struct HyperExchange<C>(Client<Counted<C>, Full<Bytes>>);

impl<C> Exchange for HyperExchange<C>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Send + Unpin + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    fn send(&self, request: Request<Full<Bytes>>) -> BoxFuture<Result<Response<Incoming>, Error>> {
        Box::pin(self.0.request(request))
    }
}

/// An exchange over the given connector.
pub(crate) fn exchange_over<C>(connector: C, links: Arc<Links>) -> Box<dyn Exchange>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Send + Unpin + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    let client = Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        // A hidden repetition would go without a permit.
        .retry_canceled_requests(false)
        .build(Counted { connector, links });
    Box::new(HyperExchange(client))
}

/// An exchange over TCP, with TLS for `https`. The machine's certificate store is trusted (a private authority belongs
/// there); where it is missing, Mozilla's list is.
pub(crate) fn exchange_over_tcp(tls: bool, links: Arc<Links>) -> Box<dyn Exchange> {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    if !tls {
        return exchange_over(Prompt(tcp), links);
    }
    let provider = || Arc::new(rustls::crypto::ring::default_provider());
    let builder = hyper_rustls::HttpsConnectorBuilder::new();
    let builder = match builder.with_provider_and_native_roots(provider()) {
        Ok(builder) => builder,
        Err(error) => {
            tracing::debug!(error = %error, "no certificate store on this machine; using the built-in list");
            hyper_rustls::HttpsConnectorBuilder::new()
                .with_provider_and_webpki_roots(provider())
                .expect("invariant: ring offers the default TLS versions")
        }
    };
    exchange_over(builder.https_only().enable_http1().wrap_connector(tcp), links)
}

/// Counts the connections of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Links {
    live: AtomicUsize,
    seen: AtomicBool,
    close_expected: AtomicBool,
    renewed: AtomicBool,
}

impl Links {
    fn opened(&self) {
        let others = self.live.fetch_add(1, SeqCst);
        let expected = self.close_expected.swap(false, SeqCst);
        if others == 0 && self.seen.swap(true, SeqCst) && !expected {
            self.renewed.store(true, SeqCst);
        }
    }

    /// The server closes after this answer, as it always does: its next connection is no news.
    pub(crate) fn expect_close(&self) {
        self.close_expected.store(true, SeqCst);
    }

    /// An attempt found nobody, or lost them.
    pub(crate) fn lost(&self) {
        self.renewed.store(true, SeqCst);
    }

    /// True once after all connections had gone and a new one was made.
    pub(crate) fn take_renewed(&self) -> bool {
        self.renewed.swap(false, SeqCst)
    }
}

/// A connector that counts.
#[derive(Clone)]
pub(crate) struct Counted<C> {
    connector: C,
    links: Arc<Links>,
}

impl<C> Service<Uri> for Counted<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Error: 'static,
    C::Response: 'static,
{
    type Response = Link<C::Response>;
    type Error = C::Error;
    type Future = BoxFuture<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let links = self.links.clone();
        let connecting = self.connector.call(target);
        Box::pin(async move {
            let io = connecting.await?;
            links.opened();
            Ok(Link { io, links })
        })
    }
}

/// A counted connection.
pub(crate) struct Link<I> {
    io: I,
    links: Arc<Links>,
}

impl<I> Drop for Link<I> {
    fn drop(&mut self) {
        self.links.live.fetch_sub(1, SeqCst);
    }
}

impl<I: Connection> Connection for Link<I> {
    fn connected(&self) -> Connected {
        self.io.connected()
    }
}

impl<I: Read + Unpin> Read for Link<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<I: Write + Unpin> Write for Link<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
