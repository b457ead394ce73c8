//! TLS by rustls with ring, for the driver.

use confirmd_core::ConfigError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Verifies certificate and host name, by the public roots or by a file's.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, ConfigError> {
        let roots = match ca_file {
            Some(path) => roots_of(path)?,
            None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
        };
        let wrong = |error: rustls::Error| ConfigError::new("ca_file", format!("TLS can't be set up: {error}"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(wrong)?;
        Ok(Self(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
    }
}

fn roots_of(path: &Path) -> Result<RootCertStore, ConfigError> {
    let wrong = |problem: String| ConfigError::new("ca_file", format!("{}: {problem}", path.display()));
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(format!("not a PEM certificate: {error}")))?;
        roots.add(certificate).map_err(|error| wrong(format!("not a certificate to trust: {error}")))?;
    }
    if roots.is_empty() {
        return Err(wrong("holds no certificate (PEM)".to_owned()));
    }
    Ok(roots)
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Handshake> {
        let name = ServerName::try_from(domain.to_owned());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Handshake { connector: TlsConnector::from(self.0.clone()), name })
    }
}

/// One handshake to be made.
pub(crate) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, stream).await.map(Encrypted) })
    }
}

/// An encrypted stream. It offers no channel binding: the server is known by its certificate.
pub(crate) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
