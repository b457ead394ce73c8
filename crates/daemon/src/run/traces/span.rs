//! Spans, as they are recorded.

use confirmd_core::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch. They order what stands in a trace and decide nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Nanos(pub(super) u64);

impl Nanos {
    pub(super) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Timestamp> for Nanos {
    fn from(at: Timestamp) -> Self {
        Self(at.0.saturating_mul(1_000_000))
    }
}

/// What a span says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// By name.
pub(super) type Attributes = Vec<(&'static str, Value)>;

/// Which side of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanKind {
    Internal,
    /// A call to somebody else.
    Client,
}

/// One step of an event's way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    /// `None` for the whole.
    pub(super) parent: Option<[u8; 8]>,
    pub(super) name: &'static str,
    pub(super) kind: SpanKind,
    pub(super) from: Nanos,
    /// Not before `from`.
    pub(super) to: Nanos,
    pub(super) attributes: Attributes,
    /// Trace and span that this one answers to.
    pub(super) link: Option<([u8; 16], [u8; 8])>,
    /// Why it failed.
    pub(super) failed: Option<String>,
}

impl Span {
    /// Internal, without parent, link or failure.
    pub(super) fn new(trace_id: [u8; 16], span_id: [u8; 8], name: &'static str, (from, to): (Nanos, Nanos)) -> Self {
        let to = to.max(from);
        let (kind, attributes) = (SpanKind::Internal, Vec::new());
        Self { trace_id, span_id, parent: None, name, kind, from, to, attributes, link: None, failed: None }
    }
}
