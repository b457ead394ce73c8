//! What a call can fail with: one variant per thing the caller does next.

use crate::failure::Failure;
use crate::redact::RedactedUrl;
use confirmd_core::SourceError;
use std::fmt;
use std::time::Duration;

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// Tried within attempts and deadline: give up for now, ask again later.
    #[error("{context}")]
    Transient {
        /// How long the server wants us to stay away, if it said so.
        retry_after: Option<Duration>,
        /// What was tried.
        context: Context,
        /// The last attempt's cause.
        #[source]
        source: Box<Failure>,
    },
    /// The node answered this very call with an error: the caller knows what it means.
    #[error(transparent)]
    Call(#[from] CallError),
    /// No repetition helps: a human must act (credentials, most likely).
    #[error("{context}")]
    Fatal {
        /// What was tried.
        context: Context,
        /// The last attempt's cause.
        #[source]
        source: Box<Failure>,
    },
    /// The answer made no sense, also when it was read a second time.
    #[error("{context}")]
    Malformed {
        /// What was tried.
        context: Context,
        /// The second reading's cause.
        #[source]
        source: Box<Failure>,
    },
}

/// What was tried: the method, the endpoint (redacted) and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The JSON-RPC method, or the first one of a batch, or `GET`.
    pub method: &'static str,
    /// Calls sent together.
    pub calls: usize,
    /// The endpoint, without its secrets.
    pub endpoint: RedactedUrl,
    /// Attempts that were sent.
    pub attempts: u32,
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asked {} for {}", self.endpoint, self.method)?;
        if self.calls > 1 {
            write!(f, " (batch of {})", self.calls)?;
        }
        match self.attempts {
            1 => f.write_str(" once"),
            n => write!(f, " {n} times"),
        }
    }
}

/// The node's own error for one call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{method} was answered with error {code}: {message}")]
pub struct CallError {
    /// The method that was called; `GET` for [`RpcClient::rest_get`](crate::RpcClient::rest_get).
    pub method: &'static str,
    /// The JSON-RPC error code; for `GET` the HTTP status.
    pub code: i32,
    /// The node's text: one line, bounded, without our secrets.
    pub message: String,
    /// The error's `data` as JSON text, bounded like the message.
    pub data: Option<String>,
}

impl RpcError {
    /// The caller asked for too much at once: a smaller range, or fewer calls, may work.
    pub fn is_range_limit(&self) -> bool {
        match self {
            Self::Call(error) => error.is_range_limit(),
            Self::Malformed { source, .. } => matches!(**source, Failure::TooLarge { .. }),
            Self::Transient { source, .. } => matches!(**source, Failure::Status { status: 413, .. } | Failure::TimedOut(_)),
            Self::Fatal { .. } => false,
        }
    }

    /// How often the call was sent.
    pub fn attempts(&self) -> Option<u32> {
        match self {
            Self::Transient { context, .. } | Self::Fatal { context, .. } | Self::Malformed { context, .. } => {
                Some(context.attempts)
            }
            Self::Call(_) => None,
        }
    }
}

/// What a source reports when it has nothing better to say about an error. An error of the node halts the chain only
/// where waiting can't help (unknown method, pruned data); a source that knows the meaning of a code says so itself.
impl From<RpcError> for SourceError {
    fn from(error: RpcError) -> Self {
        let context = error.to_string();
        match error {
            RpcError::Transient { retry_after, source, .. } => {
                Self { kind: confirmd_core::SourceErrorKind::Transient { retry_after }, context, source: Some(source) }
            }
            RpcError::Call(error) if error.is_method_missing() || error.is_pruned() => Self::fatal(context),
            RpcError::Call(_) => Self::transient(context),
            RpcError::Fatal { source, .. } | RpcError::Malformed { source, .. } => {
                Self { source: Some(source), ..Self::fatal(context) }
            }
        }
    }
}
