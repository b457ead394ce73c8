#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Duration;

use alloy::primitives::U256;
use hmac::{Hmac, Mac};
use serde_json::json;
use sha2::Sha256;
use standardwebhooks::Webhook;

use super::*;
use crate::http::client;

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";
const ASSET: &str = "eip155:1/slip44:60";

async fn started() -> Receiver {
    let options = ReceiverOptions { secrets: vec![SECRET.to_owned()], now: None };
    Receiver::start(options).await.unwrap()
}

fn body(epoch: u64, sequence: u64, amount: &str) -> String {
    let kind = if sequence % 2 == 1 { "deposit.confirmed" } else { "deposit.reverted" };
    json!({
        "id": format!("evt_{epoch}_{sequence}"), "type": kind, "version": 1,
        "epoch": epoch, "sequence": sequence, "chain": "eip155:1", "chain_name": "ethereum",
        "key": { "tx_id": "0xabc", "output_index": 4 },
        "address": "0x01", "reference": "customer-42",
        "asset": { "id": ASSET, "symbol": "ETH", "decimals": 18 },
        "amount": amount, "from": "0x02",
        "block": { "height": 7, "hash": "0x07", "time": "2026-01-01T00:00:00Z" },
        "confirmations": 3, "decided_at": "2026-01-01T00:00:00Z"
    })
    .to_string()
}

/// Signed by the public library for the standard signature, and by hand for our own.
async fn send_signed(receiver: &Receiver, id: &str, signed: &str, sent: &str) -> std::io::Result<u16> {
    let standard = Webhook::new(SECRET).unwrap().sign(id, 1_767_225_600, signed.as_bytes()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY).unwrap();
    mac.update(signed.as_bytes());
    let own = format!("sha256={}", const_hex::encode(mac.finalize().into_bytes()));
    let headers = [
        ("webhook-id", id),
        ("webhook-timestamp", "1767225600"),
        ("webhook-signature", standard.as_str()),
        ("x-confirmd-delivery", id),
        ("x-confirmd-signature", own.as_str()),
    ];
    Ok(client::post(&receiver.url(), &headers, sent.as_bytes()).await?.status)
}

async fn send(receiver: &Receiver, epoch: u64, sequence: u64, amount: &str) -> std::io::Result<u16> {
    let body = body(epoch, sequence, amount);
    send_signed(receiver, &format!("evt_{epoch}_{sequence}"), &body, &body).await
}

fn balance(receiver: &Receiver) -> U256 {
    receiver.ledger().balance("0x01", ASSET)
}

#[tokio::test]
async fn money_moves_only_when_the_standing_changes() {
    let receiver = started().await;
    for (epoch, sequence, amount, expected) in [
        (1, 1, "25", 25u64),
        (1, 1, "25", 25),
        (1, 2, "25", 0),
        (1, 1, "25", 0),
        (1, 3, "26", 26),
        // A rebuilt state tells it again: the standing is the same, so nothing moves.
        (2, 1, "26", 26),
        (1, 4, "26", 26),
    ] {
        assert_eq!(send(&receiver, epoch, sequence, amount).await.unwrap(), 204);
        assert_eq!(balance(&receiver), U256::from(expected));
    }
    let ledger = receiver.ledger();
    let row = ledger.row("eip155:1", "0xabc", 4).unwrap();
    assert_eq!((row.epoch, row.sequence, row.stands), (2, 1, true));
    assert_eq!(ledger.moves(), 3);
    assert_eq!(receiver.requests().len(), 7);
    assert_eq!(receiver.requests()[2].id, "evt_1_2");
}

#[tokio::test]
async fn amounts_above_128_bits_are_exact() {
    let receiver = started().await;
    send(&receiver, 1, 1, &U256::MAX.to_string()).await.unwrap();
    assert_eq!(balance(&receiver), U256::MAX);
    assert!(receiver.ledger().problems().is_empty());
}

