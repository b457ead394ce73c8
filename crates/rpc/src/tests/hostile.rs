//! Answers as a broken or lying node could send them, to the normaliser and to the whole client.

use super::limits;
use super::node::{Manner, Node, Reply, Seen};
use crate::failure::Failure;
use crate::normalise::normalise;
use crate::retry_after::{RETRY_AFTER_MAX, retry_after};
use crate::wire::Answer;
use crate::{CallError, RpcError};
use confirmd_hostile::{Alteration, JsonAlteration, assert_bounded, cases, config, deep};
use fastrand::Rng;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// What a normaliser may hold: the answer again, once more while that grows, and messages.
const FACTOR: u64 = 6;
const BASE: u64 = 64 * 1024;
const STATUSES: [u16; 8] = [200, 200, 200, 400, 404, 429, 500, 503];

/// Valid answers of both dialects, to one call and to batches of three.
fn answers() -> Vec<(Option<usize>, String)> {
    let both = |id: u8| format!(r#"{{"result":{{"n":{id},"hash":"0xab"}},"error":null,"id":{id}}}"#);
    let strict = |id: u8| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":[{id},"x",null]}}"#);
    let refused = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-5,"message":"no such block","data":{"a":[1]}}}"#;
    let old = r#"{"result":null,"error":{"code":-8,"message":"Block height out of range"},"id":1}"#;
    vec![
        (None, strict(1)),
        (None, both(1)),
        (None, old.to_owned()),
        (None, refused.replace("\"id\":3", "\"id\":1")),
        (Some(3), format!("[{},{},{refused}]", strict(1), strict(2))),
        (Some(3), format!("[{},{},{}]", both(3), both(1), both(2))),
    ]
}

fn judge(body: Vec<u8>, status: u16, batch: Option<usize>) -> Result<Vec<u8>, Failure> {
    let answer = Answer::made(status, body);
    normalise(answer, batch, &|text| text.chars().take(400).collect()).map(|bytes| bytes.to_vec())
}

/// Strict 2.0: each reply with an id and one of result and error; at most as many as were asked.
fn assert_strict(bytes: &[u8], batch: Option<usize>) {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("not JSON ({error})"));
    let replies = match (&value, batch) {
        (Value::Array(replies), Some(asked)) => {
            assert!(replies.len() <= asked, "{} replies to {asked} calls", replies.len());
            replies.as_slice()
        }
        (Value::Object(_), None) => std::slice::from_ref(&value),
        _ => panic!("the wrong form: {value}"),
    };
    for reply in replies {
        assert_eq!(reply["jsonrpc"], "2.0");
        let error = reply.get("error").is_some_and(|error| error.is_object());
        assert!(reply.get("id").is_some() && (error != reply.get("result").is_some()), "{reply}");
    }
}

#[test]
fn hostile_rpc_every_valid_answer_is_strict_and_no_prefix_of_one_is_taken() {
    for (batch, text) in answers() {
        assert_strict(&judge(text.clone().into_bytes(), 200, batch).unwrap(), batch);
        for end in 0..text.len() {
            assert!(judge(text.as_bytes()[..end].to_vec(), 200, batch).is_err(), "{end} of {text}");
        }
        for behind in ["x", "{}", "[", ",{}"] {
            assert!(judge(format!("{text}{behind}").into_bytes(), 200, batch).is_err(), "{behind} behind {text}");
        }
    }
}

proptest! {
    #![proptest_config(config(4_000))]

    #[test]
    fn hostile_rpc_an_altered_answer_is_strict_or_refused(
        which in 0usize..6, seed in any::<u64>(), changes in 1usize..5, status in 0usize..8,
    ) {
        let (batch, text) = answers().swap_remove(which);
        let mut rng = Rng::with_seed(seed);
        let mut bytes = text.into_bytes();
        for _ in 0..changes {
            bytes = Alteration::random(&mut rng, bytes.len()).apply(&bytes);
        }
        if let Ok(strict) = assert_bounded(bytes.len(), FACTOR, BASE, || judge(bytes.clone(), STATUSES[status], batch)) {
            assert_strict(&strict, batch);
        }
    }

    #[test]
    fn hostile_rpc_an_answer_of_another_shape_is_strict_or_refused(which in 0usize..6, seed in any::<u64>(), changes in 1usize..4) {
        let (batch, text) = answers().swap_remove(which);
        let mut rng = Rng::with_seed(seed);
        let mut value: Value = serde_json::from_str(&text).unwrap();
        for _ in 0..changes {
            JsonAlteration::apply(&mut value, &mut rng);
        }
        if let Ok(strict) = judge(value.to_string().into_bytes(), 200, batch) {
            assert_strict(&strict, batch);
        }
    }

    #[test]
    fn hostile_rpc_any_bytes_are_judged_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), status in 0usize..8) {
        for batch in [None, Some(3)] {
            if let Ok(strict) = judge(bytes.clone(), STATUSES[status], batch) {
                assert_strict(&strict, batch);
            }
        }
    }

    #[test]
    fn hostile_rpc_any_retry_after_is_capped_or_ignored(text in any::<String>(), date in any::<String>()) {
        let mut headers = http::HeaderMap::new();
        for (name, value) in [("retry-after", text), ("date", date)] {
            if let Ok(value) = http::HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        let wait = retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000));
        prop_assert!(wait.is_none_or(|wait| wait <= RETRY_AFTER_MAX));
    }
}

