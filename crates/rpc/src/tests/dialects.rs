//! Every form of answer, once.

use super::node::{Manner, Node, Reply, Seen};
use super::{endpoint, limits};
use crate::{Failure, RpcClient, RpcError};
use serde_json::{Value, json};

/// What a call with one attempt must come to.
#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Ok(Value),
    Call(i32, &'static str),
    Transient(Option<u64>),
    Fatal,
    Malformed,
}

type Row = (&'static str, u16, &'static str, Outcome);

/// Name, HTTP status, body (`ID` stands for the call's id), outcome.
fn rows() -> Vec<Row> {
    use Outcome::{Call, Fatal, Malformed, Ok, Transient};
    vec![
        ("2.0 result", 200, r#"{"jsonrpc":"2.0","id":ID,"result":"ok"}"#, Ok(json!("ok"))),
        ("2.0 null", 200, r#"{"jsonrpc":"2.0","id":ID,"result":null}"#, Ok(Value::Null)),
        ("2.0 error", 200, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-5,"message":"no"}}"#, Call(-5, "no")),
        ("2.0 with a null error", 200, r#"{"jsonrpc":"2.0","result":1,"error":null,"id":ID}"#, Ok(json!(1))),
        ("2.0 with more fields", 200, r#"{"jsonrpc":"2.0","id":ID,"result":1,"usage":{"error":1}}"#, Ok(json!(1))),
        ("1.x result", 200, r#"{"result":"ok","error":null,"id":ID}"#, Ok(json!("ok"))),
        ("1.x null result", 200, r#"{"result":null,"error":null,"id":ID}"#, Ok(Value::Null)),
        ("no jsonrpc, no error", 200, r#"{"result":"ok","id":ID}"#, Ok(json!("ok"))),
        (
            "1.x error, 200",
            200,
            r#"{"result":null,"error":{"code":-5,"message":"Block not found"},"id":ID}"#,
            Call(-5, "Block not found"),
        ),
        (
            "1.x error, 500",
            500,
            r#"{"result":null,"error":{"code":-8,"message":"Block height out of range"},"id":ID}"#,
            Call(-8, "Block height out of range"),
        ),
        (
            "1.x error, 404",
            404,
            r#"{"result":null,"error":{"code":-32601,"message":"Method not found"},"id":ID}"#,
            Call(-32601, "Method not found"),
        ),
        (
            "pruned",
            500,
            r#"{"result":null,"error":{"code":-1,"message":"Block not available (pruned data)"},"id":ID}"#,
            Call(-1, "Block not available (pruned data)"),
        ),
        (
            "error without an id",
            200,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse"}}"#,
            Call(-32700, "parse"),
        ),
        ("error as a text", 200, r#"{"id":ID,"error":"bad thing"}"#, Call(-32000, "bad thing")),
        (
            "error with more fields",
            200,
            r#"{"id":ID,"error":{"code":"-3","message":"m","name":"n","data":{"a":1}}}"#,
            Call(-3, "m"),
        ),
        ("error without a message", 200, r#"{"id":ID,"error":{"code":0}}"#, Call(0, "(no message)")),
        ("warm-up", 500, r#"{"result":null,"error":{"code":-28,"message":"Loading block index…"},"id":ID}"#, Transient(None)),
        ("200 on a rate limit", 200, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32029,"message":"x"}}"#, Transient(None)),
        (
            "limit exceeded",
            200,
            r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32005,"message":"limit exceeded"}}"#,
            Transient(None),
        ),
        ("429 with an error", 429, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"x"}}"#, Transient(None)),
        ("402", 402, r#"{"code":30,"message":"out of credits"}"#, Transient(None)),
        ("work queue", 503, "Work queue depth exceeded", Transient(None)),
        ("text with 200", 200, "Too many requests, slow down", Transient(None)),
        ("bad gateway", 502, "<html>Bad gateway</html>", Transient(None)),
        ("page", 200, "<html>hello</html>", Transient(None)),
        ("not found page", 404, "<html>nothing here</html>", Transient(None)),
        ("empty", 200, "", Transient(None)),
        ("401", 401, "", Fatal),
        ("403", 403, "<html>Forbidden</html>", Fatal),
        ("neither result nor error", 200, r#"{"jsonrpc":"2.0","id":ID}"#, Malformed),
        ("id as a text", 200, r#"{"jsonrpc":"2.0","id":"ID","result":1}"#, Malformed),
        ("another id", 200, r#"{"jsonrpc":"2.0","id":999999,"result":1}"#, Malformed),
        ("no id", 200, r#"{"jsonrpc":"2.0","result":1}"#, Malformed),
        ("an array for a call", 200, r#"[{"jsonrpc":"2.0","id":ID,"result":1}]"#, Malformed),
        ("half an object", 200, r#"{"jsonrpc":"2.0","id":ID,"resu"#, Malformed),
        ("a number", 200, "42", Malformed),
    ]
}

fn outcome(result: Result<Value, RpcError>) -> Outcome {
    match result {
        Ok(value) => Outcome::Ok(value),
        Err(RpcError::Call(error)) => Outcome::Call(error.code, error.message.leak()),
        Err(RpcError::Transient { retry_after, .. }) => Outcome::Transient(retry_after.map(|wait| wait.as_secs())),
        Err(RpcError::Fatal { .. }) => Outcome::Fatal,
        Err(RpcError::Malformed { .. }) => Outcome::Malformed,
    }
}

fn scripted(status: u16, body: &'static str) -> Node {
    Node::new(move |_, seen: &Seen| Reply::new(status, body.replace("ID", &seen.ids()[0].to_string())))
}

#[tokio::test(start_paused = true)]
async fn every_dialect_and_every_failure_has_its_outcome() {
    for (name, status, body, expected) in rows() {
        let node = scripted(status, body);
        let result = node.client(&limits("attempts = 1")).call("m", ()).await;
        assert_eq!(outcome(result), expected, "{name}");
        let reads = if expected == Outcome::Malformed { 2 } else { 1 };
        assert_eq!(node.requests(), reads, "{name}: an undecodable answer is read twice, any other once");
    }
}

#[tokio::test]
async fn the_same_holds_over_real_sockets() {
    // The others pause between two readings.
    for (name, status, body, expected) in rows().into_iter().filter(|(.., outcome)| *outcome != Outcome::Malformed) {
        let url = scripted(status, body).listen().await;
        let client = RpcClient::new(&[endpoint(&format!("url = '{url}'"))], &limits("attempts = 1")).unwrap();
        assert_eq!(outcome(client.call("m", ()).await), expected, "{name}");
    }
}

#[tokio::test]
async fn parameters_arrive_as_arrays_and_data_of_an_error_is_kept() {
    let node = Node::new(|_, seen| {
        Reply::new(200, format!(r#"{{"id":{},"error":{{"code":-3,"message":"m","data":{{"a":"1"}}}}}}"#, seen.ids()[0]))
    });
    let url = node.listen().await;
    let client = RpcClient::new(&[endpoint(&format!("url = '{url}/wallet/w?x=1'"))], &limits("")).unwrap();
    let error = client.call::<Value>("getblock", ("hash", 0)).await.unwrap_err();
    let RpcError::Call(error) = error else { panic!("{error:?}") };
    assert_eq!((error.method, error.data.as_deref()), ("getblock", Some(r#"{"a":"1"}"#)));
    let _ = client.call::<Value>("getblockcount", ()).await;
    let seen = node.seen();
    let first: Value = serde_json::from_str(&seen[0].body).unwrap();
    assert_eq!((&first["jsonrpc"], &first["method"], &first["params"]), (&json!("2.0"), &json!("getblock"), &json!(["hash", 0])));
    let second: Value = serde_json::from_str(&seen[1].body).unwrap();
    assert_eq!(second["params"], json!([]));
    assert!(seen[0].head.starts_with("POST /wallet/w?x=1 HTTP/1.1\r\n"));
    assert_eq!(seen[0].header("content-type").unwrap(), "application/json");
}

#[tokio::test(start_paused = true)]
async fn a_result_of_the_wrong_type_is_malformed_after_a_second_reading_and_mended_by_a_good_one() {
    let node = Node::new(|n, seen| Reply::ok(seen, if n == 0 { "\"text\"" } else { "7" }));
    assert_eq!(node.client(&limits("attempts = 1")).call::<u64>("m", ()).await.unwrap(), 7);
    let node = Node::new(|_, seen| Reply::ok(seen, "null"));
    let error = node.client(&limits("")).call::<u64>("eth_blockNumber", ()).await.unwrap_err();
    assert!(matches!(error, RpcError::Malformed { .. }), "a null is never a number: {error:?}");
    assert_eq!(error.attempts(), Some(2));
    assert_eq!(node.client(&limits("")).call::<Option<u64>>("m", ()).await.unwrap(), None);
}

type BatchRow = (&'static str, u16, &'static str, Result<[Result<u64, i32>; 3], Outcome>);

/// Answers to a batch of three, with the ids A, B and C.
fn batches() -> Vec<BatchRow> {
    use Outcome::{Call, Malformed, Transient};
    vec![
        (
            "2.0",
            200,
            r#"[{"jsonrpc":"2.0","id":A,"result":1},{"jsonrpc":"2.0","id":B,"result":2},{"jsonrpc":"2.0","id":C,"result":3}]"#,
            Ok([Ok(1), Ok(2), Ok(3)]),
        ),
        (
            "1.x",
            200,
            r#"[{"result":1,"error":null,"id":A},{"result":null,"error":{"code":-8,"message":"x"},"id":B},{"result":3,"error":null,"id":C}]"#,
            Ok([Ok(1), Err(-8), Ok(3)]),
        ),
        (
            "out of order, one error",
            200,
            r#"[{"id":C,"result":3},{"id":A,"result":1},{"id":B,"error":{"code":-5,"message":"x"}}]"#,
            Ok([Ok(1), Err(-5), Ok(3)]),
        ),
        (
            "one error for all",
            200,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch limit exceeded"}}"#,
            Err(Call(-32600, "batch limit exceeded")),
        ),
        (
            "one error for all with an id",
            200,
            r#"{"jsonrpc":"2.0","id":A,"error":{"code":-32000,"message":"batch too large"}}"#,
            Err(Call(-32000, "batch too large")),
        ),
        (
            "one error for all in an array",
            200,
            r#"[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}]"#,
            Err(Call(-32600, "no")),
        ),
        ("one limit for all", 429, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x"}}"#, Err(Transient(None))),
        (
            "a limit for one",
            200,
            r#"[{"id":A,"result":1},{"id":B,"error":{"code":429,"message":"slow"}},{"id":C,"result":3}]"#,
            Err(Transient(None)),
        ),
        ("first missing", 200, r#"[{"id":B,"result":2},{"id":C,"result":3}]"#, Err(Transient(None))),
        ("last missing", 200, r#"[{"id":A,"result":1},{"id":B,"result":2}]"#, Err(Transient(None))),
        ("doubled ids", 200, r#"[{"id":A,"result":1},{"id":A,"result":2},{"id":B,"result":3}]"#, Err(Transient(None))),
        (
            "one too many",
            200,
            r#"[{"id":A,"result":1},{"id":B,"result":2},{"id":C,"result":3},{"id":C,"result":4}]"#,
            Err(Transient(None)),
        ),
        ("none", 200, "[]", Err(Transient(None))),
        ("a reply with nothing", 200, r#"[{"id":A,"result":1},{"id":B},{"id":C,"result":3}]"#, Err(Malformed)),
        ("one result for all", 200, r#"{"jsonrpc":"2.0","id":A,"result":1}"#, Err(Malformed)),
        ("another type", 200, r#"[{"id":A,"result":1},{"id":B,"result":"x"},{"id":C,"result":3}]"#, Err(Malformed)),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_matched_by_id_and_a_missing_reply_is_an_error() {
    for (name, status, body, expected) in batches() {
        let node = Node::new(move |_, seen| {
            let ids = seen.ids();
            let body = ["A", "B", "C"]
                .iter()
                .zip(&ids)
                .fold(body.to_owned(), |body, (name, id)| body.replace(&format!("\"id\":{name}"), &format!("\"id\":{id}")));
            Reply::new(status, body)
        });
        let client = node.client(&limits("attempts = 1"));
        let calls = vec![("m1", json!([1])), ("m2", json!([])), ("m3", json!([]))];
        let result = client.batch::<u64>(calls).await;
        let expected = expected.map(|answers| answers.to_vec());
        let got = match result {
            Ok(answers) => Ok(answers.into_iter().map(|answer| answer.map_err(|error| error.code)).collect::<Vec<_>>()),
            Err(error) => Err(outcome(Err(error))),
        };
        assert_eq!(got, expected, "{name}");
    }
}

#[tokio::test]
async fn an_empty_batch_asks_nothing_and_a_long_one_goes_in_parts() {
    let node = Node::new(|_, seen| {
        let replies: Vec<Value> = seen.ids().iter().map(|id| json!({ "id": id, "result": id })).collect();
        Reply::new(200, json!(replies).to_string())
    });
    let client = node.client(&limits("requests_per_second = 1000\nburst = 4"));
    assert!(client.batch::<u64>(Vec::<(&str, ())>::new()).await.unwrap().is_empty());
    let answers = client.batch_in_parts::<u64>((0..10).map(|n| ("m", [n])).collect(), 100).await.unwrap();
    assert_eq!((answers.len(), node.requests()), (10, 3));
    assert_eq!(client.health()[0].permits, 10, "a batch takes one permit per call");
}

#[tokio::test(start_paused = true)]
async fn an_answer_above_the_cap_is_not_read_whether_announced_or_not() {
    for manner in [Manner::Whole, Manner::Chunked] {
        let node = Node::new(move |_, seen| Reply { manner, ..Reply::ok(seen, &format!("\"{}\"", "f".repeat(1_000_000))) });
        let client = node.client(&limits("response_bytes_max = 100000"));
        let error = client.call_raw("getblock", ()).await.unwrap_err();
        let RpcError::Malformed { source, .. } = &error else { panic!("{error:?}") };
        assert_eq!(**source, Failure::TooLarge { cap_bytes: 100_000 });
        assert!(error.is_range_limit(), "a smaller range may fit");
        assert!(client.health()[0].bytes_received < 400_000, "two readings stop at the cap");
        let client = node.client(&limits("response_bytes_max = 1100000"));
        assert_eq!(client.call_raw("getblock", ()).await.unwrap().get().len(), 1_000_002);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_off_answer_and_a_closed_connection_are_transient() {
    for manner in [Manner::CutOff, Manner::Close] {
        let node = Node::new(move |n, seen| if n == 0 { Reply { manner, ..Reply::ok(seen, "1") } } else { Reply::ok(seen, "2") });
        let client = node.client(&limits("attempts = 2"));
        assert_eq!(client.call::<u64>("m", ()).await.unwrap(), 2, "{manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rest_bodies_come_as_they_are_under_the_same_policy() {
    let node = Node::new(|n, seen| match n {
        0 => Reply::new(503, "Service temporarily unavailable: Loading block index"),
        1 => Reply::new(200, vec![0, 159, 146, 150]),
        _ => {
            assert!(seen.head.starts_with("GET /rest/block/ff.bin HTTP/1.1\r\n"));
            Reply::new(404, "ff not found")
        }
    });
    let client = node.client_with(&limits("deadline = '5s'"), &[endpoint("url = 'http://node.test/v3/KEYKEYKEY?a=b'")]);
    assert_eq!(client.rest_get("/rest/block/ff.bin").await.unwrap(), vec![0, 159, 146, 150]);
    let error = client.rest_get("/rest/block/ff.bin").await.unwrap_err();
    assert_eq!(outcome(Err(error)), Outcome::Call(404, "ff not found"));
    assert_eq!(client.health()[0].permits, 3);
}
