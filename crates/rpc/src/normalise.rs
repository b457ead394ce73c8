//! Rewrites an answer of any dialect as strict JSON-RPC 2.0, or says what it is instead.
//!
//! Older nodes answer `result` and `error` together, one of them null, without `jsonrpc`, and send errors with HTTP 404 or
//! 500; gateways answer a batch with one error, or with a page. jsonrpsee accepts none of it.

use crate::classify::is_throttle_text;
use crate::error::CallError;
use crate::failure::Failure;
use crate::wire::Answer;
use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// For errors that carry no usable code of their own.
const NO_CODE: i32 = -32000;

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
}

impl<'a> Reply<'a> {
    /// The error, where it is more than the null of the older dialect.
    fn error(&self) -> Option<&'a RawValue> {
        self.error.filter(|error| error.get() != "null")
    }
}

/// Keeps "absent" and "null" apart.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
struct ErrorBody<'a> {
    code: Option<serde_json::Value>,
    message: Option<serde_json::Value>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Makes a text of the node presentable.
type Scrub<'a> = &'a dyn Fn(&str) -> String;

/// The answer as strict 2.0, its errors' texts scrubbed. `batch`: whether a batch was asked.
pub(crate) fn normalise(answer: Answer, batch: bool, scrub: Scrub<'_>) -> Result<Bytes, Failure> {
    let first = answer.body.iter().find(|byte| !byte.is_ascii_whitespace()).copied();
    let outcome = match first {
        None if answer.is_success() => return Err(Failure::EmptyBody),
        Some(b'{') => one(&answer, batch, scrub),
        Some(b'[') if batch => many(&answer, scrub),
        _ => Err(Fault::NotRpc("it is not a JSON-RPC answer".into())),
    };
    match outcome {
        Ok(Strict::AsItIs) => Ok(answer.body),
        Ok(Strict::Rewritten(bytes)) => Ok(bytes.into()),
        Err(Fault::Error(error)) => Err(Failure::Answered { error, status: answer.status, retry_after: answer.retry_after }),
        Err(Fault::NotRpc(why)) => Err(no_rpc(&answer, first, why)),
    }
}

enum Strict {
    AsItIs,
    Rewritten(Vec<u8>),
}

enum Fault {
    /// An error for everything that was asked.
    Error(CallError),
    NotRpc(String),
}

fn no_rpc(answer: &Answer, first: Option<u8>, why: String) -> Failure {
    let text = answer.beginning();
    if !answer.is_success() || is_throttle_text(&text) {
        Failure::Status { status: answer.status, retry_after: answer.retry_after, text }
    } else if first == Some(b'<') {
        Failure::Html(text)
    } else {
        Failure::Undecodable(format!("{why}; it begins with: {text}"))
    }
}

fn one(answer: &Answer, batch: bool, scrub: Scrub<'_>) -> Result<Strict, Fault> {
    let reply: Reply<'_> = serde_json::from_slice(&answer.body).map_err(|error| Fault::NotRpc(error.to_string()))?;
    if let Some(error) = reply.error() {
        let error = call_error(error, scrub);
        // With a status of its own, a wish to wait or without an id the error does not fit into strict 2.0.
        if batch || reply.id.is_none() || answer.retry_after.is_some() || !matches!(answer.status, 200 | 400 | 404 | 500) {
            return Err(Fault::Error(error));
        }
        let mut out = Vec::new();
        write_error(&mut out, reply.id, &error);
        return Ok(Strict::Rewritten(out));
    }
    let (Some(result), Some(id)) = (reply.result, reply.id) else {
        return Err(Fault::NotRpc("it has neither a result nor an error, or no id".into()));
    };
    if batch {
        return Err(Fault::NotRpc("one result answers a batch".into()));
    }
    if !answer.is_success() {
        return Err(Fault::NotRpc("a result with an HTTP status that is none of success".into()));
    }
    if reply.jsonrpc.is_some_and(|version| version.get() == "\"2.0\"") && reply.error.is_none() {
        return Ok(Strict::AsItIs);
    }
    let mut out = Vec::with_capacity(result.get().len() + id.get().len() + 48);
    write_result(&mut out, id, result);
    Ok(Strict::Rewritten(out))
}

fn many(answer: &Answer, scrub: Scrub<'_>) -> Result<Strict, Fault> {
    let replies: Vec<Reply<'_>> = serde_json::from_slice(&answer.body).map_err(|error| Fault::NotRpc(error.to_string()))?;
    let mut out = Vec::with_capacity(answer.body.len() + replies.len() * 16);
    out.push(b'[');
    for (n, reply) in replies.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        match (reply.error(), reply.result, reply.id) {
            (Some(error), _, None) => return Err(Fault::Error(call_error(error, scrub))),
            (Some(error), _, id) => write_error(&mut out, id, &call_error(error, scrub)),
            (None, Some(result), Some(id)) => write_result(&mut out, id, result),
            _ => return Err(Fault::NotRpc("a reply has neither a result nor an error, or no id".into())),
        }
    }
    out.push(b']');
    Ok(Strict::Rewritten(out))
}

fn write_result(out: &mut Vec<u8>, id: &RawValue, result: &RawValue) {
    for piece in ["{\"jsonrpc\":\"2.0\",\"id\":", id.get(), ",\"result\":", result.get(), "}"] {
        out.extend_from_slice(piece.as_bytes());
    }
}

fn write_error(out: &mut Vec<u8>, id: Option<&RawValue>, error: &CallError) {
    let body = serde_json::json!({ "code": error.code, "message": error.message, "data": error.data });
    let id = id.map_or("null", RawValue::get);
    out.extend_from_slice(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{body}}}").as_bytes());
}

/// Reads an error object of any shape. Its message is never empty: jsonrpsee uses the empty one for calls without a reply.
fn call_error(raw: &RawValue, scrub: Scrub<'_>) -> CallError {
    let text = |value: serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (code, message, data) = match serde_json::from_str::<ErrorBody<'_>>(raw.get()) {
        Ok(body) => (body.code, body.message.map(text), body.data.map(|data| data.get().to_owned())),
        Err(_) => (None, serde_json::from_str(raw.get()).ok().map(text), None),
    };
    let code =
        code.and_then(|code| code.as_i64().or_else(|| code.as_str()?.parse().ok())).and_then(|code| i32::try_from(code).ok());
    let message =
        message.map(|message| scrub(&message)).filter(|message| !message.is_empty()).unwrap_or_else(|| "(no message)".into());
    let data = data.map(|data| scrub(&data));
    CallError { method: "", code: code.unwrap_or(NO_CODE), message, data }
}
