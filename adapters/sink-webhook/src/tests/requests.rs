//! What goes over the wire, and what a second attempt repeats.

use super::peer::{Answer, Peer};
use super::setup::{SECRET, Still, config, consumer, delivery, hasty, sink};
use crate::WebhookSink;
use confirmd_core::{Amount, Delivery, Sink, SinkErrorKind, Timestamp, TraceContext};
use confirmd_testkit::receiver::Behaviour;
use confirmd_testkit::{Receiver, ReceiverOptions};
use std::sync::Arc;

async fn receiver() -> Receiver {
    Receiver::start(ReceiverOptions { secrets: vec![SECRET.into()], now: None }).await.unwrap()
}

#[tokio::test]
async fn k1_a_check_connects_hangs_up_and_sends_nothing() {
    let mut peer = Peer::start(vec![Answer::status(204)]).await;
    sink(&config(&peer.url())).check().await.unwrap();
    peer.closed(1).await;
    assert!(peer.seen().is_empty());
}

#[tokio::test]
async fn k2_k4_a_batch_arrives_in_order_as_its_frozen_bytes_over_one_kept_connection() {
    let peer = Peer::start(vec![Answer::status(204)]).await;
    let batch: Vec<_> = (0..5).map(delivery).collect();
    sink(&config(&peer.url())).deliver(&batch).await.unwrap();
    let seen = peer.seen();
    assert_eq!(seen.len(), 5);
    for (request, delivery) in seen.iter().zip(&batch) {
        assert_eq!(request.request_line, "POST /hooks/deposits HTTP/1.1");
        assert_eq!(request.body, &*delivery.body);
        assert_eq!(request.headers["webhook-id"], delivery.event.as_str());
        assert_eq!(request.headers["x-confirmd-delivery"], delivery.event.as_str());
        assert_eq!(request.headers["content-type"], "application/json");
        assert_eq!(request.headers["user-agent"], concat!("confirmd/", env!("CARGO_PKG_VERSION")));
        assert_eq!(request.headers["host"], peer.address.to_string());
    }
    assert_eq!(peer.opened(), 1);
}

#[tokio::test]
async fn k4_an_attempt_that_is_traced_says_so_in_a_header_and_changes_no_byte_of_the_body() {
    let peer = Peer::start(vec![Answer::status(204)]).await;
    let plain = delivery(1);
    let trace_id = TraceContext::trace_of(&plain.event);
    let attempt =
        |span: u8| Delivery { trace: Some(TraceContext { trace_id, span_id: [span; 8], sampled: true }), ..plain.clone() };
    for delivery in [plain.clone(), attempt(1), attempt(2)] {
        sink(&config(&peer.url())).deliver(&[delivery]).await.unwrap();
    }
    let seen = peer.seen();
    let trace = plain.event.as_str().strip_prefix("evt_").unwrap();
    assert!(!seen[0].headers.contains_key("traceparent"));
    assert_eq!(seen[1].headers["traceparent"], format!("00-{trace}-0101010101010101-01"));
    assert_eq!(seen[2].headers["traceparent"], format!("00-{trace}-0202020202020202-01"));
    assert!(seen.iter().all(|request| request.body == *plain.body && request.headers["webhook-id"] == plain.event.as_str()));
}

#[tokio::test]
async fn a_kept_connection_that_the_receiver_closed_meanwhile_costs_no_attempt() {
    let closing = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let mut peer = Peer::start(vec![Answer::Last(closing.into())]).await;
    let sink = sink(&config(&peer.url()));
    for n in 1..=3 {
        sink.deliver(&[delivery(1)]).await.unwrap();
        peer.closed(n).await;
    }
    assert_eq!(peer.seen().len(), 3, "and sends nothing twice");
}

#[tokio::test]
async fn k3_a_failure_in_the_middle_accepts_the_exact_prefix_and_sends_nothing_behind_it() {
    let peer = Peer::start(vec![Answer::status(200), Answer::status(202), Answer::status(503)]).await;
    let batch: Vec<_> = (0..5).map(delivery).collect();
    let error = sink(&config(&peer.url())).deliver(&batch).await.unwrap_err();
    assert_eq!((error.accepted, error.error.status), (2, Some(503)));
    assert_eq!(peer.seen().len(), 3);
}

