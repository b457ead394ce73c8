//! Where an attempt stands in its event's trace, as W3C Trace Context names it.

use crate::EventId;
use sha2::{Digest, Sha256};
use std::fmt;

/// Names one span of one trace. An event's trace has the 32 hex digits of its id, so every instance and every start knows it without
/// keeping anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The event's own 16 bytes.
    pub trace_id: [u8; 16],
    /// Never zero.
    pub span_id: [u8; 8],
    /// Whether this trace is recorded.
    pub sampled: bool,
}

impl TraceContext {
    /// The trace of an event.
    pub fn trace_of(event: &EventId) -> [u8; 16] {
        let hex = event.as_str().strip_prefix("evt_").expect("invariant: an event's id begins with evt_");
        let mut trace_id = [0; 16];
        const_hex::decode_to_slice(hex, &mut trace_id).expect("invariant: an event's id has 32 hex digits");
        trace_id
    }

    /// The id of the span of this name in a trace that has one of it, the same wherever it is asked for. Never zero.
    pub fn span_named(trace_id: &[u8; 16], name: &str) -> [u8; 8] {
        let digest = Sha256::new().chain_update(trace_id).chain_update(name).finalize();
        let mut span_id = [0; 8];
        span_id.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        if span_id == [0; 8] { [1; 8] } else { span_id }
    }
}

/// The value of the header `traceparent`, version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace_id, span_id) = (const_hex::encode(self.trace_id), const_hex::encode(self.span_id));
        write!(f, "00-{trace_id}-{span_id}-{:02x}", u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_trace_is_the_events_id_and_shows_as_a_traceparent() {
        let event = EventId::new("evt_0af7651916cd43dd8448eb211c80319C").unwrap();
        let mut context = TraceContext { trace_id: TraceContext::trace_of(&event), span_id: [7; 8], sampled: true };
        assert_eq!(context.to_string(), "00-0af7651916cd43dd8448eb211c80319c-0707070707070707-01");
        context.sampled = false;
        assert!(context.to_string().ends_with("-00"));
        let span = |name| TraceContext::span_named(&context.trace_id, name);
        assert!(span("deposit") == span("deposit") && span("deposit") != span("block"));
    }
}
