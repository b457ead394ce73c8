//! Spans on the wire: what we use of OTLP's messages (opentelemetry-proto, `trace/v1` and `collector/trace/v1`), with their field
//! numbers. The end-to-end trials read them with the official types.

use super::span::{Span, SpanKind, Value};
use crate::cli::VERSION;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<WireSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct WireSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    /// 1 internal, 3 client.
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "13")]
    links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Link {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    /// 2 is an error.
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 3")]
    value: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Any {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

#[derive(Clone, PartialEq, Message)]
struct ExportTraceServiceResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// The flag `sampled`.
const SAMPLED: u32 = 1;

fn pair(key: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => Any::Text(text),
        Value::Number(number) => Any::Number(number),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

impl From<&Span> for WireSpan {
    fn from(span: &Span) -> Self {
        Self {
            trace_id: span.trace_id.to_vec(),
            span_id: span.span_id.to_vec(),
            parent_span_id: span.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
            name: span.name.to_owned(),
            kind: match span.kind {
                SpanKind::Internal => 1,
                SpanKind::Client => 3,
            },
            start_time_unix_nano: span.from.0,
            end_time_unix_nano: span.to.0,
            attributes: span.attributes.iter().map(|(key, value)| pair(key, value.clone())).collect(),
            links: span.link.iter().map(|(trace, span)| Link { trace_id: trace.to_vec(), span_id: span.to_vec() }).collect(),
            status: span.failed.clone().map(|message| Status { message, code: 2 }),
            flags: SAMPLED,
        }
    }
}

/// One request's body. `instance` tells the process from others of the same service.
pub(super) fn request(service: &str, instance: &str, spans: &[Span]) -> Vec<u8> {
    let attributes = vec![
        pair("service.name", service.into()),
        pair("service.version", VERSION.into()),
        pair("service.instance.id", instance.into()),
    ];
    let scope = Scope { name: "confirmd".to_owned(), version: VERSION.to_owned() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans: spans.iter().map(WireSpan::from).collect() }];
    let resource_spans = vec![ResourceSpans { resource: Some(Resource { attributes }), scope_spans }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

/// How many spans a collector that took a request did not take, and what it says of them. What can't be read says nothing.
pub(super) fn rejected(answer: &[u8]) -> Option<(u64, String)> {
    let partial = ExportTraceServiceResponse::decode(answer).ok()?.partial_success?;
    let rejected = u64::try_from(partial.rejected_spans).ok().filter(|rejected| *rejected > 0)?;
    Some((rejected, partial.error_message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_collector_that_names_spans_it_did_not_take_rejects_some() {
        let answer = |rejected_spans| {
            let partial = PartialSuccess { rejected_spans, error_message: "too old".to_owned() };
            ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec()
        };
        assert_eq!(rejected(&answer(3)), Some((3, "too old".to_owned())));
        assert_eq!((rejected(&answer(0)), rejected(b""), rejected(b"{}")), (None, None, None));
    }
}