#[tokio::test]
async fn k5_processed_there_but_failed_here_moves_money_once_by_the_documented_rule() {
    let receiver = receiver().await;
    receiver.next(1, Behaviour::ApplyThen(500));
    let first = delivery(1);
    let error = sink(&config(&receiver.url())).deliver(std::slice::from_ref(&first)).await.unwrap_err();
    assert_eq!((error.accepted, error.error.status), (0, Some(500)));
    assert_eq!(receiver.ledger().moves(), 1, "it was processed there");

    sink(&config(&receiver.url())).deliver(&[Delivery { attempt: 2, ..first }]).await.unwrap();
    assert_eq!(receiver.requests().len(), 2);
    assert_eq!(receiver.ledger().moves(), 1);
    assert!(receiver.ledger().problems().is_empty(), "{:?}", receiver.ledger().problems());
}

#[tokio::test]
async fn d01_an_attempt_that_timed_out_is_repeated_by_the_next_process_with_the_same_id_and_bytes() {
    let peer = Peer::start(vec![Answer::Stall(String::new()), Answer::status(204)]).await;
    let first = delivery(1);
    let error = sink(&hasty(&peer.url())).deliver(std::slice::from_ref(&first)).await.unwrap_err();
    assert_eq!((error.accepted, error.error.kind), (0, SinkErrorKind::Transient { retry_after: None }));
    sink(&config(&peer.url())).deliver(&[Delivery { attempt: 2, ..first }]).await.unwrap();
    let seen = peer.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].headers["webhook-id"], seen[1].headers["webhook-id"]);
    assert_eq!(seen[0].body, seen[1].body);
}

#[tokio::test]
async fn k4_only_the_timestamp_and_what_follows_from_it_differ_between_attempts() {
    let peer = Peer::start(vec![Answer::status(500), Answer::status(200)]).await;
    for (attempt, second) in [(1, 1_767_225_600), (2, 1_767_225_630)] {
        let clock = Arc::new(Still(Timestamp::from_seconds(second)));
        let sink = WebhookSink::new(&consumer(), &config(&peer.url()), clock).unwrap();
        let _ = sink.deliver(&[Delivery { attempt, ..delivery(1) }]).await;
    }
    let seen = peer.seen();
    assert_eq!(seen[0].headers["webhook-timestamp"], "1767225600");
    assert_eq!(seen[1].headers["webhook-timestamp"], "1767225630");
    assert_ne!(seen[0].headers["webhook-signature"], seen[1].headers["webhook-signature"]);
    for same in ["webhook-id", "x-confirmd-delivery", "x-confirmd-signature", "content-type", "content-length"] {
        assert_eq!(seen[0].headers[same], seen[1].headers[same], "{same}");
    }
    assert_eq!(seen[0].body, seen[1].body);
}

#[tokio::test]
async fn d17_amounts_arrive_as_text_and_every_number_fits_a_double() {
    let peer = Peer::start(vec![Answer::status(200)]).await;
    sink(&config(&peer.url())).deliver(&[delivery(1)]).await.unwrap();
    let event: serde_json::Value = serde_json::from_slice(&peer.seen()[0].body).unwrap();
    assert_eq!(event["amount"], Amount::MAX.to_string());
    assert_eq!(event["reference"], "Zoë");
    fn numbers(value: &serde_json::Value, check: &dyn Fn(u64)) {
        match value {
            serde_json::Value::Number(number) => check(number.as_u64().unwrap()),
            serde_json::Value::Array(all) => all.iter().for_each(|value| numbers(value, check)),
            serde_json::Value::Object(all) => all.values().for_each(|value| numbers(value, check)),
            _ => {}
        }
    }
    numbers(&event, &|number| assert!(number < 1 << 53, "{number}"));
}

#[tokio::test]
async fn g9_attempts_at_the_same_time_do_not_wait_for_each_other() {
    let receiver = receiver().await;
    receiver.next(1, Behaviour::Hang);
    let sink = Arc::new(sink(&config(&receiver.url())));
    let hanging = tokio::spawn({
        let sink = Arc::clone(&sink);
        async move { sink.deliver(&[delivery(1)]).await }
    });
    receiver.wait_for(|_, requests| !requests.is_empty()).await;
    sink.deliver(&[delivery(2)]).await.unwrap();
    assert!(!hanging.is_finished());
    hanging.abort();
}
