//! What whoever is on call receives.

use axum::http::HeaderMap;
use serde_json::Value;

/// One request with an operational event, which has nothing to do with a deposit.
#[derive(Debug, Clone)]
pub struct OperationalRequest {
    /// `webhook-id`; the body's id is the same.
    pub id: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The raw body.
    pub body: Vec<u8>,
    /// The body, read.
    pub event: Value,
    /// The status that was answered; None while it hangs or was closed.
    pub answered: Option<u16>,
}

impl OperationalRequest {
    /// The event's type, for example `operations.chain_halted`.
    pub fn kind(&self) -> &str {
        self.event.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it was taken.
    pub fn is_accepted(&self) -> bool {
        self.answered.is_some_and(|status| (200..300).contains(&status))
    }
}