#[tokio::test]
async fn a_request_with_a_wrong_signature_is_refused_and_written_down() {
    let receiver = started().await;
    let (good, bad) = (body(1, 1, "25"), body(1, 1, "26"));
    assert_eq!(send_signed(&receiver, "evt_1_1", &good, &bad).await.unwrap(), 401);
    assert_eq!(client::post(&receiver.url(), &[], b"{}").await.unwrap().status, 401);
    assert_eq!(balance(&receiver), U256::ZERO);
    assert_eq!(receiver.ledger().problems().len(), 2);
    assert_eq!(receiver.requests()[0].answered, Some(401));
}

#[tokio::test]
async fn a_stale_timestamp_is_refused_where_there_is_a_clock() {
    let options = ReceiverOptions { secrets: vec![SECRET.to_owned()], now: Some(std::sync::Arc::new(|| 1_767_225_600 + 301)) };
    let receiver = Receiver::start(options).await.unwrap();
    assert_eq!(send(&receiver, 1, 1, "25").await.unwrap(), 401);
}

#[tokio::test]
async fn broken_promises_are_listed() {
    let receiver = started().await;
    receiver.next(1, Behaviour::Status(500));
    assert_eq!(send(&receiver, 1, 1, "25").await.unwrap(), 500);
    // Sequence 2 before sequence 1 was acknowledged, then sequence 1 with another body.
    send(&receiver, 1, 2, "25").await.unwrap();
    send(&receiver, 1, 1, "26").await.unwrap();
    let ledger = receiver.ledger();
    assert_eq!(ledger.problems().len(), 2, "{:?}", ledger.problems());
    assert!(ledger.problems()[0].contains("sequence 2 came after None"));
    assert!(ledger.problems()[1].contains("another body"));
}

#[tokio::test]
async fn it_fails_in_the_ways_it_is_told_to() {
    let receiver = started().await;
    receiver.always(Behaviour::Status(503));
    receiver.next(1, Behaviour::ApplyThen(500));
    assert_eq!(send(&receiver, 1, 1, "25").await.unwrap(), 500);
    assert_eq!(balance(&receiver), U256::from(25));
    assert_eq!(send(&receiver, 1, 1, "25").await.unwrap(), 503);
    receiver.behave();
    receiver.next(1, Behaviour::Close);
    assert!(send(&receiver, 1, 1, "25").await.is_err());
    let header = Some(("location", "/elsewhere".to_owned()));
    receiver.next(1, Behaviour::Answer { status: 302, header, body: b"moved".to_vec() });
    assert_eq!(send(&receiver, 1, 1, "25").await.unwrap(), 302);
    receiver.down().await.unwrap();
    assert!(send(&receiver, 1, 1, "25").await.is_err());
    receiver.up().await.unwrap();
    assert_eq!(send(&receiver, 1, 1, "25").await.unwrap(), 204);
    assert_eq!(receiver.ledger().moves(), 1);
    let answers: Vec<_> = receiver.requests().iter().map(|request| request.answered).collect();
    assert_eq!(answers, [Some(500), Some(503), None, Some(302), Some(204)]);
}

#[tokio::test]
async fn waiting_ends_when_what_is_waited_for_has_happened() {
    let receiver = started().await;
    receiver.next(1, Behaviour::Hang);
    let hanging = receiver.clone();
    let caller = tokio::spawn(async move { send(&hanging, 1, 1, "25").await });
    receiver.wait_for(|_, requests| requests.len() == 1).await;
    caller.abort();
    let waiting = receiver.clone();
    let waiter = tokio::spawn(async move {
        waiting.wait_for(|ledger, _| ledger.balance("0x01", ASSET) == U256::from(25)).await;
    });
    assert_eq!(send(&receiver, 1, 1, "25").await.unwrap(), 204);
    tokio::time::timeout(Duration::from_secs(30), waiter).await.unwrap().unwrap();
    assert_eq!(receiver.requests()[0].answered, None);
}
