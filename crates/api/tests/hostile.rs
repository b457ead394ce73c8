//! Lists of addresses, cursors and requests as anybody could send them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "support/mod.rs"]
mod support;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use confirmd_api::import::{ImportError, LineReader, read};
use confirmd_api::server::ServerOptions;
use confirmd_api::view::WatchRequest;
use confirmd_api::{Cursor, ErrorKind, OperatorError};
use confirmd_core::{ChainName, ConsumerName, DepositRecord, Position};
use confirmd_hostile::{Alteration, JsonAlteration, assert_bounded, cases, config, deep};
use fastrand::Rng;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use support::{Recorder, head, raw, serve, status_of};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const JSON: &str = "{\"chain\":\"btc\",\"address\":\"a1\",\"reference\":\"x, \\\"y\\\"\"}\n{\"chain\":\"eth\",\"address\":\"b\"}\n\
    {\"chain\":\"btc\",\"address\":\"ü\",\"reference\":null,\"from_height\":null}\n{\"chain\":\"eth\",\"address\":\"c\",\"reference\":\"\"}\n";
const CSV: &str = "chain,address,reference,from_height\r\nbtc, a1 ,\"x, \"\"y\"\"\",\r\neth,b\r\nbtc,ü,,\neth,c,last\n";
const PLAIN: &str = "btc,a1\neth,b,customer 7\nbtc,\"ü\"\n";
/// A list may take so many times its length in memory: each line of four bytes becomes a request of its own.
const FACTOR: u64 = 80;
const BASE: u64 = 256 * 1024;

/// Reads a list in parts of a size.
fn read_in_parts(bytes: &[u8], size: usize, mut reader: LineReader) -> Result<Vec<WatchRequest>, ImportError> {
    let mut read = Vec::new();
    for part in bytes.chunks(size.max(1)) {
        reader.push(part, &mut read)?;
    }
    reader.end(&mut read)?;
    Ok(read)
}

