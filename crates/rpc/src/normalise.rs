//! Rewrites an answer of any dialect as strict JSON-RPC 2.0, or says what it is instead.
//!
//! Older nodes answer `result` and `error` together, one of them null, without `jsonrpc`, and send errors with HTTP 404 or
//! 500; gateways answer a batch with one error, or with a page. jsonrpsee accepts none of it.

use crate::classify::is_throttle_text;
use crate::error::CallError;
use crate::failure::Failure;
use crate::wire::Answer;
use bytes::Bytes;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

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
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Makes a text of the node presentable.
type Scrub<'a> = &'a dyn Fn(&str) -> String;

/// The answer as strict 2.0, its errors' texts scrubbed. `batch`: how many calls a batch asked, none for a single call.
pub(crate) fn normalise(answer: Answer, batch: Option<usize>, scrub: Scrub<'_>) -> Result<Bytes, Failure> {
    let first = answer.body.iter().find(|byte| !byte.is_ascii_whitespace()).copied();
    let outcome = match first {
        None if answer.is_success() => return Err(Failure::EmptyBody),
        Some(b'{') => one(&answer, batch.is_some(), scrub),
        Some(b'[') if batch.is_some() => many(&answer, batch.unwrap_or_default(), scrub),
        _ => Err(Fault::NotRpc("it is not a JSON-RPC answer".into())),
    };
    match outcome {
        Ok(Strict::AsItIs) => Ok(answer.body),
        Ok(Strict::Rewritten(bytes)) => Ok(bytes.into()),
        Err(Fault::Error(error)) => Err(Failure::Answered { error, status: answer.status, retry_after: answer.retry_after }),
        Err(Fault::TooMany) => Err(Failure::MissingReply { asked: batch.unwrap_or_default() }),
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
    /// More replies than calls: one of them answers nothing, or two the same call.
    TooMany,
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

fn many(answer: &Answer, asked: usize, scrub: Scrub<'_>) -> Result<Strict, Fault> {
    let mut replies = Replies { out: Vec::with_capacity(answer.body.len()), asked, fault: None, scrub };
    let mut reader = serde_json::Deserializer::from_slice(&answer.body);
    let read = reader.deserialize_seq(&mut replies).and_then(|()| reader.end());
    match (replies.fault, read) {
        (Some(fault), _) => Err(fault),
        (None, Err(error)) => Err(Fault::NotRpc(error.to_string())),
        (None, Ok(())) => Ok(Strict::Rewritten(replies.out)),
    }
}

/// Writes each reply when it is read: a list of a million empty ones takes no memory, and more than were asked end it.
struct Replies<'s> {
    out: Vec<u8>,
    asked: usize,
    fault: Option<Fault>,
    scrub: Scrub<'s>,
}

impl<'de> Visitor<'de> for &mut Replies<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of replies")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.out.push(b'[');
        let mut count = 0;
        while let Some(reply) = list.next_element::<Reply<'de>>()? {
            if count > 0 {
                self.out.push(b',');
            }
            count += 1;
            if let Err(fault) = self.write(&reply, count) {
                self.fault = Some(fault);
                return Err(A::Error::custom("not a reply"));
            }
        }
        self.out.push(b']');
        Ok(())
    }
}

impl Replies<'_> {
    fn write(&mut self, reply: &Reply<'_>, count: usize) -> Result<(), Fault> {
        let (out, scrub) = (&mut self.out, self.scrub);
        match (reply.error(), reply.result, reply.id) {
            // Without an id it is about the whole batch.
            (Some(error), _, None) => return Err(Fault::Error(call_error(error, scrub))),
            _ if count > self.asked => return Err(Fault::TooMany),
            (Some(error), _, id) => write_error(out, id, &call_error(error, scrub)),
            (None, Some(result), Some(id)) => write_result(out, id, result),
            _ => return Err(Fault::NotRpc("a reply has neither a result nor an error, or no id".into())),
        }
        Ok(())
    }
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
    let text = |value: &RawValue| serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned());
    let (code, message, data) = match serde_json::from_str::<ErrorBody<'_>>(raw.get()) {
        Ok(body) => (body.code, body.message.map(text), body.data.map(|data| data.get().to_owned())),
        Err(_) => (None, Some(text(raw)), None),
    };
    // A number, or one as a text.
    let code = code.and_then(|code| code.get().trim_matches('"').parse::<i32>().ok());
    let message =
        message.map(|message| scrub(&message)).filter(|message| !message.is_empty()).unwrap_or_else(|| "(no message)".into());
    let data = data.map(|data| scrub(&data));
    CallError { method: "", code: code.unwrap_or(NO_CODE), message, data }
}
