//! Certificates of a private CA made for the test.

use super::peer::{Answer, Peer};
use super::setup::{config, delivery, file, sink};
use crate::WebhookConfig;
use confirmd_core::{Sink, SinkErrorKind};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A receiver with a certificate for `name`.
    async fn receiver(&self, name: &str, expired: bool) -> Peer {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if expired {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        Peer::start_with(vec![Answer::status(204)], Some(TlsAcceptor::from(Arc::new(tls)))).await
    }

    fn trusted(&self, peer: &Peer) -> WebhookConfig {
        WebhookConfig { ca_file: Some(file(&self.pem)), ..https(peer) }
    }
}

fn https(peer: &Peer) -> WebhookConfig {
    config(&format!("https://localhost:{}/hooks", peer.address.port()))
}

async fn refused(config: &WebhookConfig, why: &str) {
    let sink = sink(config);
    let error = sink.check().await.unwrap_err();
    assert_eq!(error.kind, SinkErrorKind::Transient { retry_after: None });
    assert!(error.to_string().contains(why), "{error}");
    let error = sink.deliver(&[delivery(1)]).await.unwrap_err();
    assert_eq!((error.accepted, error.error.kind), (0, SinkErrorKind::Transient { retry_after: None }));
    assert!(error.to_string().contains(why), "{error}");
}

#[tokio::test]
async fn d18_a_private_authority_is_trusted_where_its_file_is_named_and_a_check_sends_nothing() {
    let authority = Authority::new();
    let peer = authority.receiver("localhost", false).await;
    let sink = sink(&authority.trusted(&peer));
    sink.check().await.unwrap();
    assert!(peer.seen().is_empty());
    sink.deliver(&[delivery(1)]).await.unwrap();
    assert_eq!(peer.seen().len(), 1);
}

#[tokio::test]
async fn d18_an_unknown_issuer_a_wrong_host_and_an_expired_certificate_fail_with_the_reason() {
    let authority = Authority::new();
    let peer = authority.receiver("localhost", false).await;
    refused(&https(&peer), "UnknownIssuer").await;
    refused(&Authority::new().trusted(&peer), "certificate").await;
    let other = authority.receiver("other.example", false).await;
    refused(&authority.trusted(&other), "not valid for name").await;
    let expired = authority.receiver("localhost", true).await;
    refused(&authority.trusted(&expired), "expired").await;
    for peer in [peer, other, expired] {
        assert!(peer.seen().is_empty());
    }
}

#[tokio::test]
async fn d18_a_receiver_without_tls_behind_an_https_url_is_transient_with_the_reason() {
    let peer = Peer::start(vec![Answer::Last("HTTP/1.1 400 Bad Request\r\n\r\n".into())]).await;
    let config = WebhookConfig { timeout: confirmd_core::HumanDuration(std::time::Duration::from_millis(300)), ..https(&peer) };
    let error = sink(&config).deliver(&[delivery(1)]).await.unwrap_err();
    assert_eq!(error.error.kind, SinkErrorKind::Transient { retry_after: None });
}