/// Judged the same however it is cut, within bounds, by line: an error names one that is there, a request the line it stands on.
fn judged(bytes: &[u8], size: usize) -> Result<Vec<WatchRequest>, ImportError> {
    let whole = assert_bounded(bytes.len(), FACTOR, BASE, || read_in_parts(bytes, bytes.len(), LineReader::either()));
    assert_eq!(read_in_parts(bytes, size, LineReader::either()), whole, "in parts of {size}");
    let lines = u64::try_from(bytes.split(|byte| *byte == b'\n').count()).unwrap();
    match &whole {
        Ok(read) => assert!(read.windows(2).all(|two| two[0].line < two[1].line)),
        Err(error) => assert!((1..=lines).contains(&error.line), "{error}, of {lines} lines"),
    }
    if let Ok(read) = &whole {
        assert!(read.iter().all(|one| one.line.is_some_and(|line| (1..=lines).contains(&line)) && !one.address.is_empty()));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert_eq!(read(text), whole);
    }
    whole
}

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn hostile_import_any_bytes_are_judged_the_same_however_they_are_cut(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..400),
            "[,\"\\n\\r {}:a-c]{0,200}".prop_map(String::into_bytes),
            "(btc,[a-z\"]{1,5}(,[^\\n]{0,9}(,[0-9x]{0,3})?)?\\r?\\n){0,20}".prop_map(String::into_bytes),
        ],
        size in 1usize..50,
    ) {
        let _ = judged(&bytes, size);
    }

    #[test]
    fn hostile_import_an_alteration_changes_no_line_but_those_it_touches(which in 0usize..3, seed in any::<u64>(), size in 1usize..50) {
        let text = [JSON, CSV, PLAIN][which];
        let mut rng = Rng::with_seed(seed);
        let change = Alteration::random(&mut rng, text.len());
        let bytes = change.apply(text.as_bytes());
        let Ok(found) = judged(&bytes, size) else { return Ok(()) };
        // Lines before the first changed byte and behind the last one say what they said.
        let same_head = bytes.iter().zip(text.as_bytes()).take_while(|(one, other)| one == other).count();
        let head_lines = u64::try_from(bytes[..same_head].iter().filter(|byte| **byte == b'\n').count()).unwrap();
        let before = read(text).unwrap();
        let kept = |list: &[WatchRequest]| list.iter().filter(|one| one.line.unwrap() <= head_lines).cloned().collect::<Vec<_>>();
        prop_assert_eq!(kept(&found), kept(&before), "{:?}", change);
        let tail = bytes.iter().rev().zip(text.as_bytes().iter().rev()).take_while(|(one, other)| one == other).count();
        let tail = tail.min(bytes.len() - same_head).min(text.len() - same_head);
        let tail_lines = text.as_bytes()[text.len() - tail..].iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
        let unnumbered = |list: &[WatchRequest]| {
            let last = list.iter().rev().take(tail_lines).map(|one| WatchRequest { line: None, ..one.clone() });
            last.collect::<Vec<_>>()
        };
        prop_assert_eq!(unnumbered(&found), unnumbered(&before), "{:?}", change);
    }

    #[test]
    fn hostile_import_an_altered_object_is_refused_or_means_what_it_says(seed in any::<u64>(), changes in 1usize..4) {
        let mut rng = Rng::with_seed(seed);
        let mut value = json!({"chain": "btc", "address": "a1", "reference": "customer", "from_height": null});
        for _ in 0..changes {
            JsonAlteration::apply(&mut value, &mut rng);
        }
        let line = value.to_string();
        if let Ok(read) = judged(line.as_bytes(), 7) {
            prop_assert_eq!(read.len(), 1);
            prop_assert_eq!(value["chain"].as_str(), Some(read[0].chain.as_str()));
            prop_assert_eq!(value["address"].as_str(), Some(read[0].address.as_str()));
            prop_assert_eq!(value["reference"].as_str().filter(|text| !text.is_empty()), read[0].reference.as_deref());
            prop_assert!(value["from_height"].is_null());
        }
    }

    #[test]
    fn hostile_cursor_any_text_is_a_place_or_refused_as_invalid(
        text in prop_oneof![any::<String>(), "[A-Za-z0-9_=+/-]{0,300}", any::<Vec<u8>>().prop_map(|bytes| URL_SAFE_NO_PAD.encode(bytes))],
    ) {
        placed(&text);
    }

    #[test]
    fn hostile_cursor_an_altered_place_is_refused_and_never_another_one(seed in any::<u64>(), which in 0usize..4) {
        let mut rng = Rng::with_seed(seed);
        let place = places()[which].clone();
        let right = Cursor::of(&place);
        prop_assert_eq!(right.place::<Value>().unwrap(), place.clone());
        let altered = Alteration::random(&mut rng, right.as_str().len()).apply(right.as_str().as_bytes());
        let altered = String::from_utf8_lossy(&altered).into_owned();
        placed(&altered);
        if altered != right.as_str() {
            prop_assert!(Cursor::new(altered).place::<Value>().is_err());
        }
        // Whoever makes the checksum, too, has a place of another shape judged.
        let mut forged = place;
        JsonAlteration::apply(&mut forged, &mut rng);
        placed(Cursor::of(&forged).as_str());
    }
}

/// What the daemon's lists remember of where a page ended.
fn places() -> [Value; 4] {
    let record = json!({"chain": "eip155:1"});
    [json!([1_790_000_000, 7]), json!(["ledger", 5]), json!(["btc", [0, 1, 255]]), record]
}

/// Asked for every kind of place: within bounds, and what is none is refused as what the asker did wrong.
fn placed(text: &str) {
    fn ask<T: serde::de::DeserializeOwned>(text: &str) {
        let found: Result<T, OperatorError> = assert_bounded(text.len(), 40, 16 * 1024, || Cursor::new(text).place());
        if let Err(error) = found {
            assert_eq!(error.kind, ErrorKind::Invalid, "{error:?}");
            assert!(error.text.len() < 200, "the error repeats what was sent");
        }
    }
    ask::<(u64, Position)>(text);
    ask::<(ConsumerName, Position)>(text);
    ask::<(ChainName, Vec<u8>)>(text);
    ask::<DepositRecord>(text);
}

