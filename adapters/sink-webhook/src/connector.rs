//! The connections: resolved, judged, encrypted and pooled.

use crate::WebhookConfig;
use crate::address_policy::{AddressPolicy, Refusal};
use bytes::Bytes;
use confirmd_core::ConfigError;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::legacy::{Client, Error as LegacyError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::ServiceExt;

/// Many servers close an idle connection after 5 seconds; a request sent into that closing would fail for nothing.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// Of one answer's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

type Connector = HttpsConnector<HttpConnector<GuardedResolver>>;
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// Connections to the receiver, whatever they run over.
pub(crate) trait Exchange: Send + Sync {
    /// One request over a kept-alive or new connection.
    fn send(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, Result<Response<Incoming>, LegacyError>>;

    /// Opens a connection of its own, and closes it.
    fn try_connecting(&self, target: Uri) -> BoxFuture<'static, Result<(), BoxError>>;
}

/// A pool over a connector.
struct Pool<C> {
    connector: C,
    client: Client<C, Full<Bytes>>,
}

impl<C> Exchange for Pool<C>
where
    C: tower::Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Send + Unpin + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + Unpin + 'static,
{
    fn send(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, Result<Response<Incoming>, LegacyError>> {
        Box::pin(self.client.request(request))
    }

    fn try_connecting(&self, target: Uri) -> BoxFuture<'static, Result<(), BoxError>> {
        let connecting = self.connector.clone().oneshot(target);
        Box::pin(async move { connecting.await.map(drop).map_err(Into::into) })
    }
}

/// How names become addresses; tests give their own.
pub(crate) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The system's resolver.
pub(crate) fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move { Ok(tokio::net::lookup_host((name.as_str(), 0)).await?.map(|address| address.ip()).collect()) })
    })
}

/// A name that leads nowhere we go.
#[derive(Debug, thiserror::Error)]
#[error("its name leads to {} only: {refusal}", .addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", "))]
pub(crate) struct AddressRefused {
    addresses: Vec<IpAddr>,
    refusal: Refusal,
}

/// Resolves a name and hands out only what the policy allows; the connector connects to exactly these.
#[derive(Clone)]
pub(crate) struct GuardedResolver {
    policy: Arc<AddressPolicy>,
    lookup: Lookup,
}

impl GuardedResolver {
    async fn resolve(self, name: String) -> Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>> {
        let found = (self.lookup)(name).await?;
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in &found {
            match self.policy.judge(*address) {
                Ok(()) => allowed.push(SocketAddr::new(*address, 0)),
                Err(refusal) => refused = Some(refusal),
            }
        }
        match refused {
            Some(refusal) if allowed.is_empty() => Err(AddressRefused { addresses: found, refusal }.into()),
            _ if allowed.is_empty() => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into()),
            _ => Ok(allowed),
        }
    }
}

impl tower::Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolving = self.clone().resolve(name.as_str().to_owned());
        Box::pin(async move { Ok(resolving.await?.into_iter()) })
    }
}

/// What a webhook's requests go over: guarded TCP, with TLS where the URL says so.
pub(crate) fn exchange_over_tcp(
    config: &WebhookConfig,
    policy: AddressPolicy,
    lookup: Lookup,
) -> Result<Box<dyn Exchange>, ConfigError> {
    Ok(exchange_over(connector(config, policy, lookup)?, config.concurrency.get()))
}

/// TCP with the guard, TLS on top. Opens nothing yet.
fn connector(config: &WebhookConfig, policy: AddressPolicy, lookup: Lookup) -> Result<Connector, ConfigError> {
    let mut tcp = HttpConnector::new_with_resolver(GuardedResolver { policy: Arc::new(policy), lookup });
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // Shared among a name's addresses, so that one that does not answer leaves time for the next.
    tcp.set_connect_timeout(Some(config.timeout.0));
    let provider = rustls::crypto::ring::default_provider();
    let wrong = |error: rustls::Error| ConfigError::new("ca_file", format!("TLS can't be set up: {error}"));
    let tls = match &config.ca_file {
        None => HttpsConnectorBuilder::new().with_provider_and_webpki_roots(provider).map_err(wrong)?,
        Some(path) => {
            let client = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
                .with_safe_default_protocol_versions()
                .map_err(wrong)?
                .with_root_certificates(roots(path)?)
                .with_no_client_auth();
            HttpsConnectorBuilder::new().with_tls_config(client)
        }
    };
    Ok(tls.https_or_http().enable_http1().wrap_connector(tcp))
}

/// A pool of kept-alive connections over the connector.
pub(crate) fn exchange_over<C>(connector: C, idle_max: usize) -> Box<dyn Exchange>
where
    C: tower::Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Send + Unpin + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + Unpin + 'static,
{
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_MAX)
        .pool_max_idle_per_host(idle_max)
        .http1_max_buf_size(HEAD_BYTES_MAX)
        .build(connector.clone());
    Box::new(Pool { connector, client })
}

fn roots(path: &Path) -> Result<rustls::RootCertStore, ConfigError> {
    let wrong = |problem: String| ConfigError::new("ca_file", format!("{}: {problem}", path.display()));
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(format!("not PEM: {error}")))?;
        roots.add(certificate).map_err(|error| wrong(format!("a certificate can't be used: {error}")))?;
    }
    if roots.is_empty() {
        return Err(wrong("holds no certificate; it must hold the CA's in PEM".into()));
    }
    Ok(roots)
}

/// The error, its cause, that one's cause, and so on.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// Whether the policy refused every address of the name.
pub(crate) fn is_refused(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|error| error.is::<AddressRefused>())
}

/// An error and its causes as one line. Causes that an error repeats in its own words are left out.
pub(crate) fn explain(error: &(dyn Error + 'static)) -> String {
    let mut line: Vec<String> = Vec::new();
    for error in causes(error) {
        let words = error.to_string();
        if line.last().is_none_or(|last| !last.contains(&words)) {
            line.push(words);
        }
    }
    // The client's own first words ("client error (Connect)") say less than their causes.
    if line.len() > 1 && line.first().is_some_and(|first| first.starts_with("client error")) {
        line.remove(0);
    }
    line.join(": ")
}
