//! The address that is connected to.

use super::peer::{Answer, Peer};
use super::setup::{config, consumer, delivery, sink};
use crate::connector::Lookup;
use crate::{WebhookConfig, WebhookSink};
use confirmd_core::{Sink, SinkErrorKind, SystemClock};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A name server whose n-th answer is the n-th list, and the last one from then on.
fn names(answers: &[&[&str]]) -> Lookup {
    let answers: Vec<Vec<IpAddr>> = answers.iter().map(|list| list.iter().map(|a| a.parse().unwrap()).collect()).collect();
    let asked = AtomicUsize::new(0);
    Arc::new(move |_| {
        let number = asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let answer = answers[number].clone();
        Box::pin(async move { Ok(answer) })
    })
}

fn named(peer: &Peer, allow: &[&str], lookup: Lookup) -> WebhookSink {
    let allow_private = allow.iter().map(|range| range.parse().unwrap()).collect();
    let config = WebhookConfig { allow_private, ..config(&format!("http://ledger.example:{}/", peer.address.port())) };
    WebhookSink::with_lookup(&consumer(), &config, Arc::new(SystemClock), lookup).unwrap()
}

#[tokio::test]
async fn a_name_that_leads_to_private_addresses_only_is_fatal_at_the_start_and_transient_later() {
    let peer = Peer::start(vec![Answer::status(204)]).await;
    let sink = named(&peer, &[], names(&[&["127.0.0.1", "10.0.0.1"]]));
    let error = sink.check().await.unwrap_err();
    assert_eq!(error.kind, SinkErrorKind::Fatal);
    assert!(error.to_string().contains("127.0.0.1, 10.0.0.1") && error.to_string().contains("allow_private"), "{error}");
    let error = sink.deliver(&[delivery(1)]).await.unwrap_err();
    assert_eq!((error.accepted, error.error.kind), (0, SinkErrorKind::Transient { retry_after: None }));
    assert!(error.to_string().contains("allow_private"), "{error}");
    assert_eq!(peer.opened(), 0);
}

#[tokio::test]
async fn a_name_that_leads_to_a_metadata_address_is_refused_whatever_is_listed() {
    let peer = Peer::start(vec![Answer::status(204)]).await;
    let sink = named(&peer, &["0.0.0.0/0", "::/0"], names(&[&["169.254.169.254"], &["::ffff:169.254.169.254"]]));
    for _ in 0..2 {
        let error = sink.check().await.unwrap_err();
        assert_eq!(error.kind, SinkErrorKind::Fatal);
        assert!(error.to_string().contains("always refused"), "{error}");
    }
}

#[tokio::test]
async fn of_a_names_addresses_only_those_that_are_allowed_are_connected_to() {
    let peer = Peer::start(vec![Answer::status(204)]).await;
    let sink = named(&peer, &["127.0.0.1/32"], names(&[&["169.254.169.254", "127.0.0.2", "127.0.0.1"]]));
    sink.check().await.unwrap();
    sink.deliver(&[delivery(1)]).await.unwrap();
    assert_eq!(peer.seen().len(), 1);
}

#[tokio::test]
async fn a_name_that_moves_to_a_refused_address_after_the_check_is_caught_when_it_is_connected_to() {
    let peer = Peer::start(vec![Answer::status(204)]).await;
    let sink = named(&peer, &["127.0.0.1"], names(&[&["127.0.0.1"], &["127.0.0.2"]]));
    sink.check().await.unwrap();
    let error = sink.deliver(&[delivery(1)]).await.unwrap_err();
    assert!(error.to_string().contains("127.0.0.2"), "{error}");
    assert!(peer.seen().is_empty());
}

#[tokio::test]
async fn a_name_without_an_address_and_the_systems_localhost_are_told_apart() {
    let peer = Peer::start(vec![Answer::status(204)]).await;
    let error = named(&peer, &[], names(&[&[]])).check().await.unwrap_err();
    assert_eq!(error.kind, SinkErrorKind::Transient { retry_after: None });
    assert!(error.to_string().contains("no address"), "{error}");

    let local = format!("http://localhost:{}/", peer.address.port());
    sink(&config(&local)).deliver(&[delivery(1)]).await.unwrap();
    let unlisted = WebhookConfig { allow_private: Vec::new(), ..config(&local) };
    assert_eq!(sink(&unlisted).check().await.unwrap_err().kind, SinkErrorKind::Fatal);
}