#[test]
fn hostile_import_long_lines_many_fields_and_deep_nesting_take_no_more_memory_than_they_are_long() {
    let long = format!("btc,{}", "a".repeat(40_000));
    let nested = format!("{{\"chain\":{}", deep("[", "0", "]", 20_000));
    let objects = format!("{{\"chain\":\"btc\",\"address\":{}}}", deep("{\"a\":", "0", "}", 8_000));
    for text in [long, nested, objects, ",".repeat(60_000), "\"".repeat(60_000), "\"\",".repeat(20_000), "\n".repeat(200_000)] {
        let _ = judged(text.as_bytes(), 1_000);
    }
    // A line without an end is refused as soon as it is too long to be an address.
    let mut reader = LineReader::either();
    let taken = (0..10_000).take_while(|_| reader.push(&[b'x'; 1_000], &mut Vec::new()).is_ok()).count();
    assert!(taken < 70, "{taken} KB of one line were kept");
}

async fn started(operator: Arc<Recorder>) -> SocketAddr {
    let mut options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
    options.requests_per_second = 1_000_000.try_into().unwrap();
    serve(options, operator).await
}

/// Everything that is sent before the other side has had enough, and the answer.
async fn sent(address: SocketAddr, bytes: &[u8]) -> String {
    sent_and(address, bytes, false).await
}

/// As [`sent`]; `ended` ends the sending side, so that a request which is not whole is not waited for. A server may take that
/// for a client that is gone.
async fn sent_and(address: SocketAddr, bytes: &[u8], ended: bool) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let mut answer = Vec::new();
    let write = async {
        let _ = writing.write_all(bytes).await;
        if ended {
            let _ = writing.shutdown().await;
        }
    };
    let read = async {
        // Whoever is refused in the middle of a body may find the connection reset behind the answer.
        let _ = reading.read_to_end(&mut answer).await;
    };
    tokio::join!(write, read);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn hostile_api_any_bytes_instead_of_a_request_are_refused_and_the_next_one_is_answered() {
    let address = started(Arc::default()).await;
    let valid =
        format!("{}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}", head("POST", "/v1/consumers/a/pause", address, ""));
    let mut rng = Rng::with_seed(11);
    for _ in 0..cases(400) {
        let mut bytes = valid.clone().into_bytes();
        for _ in 0..rng.usize(1..4) {
            bytes = Alteration::random(&mut rng, bytes.len()).apply(&bytes);
        }
        let answer = sent_and(address, &bytes, true).await;
        assert!(answer.is_empty() || (200..500).contains(&status_of(&answer)), "{:?}: {answer}", String::from_utf8_lossy(&bytes));
    }
    let plain = raw(address, &head("GET", "/v1/status", address, ""), "").await;
    assert_eq!(status_of(&plain), 200, "{plain}");
}

#[tokio::test]
async fn hostile_api_an_altered_body_is_taken_as_it_reads_or_refused_as_a_problem() {
    let operator = Arc::<Recorder>::default();
    let address = started(operator.clone()).await;
    let mut rng = Rng::with_seed(12);
    let event = format!("evt_{}", "a".repeat(32));
    let bodies = [
        ("POST", "/v1/addresses", json!({"entries": [{"chain": "btc", "address": "a", "reference": "r"}]})),
        ("DELETE", "/v1/addresses", json!({"chain": "btc", "addresses": ["a", "b"]})),
        ("POST", "/v1/consumers/ledger/requeue", json!({"events": [event], "all_dead": false, "per_second": 5})),
        ("POST", "/v1/consumers/ledger/replay", json!({"from": "2020-01-01T00:00:00Z", "events": [event]})),
        ("POST", "/v1/consumers/ledger/pause", json!({"why": "migration"})),
        ("PUT", "/v1/cursors/reader", json!({"after": "WzEsMl0", "start": null})),
        ("POST", "/v1/chains/btc/resume/preview", json!({"accept_reorg": null, "revert_settled": false})),
    ];
    let mut refused = 0;
    for round in 0..cases(1_500) {
        let (method, path, body) = &bodies[usize::try_from(round).unwrap() % bodies.len()];
        let text = if rng.bool() {
            let mut body = body.clone();
            JsonAlteration::apply(&mut body, &mut rng);
            body.to_string().into_bytes()
        } else {
            let text = body.to_string();
            Alteration::random(&mut rng, text.len()).apply(text.as_bytes())
        };
        let request =
            format!("{}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", head(method, path, address, ""), text.len());
        let answer = sent(address, &[request.as_bytes(), &text].concat()).await;
        let status = status_of(&answer);
        assert!((200..500).contains(&status), "{path} {:?}: {answer}", String::from_utf8_lossy(&text));
        if status >= 400 {
            refused += 1;
            assert!(answer.contains("application/problem+json") && answer.contains("urn:confirmd:"), "{path}: {answer}");
        }
    }
    assert!(refused > cases(1_500) / 4, "only {refused} were refused");
}