#[test]
fn hostile_rpc_lists_of_nothing_and_deep_nesting_take_no_more_memory_than_they_are_long() {
    let list = |item: &str| format!("[{}{item}]", format!("{item},").repeat(1_000_000 / (item.len() + 1)));
    let mut texts: Vec<String> = ["{}", "null", "0", "[]", r#"{"id":1,"result":1}"#, r#"{"id":1,"error":1}"#].map(list).into();
    texts.extend([
        deep("[", "", "]", 500_000),
        deep("{\"result\":", "0", "}", 100_000),
        format!(r#"{{"id":1,"result":{}}}"#, deep("[", "", "]", 500_000)),
        format!(r#"{{"id":1,"error":{}}}"#, deep("{\"message\":", "0", "}", 100_000)),
        format!(r#"{{"id":1,"error":{{"code":{0},"message":{0},"data":{0}}}}}"#, list("0")),
        format!(r#"[{{"id":1,"result":{}}}]"#, deep("{\"a\":[", "", "]}", 100_000)),
        format!(r#"{{"id":1,"result":"{}"}}"#, "\\u0000".repeat(160_000)),
    ]);
    for text in texts {
        for batch in [None, Some(3)] {
            let judged = assert_bounded(text.len(), FACTOR, BASE, || judge(text.clone().into_bytes(), 200, batch));
            // What is nested deeper than a reader may go is passed on as text; the caller's type refuses it.
            assert!(judged.is_err() || judged.unwrap().len() < text.len() * 2);
        }
    }
}

/// A node whose answers to a batch of three are made from the right ones.
fn node(alter: impl Fn(Value) -> Vec<u8> + Send + Sync + 'static) -> Node {
    Node::new(move |_, seen: &Seen| {
        let replies: Value =
            seen.ids().iter().enumerate().map(|(n, id)| json!({ "jsonrpc": "2.0", "id": id, "result": n })).collect();
        let reply = if seen.body.starts_with('[') { replies } else { replies[0].clone() };
        Reply::new(200, alter(reply))
    })
}

async fn ask(node: &Node) -> Result<Vec<Result<u64, CallError>>, RpcError> {
    let limits = limits("attempts = 1\nrequests_per_second = 100000");
    node.client(&limits).batch(vec![("m", [0]), ("m", [1]), ("m", [2])]).await
}

#[tokio::test(start_paused = true)]
async fn hostile_rpc_a_batch_is_answered_call_by_call_or_fails_whatever_shape_it_comes_in() {
    for seed in 0..u64::from(cases(600)) {
        let node = node(move |mut replies| {
            JsonAlteration::apply(&mut replies, &mut Rng::with_seed(seed));
            replies.to_string().into_bytes()
        });
        if let Ok(answers) = ask(&node).await {
            assert_eq!(answers.len(), 3);
            for (n, answer) in (0u64..).zip(answers) {
                // Only a result's own value may differ: an answer carries no proof.
                assert!(answer.is_err() || answer.clone().unwrap() == n, "seed {seed}: call {n} got {answer:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_rpc_a_doubled_reply_is_an_error_even_beside_all_the_others() {
    for doubled in 0..3 {
        let node = node(move |mut replies| {
            let mut again = replies[doubled].clone();
            again["result"] = json!(77);
            replies.as_array_mut().unwrap().push(again);
            replies.to_string().into_bytes()
        });
        assert!(ask(&node).await.is_err(), "reply {doubled} twice");
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_rpc_whatever_is_sent_instead_of_http_is_an_error_and_never_a_value() {
    let whole = "HTTP/1.1 200 OK\r\ncontent-length: 38\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":IDIDID,\"result\":1}";
    for seed in 0..u64::from(cases(400)) {
        let node = Node::new(move |_, seen| {
            let mut rng = Rng::with_seed(seed);
            let mut bytes = whole.replace("IDIDID", &seen.ids()[0].to_string()).into_bytes();
            for _ in 0..rng.usize(1..4) {
                bytes = Alteration::random(&mut rng, bytes.len()).apply(&bytes);
            }
            Reply { body: bytes, ..Reply::manner(Manner::Raw) }
        });
        let limits = limits("attempts = 1\nrequest_timeout = '1s'");
        let result = node.client(&limits).call::<Value>("m", ()).await;
        assert!(result.as_ref().map_or(true, Value::is_number), "seed {seed}: {result:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_rpc_a_length_that_is_announced_allocates_nothing() {
    for announced in ["134217728", "134217727", "18446744073709551615", "99999999999999999999"] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {announced}\r\n\r\n{{");
        let node = Node::new(move |_, _| Reply { body: head.clone().into_bytes(), ..Reply::manner(Manner::Raw) });
        let limits = limits("attempts = 1\nrequest_timeout = '1s'");
        let client = node.client(&limits);
        let (sent, received) = std::sync::mpsc::channel();
        // On a thread of its own, where the runtime's work is counted, too.
        let work = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            let read = || runtime.block_on(async { client.call::<Value>("m", ()).await.is_err() });
            sent.send(assert_bounded(0, 0, 2_000_000, read)).unwrap();
        });
        assert!(received.recv().unwrap(), "{announced}");
        work.join().unwrap();
    }
}
