//! `kind = "webhook"`: every event as a signed POST to the operator's own receiver.
//!
//! # The request
//!
//! The body is the event's frozen bytes, the same on every attempt (K4). Headers:
//!
//! | header | value |
//! |---|---|
//! | `webhook-id`, `x-confirmd-delivery` | the event's id |
//! | `webhook-timestamp` | Unix seconds of this attempt |
//! | `webhook-signature` | Standard Webhooks: `v1,` + base64 HMAC-SHA256 over `id.timestamp.body`; one per secret, separated by a space |
//! | `x-confirmd-signature` | `sha256=` + hex HMAC-SHA256 over the body; one per secret, newest first, separated by a comma |
//! | `traceparent` | W3C Trace Context: this attempt's span in the event's trace; only where traces are on. Not signed |
//! | `content-type`, `user-agent` | `application/json`, `confirmd/VERSION` |
//!
//! A secret is `whsec_` and the base64 of 24 to 64 bytes; the decoded bytes key both signatures. **Rotation:** put the new
//! secret into `secret`, the old one into `secret_previous`, restart; every attempt then carries both signatures (retries of
//! old events too, since a signature is made when an attempt is sent). Once the receiver uses the new one, remove
//! `secret_previous`. A receiver must accept a request if *any* signature of a list fits. Secrets, URL and CA file are read
//! when the sink is built: after a change, restart; a requeued event then uses the new ones.
//!
//! # The answer
//!
//! | answer | meaning |
//! |---|---|
//! | any 2xx, once it has ended (or passed 64 KiB) | accepted |
//! | 408, 425, 429, 5xx | `Transient` |
//! | 410 | `Fatal`: the consumer pauses, nothing is lost or spent; `consumer resume` goes on |
//! | any other 4xx (401 and 403 too: a bad deployment answers those) | `Rejected`: same schedule, then a dead letter |
//! | 1xx, 3xx | `Rejected`: redirects are never followed |
//! | no or a broken answer, time-out, refused connection, failed TLS | `Transient` |
//!
//! `Retry-After` (seconds or a date) is passed on, at most 24 hours. `timeout` is one deadline over connecting, sending and
//! reading the whole answer (K9).
//!
//! **K5, duplicates.** An attempt that timed out here may have been processed there; the next one carries the same id and the
//! same bytes. The receiver sees to it: in one transaction it stores (epoch, sequence) and standing per key, ignores what is
//! not greater, and moves money only when the standing changes.
//!
//! # Where it connects to
//!
//! Names are resolved for every connection and the very addresses connected to are checked: link-local and cloud metadata
//! addresses are always refused, private ones (loopback included) unless `allow_private` lists them. An address in the URL is
//! checked when the sink is built; a name that leads to refused addresses only is `Fatal` at the start and `Transient` later,
//! since a name's addresses change. No proxy is used. Certificates are verified; `ca_file` replaces the public roots by a
//! private CA for this consumer. There is no way to turn verification off.
#![warn(missing_docs)]

mod address_policy;
mod answer;
mod cidr;
mod config;
mod connector;
mod signing;
mod sink;
mod target;
#[cfg(test)]
mod tests;

pub use cidr::Cidr;
pub use config::{UrlSource, WebhookConfig};
pub use sink::WebhookSink;

use confirmd_core::{ConfigError, Forgery, Sink, SinkContext, SinkKind, SystemClock, parse_table};
use std::sync::Arc;

/// The kind `webhook`.
pub const KIND: SinkKind = SinkKind {
    name: "webhook",
    summary: "posts each event, signed (Standard Webhooks), to your own receiver",
    example: r#"[sinks.ledger]
kind = "webhook"
url = "https://ledger.example/hooks/deposits"    # { env = "NAME" } or { file = "path" } if it holds a key
secret = { env = "LEDGER_WEBHOOK_SECRET" }       # whsec_ and the base64 of 24 to 64 random bytes
# secret_previous = { env = "LEDGER_WEBHOOK_SECRET_OLD" }   # while rotating: both sign
# timeout = "15s"                                # connecting, sending and the whole answer
# concurrency = 16
# allow_private = ["10.1.2.0/24"]                # private networks the receiver may be in
# ca_file = "/etc/ssl/our-ca.pem"                # instead of the public roots
"#,
    build,
};

fn build(context: SinkContext, table: toml::Table) -> Result<Arc<dyn Sink>, ConfigError> {
    let config: WebhookConfig = parse_table(table)?;
    Ok(Arc::new(WebhookSink::new(&context.consumer, &config, Arc::new(SystemClock))?))
}

/// A sink to the same receiver whose every request is one to refuse, for `confirmd conform --sink`.
///
/// # Errors
/// As the kind's own `build`.
pub fn build_forged(context: SinkContext, table: toml::Table, forgery: Forgery) -> Result<Arc<dyn Sink>, ConfigError> {
    let config: WebhookConfig = parse_table(table)?;
    Ok(Arc::new(WebhookSink::new(&context.consumer, &config, Arc::new(SystemClock))?.forged(forgery)))
}