#[tokio::test]
async fn hostile_api_any_path_and_query_is_answered_or_refused_as_a_problem() {
    let address = started(Arc::default()).await;
    let mut rng = Rng::with_seed(13);
    let paths =
        ["/v1/deposits", "/v1/deliveries", "/v1/addresses", "/v1/dead-letters", "/v1/chains/", "/v1/deliveries/", "/v1/cursors/"];
    let keys = ["chain", "address", "reference", "after", "limit", "state", "consumer", "event", "asset", "seen_from", "x"];
    for _ in 0..cases(1_500) {
        let mut target = paths[rng.usize(..paths.len())].to_owned();
        let any = |rng: &mut Rng, most: usize| -> String {
            // Any byte, as a query writes it; now and then an escape that is none.
            let byte = |rng: &mut Rng| if rng.u8(..20) == 0 { "%zz".to_owned() } else { format!("%{:02x}", rng.u8(..)) };
            (0..rng.usize(..most)).map(|_| byte(rng)).collect()
        };
        if target.ends_with('/') {
            target.push_str(&any(&mut rng, 40));
        }
        for number in 0..rng.usize(..4) {
            target.push(if number == 0 { '?' } else { '&' });
            target.push_str(keys[rng.usize(..keys.len())]);
            target.push('=');
            target.push_str(&any(&mut rng, 60));
        }
        let answer = raw_bytes(address, &head("GET", &target, address, "")).await;
        let status = status_of(&answer);
        assert!((200..500).contains(&status), "{target}: {answer}");
        assert!(status < 400 || answer.contains("application/problem+json"), "{target}: {answer}");
    }
    let long = format!("/v1/deposits?after={}", "A".repeat(60_000));
    assert_eq!(status_of(&raw_bytes(address, &head("GET", &long, address, "")).await) / 100, 2, "the recorder takes any cursor");
    let longer = format!("/v1/deposits?after={}", "A".repeat(4 << 20));
    let answer = raw_bytes(address, &head("GET", &longer, address, "")).await;
    assert!(answer.is_empty() || (400..500).contains(&status_of(&answer)), "{answer}");
}

async fn raw_bytes(address: SocketAddr, head: &str) -> String {
    sent(address, format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).await
}

#[tokio::test]
async fn hostile_import_a_stream_of_long_labels_is_handed_on_before_it_fills_the_memory() {
    let operator = Arc::<Recorder>::default();
    let address = started(operator.clone()).await;
    let line = format!("{{\"chain\":\"btc\",\"address\":\"a\",\"reference\":\"{}\"}}\n", "r".repeat(60_000));
    let lines = 1_500;
    let head = head("POST", "/v1/addresses/import", address, "").replace("application/json", "application/x-ndjson");
    let request = format!("{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}", line.len() * lines, line.repeat(lines));
    let answer = sent(address, request.as_bytes()).await;
    assert_eq!(status_of(&answer), 200, "{answer}");
    assert!(answer.contains("\"count\":1500"), "{answer}");
    // 90 MB came; what was held at once is what was handed on at once.
    let most = operator.asked().iter().map(String::len).max().unwrap();
    assert!(most < 20 << 20, "{most} bytes were held");
}
