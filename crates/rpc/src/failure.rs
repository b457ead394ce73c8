//! What can go wrong with one attempt, as observed.

use crate::classify::is_throttle_status;
use crate::error::CallError;
use std::path::PathBuf;
use std::time::Duration;

/// The cause of a failed attempt. Texts from outside are on one line, bounded, and free of the endpoint's secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// No connection: refused, unknown host, TLS.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// The connection ended before the answer was complete.
    #[error("the connection broke before the answer was complete: {0}")]
    Interrupted(String),
    /// No complete answer in time.
    #[error("no complete answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// HTTP 401 or 403.
    #[error("HTTP {status}: the node refuses us; {remedy}")]
    Denied {
        /// The HTTP status.
        status: u16,
        /// Which credentials were refused.
        version: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// An HTTP status without a JSON-RPC answer.
    #[error("HTTP {status} without a JSON-RPC answer: {text}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// The `Retry-After` header.
        retry_after: Option<Duration>,
        /// The beginning of the body.
        text: String,
    },
    /// A JSON-RPC error.
    #[error("{error}")]
    Answered {
        /// The node's error.
        error: CallError,
        /// The HTTP status it came with.
        status: u16,
        /// The `Retry-After` header.
        retry_after: Option<Duration>,
    },
    /// A page for people.
    #[error("a web page instead of JSON: {0}")]
    Html(String),
    /// A success without content.
    #[error("HTTP 200 with an empty body")]
    EmptyBody,
    /// More than we read.
    #[error("the answer is larger than {cap_bytes} bytes; ask for less or raise limits.response_bytes_max")]
    TooLarge {
        /// `limits.response_bytes_max`.
        cap_bytes: u32,
    },
    /// An answer that does not mean anything to us.
    #[error("undecodable answer: {0}")]
    Undecodable(String),
    /// Some of a batch's calls have no answer of their own.
    #[error("a batch of {asked} calls was not answered call by call")]
    MissingReply {
        /// Calls in the batch.
        asked: usize,
    },
    /// The cookie file can't be used.
    #[error("the cookie file {} can't be used ({problem}); it appears when the node runs and its RPC server is on", path.display())]
    Cookie {
        /// The configured file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// Our own rate limit has no room before the deadline.
    #[error("limits.requests_per_second leaves no room before limits.deadline (free in {} ms)", .0.as_millis())]
    NoPermit(Duration),
    /// The node asked for a pause that outlasts the deadline.
    #[error("the node asked for a pause that lasts {} ms more", .0.as_millis())]
    Paused(Duration),
    /// The request itself could not be made.
    #[error("the request can't be sent: {0}")]
    Request(String),
}

impl Failure {
    /// Nothing was heard from the node, or not all: whoever answers next may be another one.
    pub(crate) fn lost_connection(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Interrupted(_))
    }

    /// The node kept us waiting on purpose.
    pub(crate) fn is_throttle(&self) -> bool {
        match self {
            Self::Status { status, .. } => is_throttle_status(*status),
            Self::Answered { error, status, .. } => is_throttle_status(*status) || error.is_throttle(),
            _ => false,
        }
    }
}
