//! Everything we know of the ways in which nodes and providers say "not now", "too much" and "never".
//!
//! Texts are compared in lower case against message and data. Where a text fits two lists, "too much at once" wins over
//! "too many requests": repeating a range that is too large helps nobody, halving it does.

use crate::error::CallError;
use crate::failure::Failure;
use std::time::Duration;

/// bitcoind: the node is loading its index or verifying blocks.
pub(crate) const WARMING_UP: i32 = -28;
/// EIP-1474: limit exceeded.
const LIMIT_EXCEEDED: i32 = -32005;
/// Used by gateways for "too many requests", often with HTTP 200.
const GATEWAY_LIMIT: i32 = -32029;
/// HTTP's code in a JSON-RPC error.
const TOO_MANY_REQUESTS: i32 = 429;
const METHOD_NOT_FOUND: i32 = -32601;
/// EIP-1474: method not supported.
const METHOD_NOT_SUPPORTED: i32 = -32004;
/// EIP-4444: history that this node no longer has.
const HISTORY_PRUNED: i32 = 4444;

/// "Not now": the same request may be answered later.
const THROTTLE_TEXTS: &[&str] = &[
    "too many requests",
    "rate limit",
    "rate-limit",
    "ratelimit",
    "requests per second",
    "request limit",
    "request rate",
    "requests limit",
    "compute units",
    "capacity exceeded",
    "capacity limit",
    "throttl",
    "quota",
    "credits",
    "try again",
    "retry later",
    "work queue depth exceeded",
    "overloaded",
    "server is busy",
    "server busy",
    "temporarily unavailable",
];

/// "Too much at once": the limits of `eth_getLogs` and its kind, and time-outs that a smaller range avoids.
const RANGE_TEXTS: &[&str] = &[
    "query returned more than",
    "more than 10000 results",
    "more than 10,000",
    "too many results",
    "too many logs",
    "too many blocks",
    "block range",
    "blocks range",
    "range limit",
    "range exceed",
    "range too",
    "range is too",
    "ranges over",
    "exceeds limit of",
    "exceed maximum",
    "exceeds the limit of",
    "exceeds max",
    "max range",
    "maximum range",
    "max results",
    "max block",
    "response size",
    "response is too",
    "response too",
    "result size",
    "result set",
    "results exceed",
    "logs exceed",
    "is limited to",
    "limited to a",
    "limited to 0 -",
    "smaller range",
    "reduce the range",
    "narrow",
    "blocks distance",
    "query exceeds",
    "query timeout",
    "payload too large",
    "entity too large",
    "batch too large",
    "batch size",
    "batch limit",
    "timed out",
    "timeout",
];

/// "Never here": a method this node does not offer.
const MISSING_TEXTS: &[&str] = &[
    "method not found",
    "does not exist/is not available",
    "method is not available",
    "method not supported",
    "unsupported method",
    "not supported",
    "not whitelisted",
    "method is disabled",
    "method not allowed",
    "method disabled",
];

/// "No longer here": history that this node has dropped.
const PRUNED_TEXTS: &[&str] = &[
    "pruned",
    "missing trie node",
    "historical state",
    "history is not available",
    "history expired",
    "state is not available",
    "archive",
];

/// HTTP statuses that mean "not now" even with a JSON-RPC error in the body.
pub(crate) fn is_throttle_status(status: u16) -> bool {
    matches!(status, 402 | 408 | 425 | 429 | 502 | 503 | 504 | 529)
}

/// True for a text of a gateway that speaks no JSON.
pub(crate) fn is_throttle_text(text: &str) -> bool {
    contains(&text.to_lowercase(), THROTTLE_TEXTS)
}

fn contains(text: &str, list: &[&str]) -> bool {
    list.iter().any(|piece| text.contains(piece))
}

impl CallError {
    fn text(&self) -> String {
        format!("{} {}", self.message, self.data.as_deref().unwrap_or_default()).to_lowercase()
    }

    /// The call asked for too much at once (a block range, a batch): a smaller one may work.
    pub fn is_range_limit(&self) -> bool {
        contains(&self.text(), RANGE_TEXTS)
    }

    /// The node does not offer this method, or not to us.
    pub fn is_method_missing(&self) -> bool {
        let unsupported = self.code == METHOD_NOT_SUPPORTED || contains(&self.text(), MISSING_TEXTS);
        self.code == METHOD_NOT_FOUND || (unsupported && !self.is_range_limit())
    }

    /// The node has dropped the history that was asked for: no repetition brings it back.
    pub fn is_pruned(&self) -> bool {
        self.code == HISTORY_PRUNED || contains(&self.text(), PRUNED_TEXTS)
    }

    /// The node is not ready or wants fewer requests. Such an error never reaches a caller as [`RpcError::Call`](crate::RpcError::Call).
    pub(crate) fn is_throttle(&self) -> bool {
        match self.code {
            WARMING_UP | GATEWAY_LIMIT | TOO_MANY_REQUESTS => true,
            LIMIT_EXCEEDED => !self.is_range_limit(),
            METHOD_NOT_FOUND => false,
            _ => contains(&self.text(), THROTTLE_TEXTS) && !self.is_range_limit(),
        }
    }
}

/// What to do after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The node's answer to the call: hand it over.
    Answer,
    /// Try again, not before the span where one is given.
    Retry(Option<Duration>),
    /// Read it once more; if it is undecodable again, give up.
    ReadAgain,
    /// Fetch the credentials anew and try once more.
    Authenticate,
    /// Give up for now without another attempt.
    Later(Duration),
    /// Give up for good.
    Stop,
}

/// The one place that decides it.
pub(crate) fn verdict(failure: &Failure) -> Verdict {
    match failure {
        Failure::Answered { error, status, retry_after } if is_throttle_status(*status) || error.is_throttle() => {
            Verdict::Retry(*retry_after)
        }
        Failure::Answered { .. } => Verdict::Answer,
        // A proxy answers 404 or a page while its upstream is being replaced: no reason to halt a chain.
        Failure::Status { retry_after, .. } => Verdict::Retry(*retry_after),
        Failure::Unreachable(_) | Failure::Interrupted(_) | Failure::TimedOut(_) | Failure::Html(_) | Failure::EmptyBody => {
            Verdict::Retry(None)
        }
        Failure::MissingReply { .. } | Failure::Cookie { .. } => Verdict::Retry(None),
        Failure::Denied { .. } => Verdict::Authenticate,
        Failure::TooLarge { .. } | Failure::Undecodable(_) => Verdict::ReadAgain,
        Failure::NoPermit(wait) | Failure::Paused(wait) => Verdict::Later(*wait),
        Failure::Request(_) => Verdict::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32, message: &str) -> CallError {
        CallError { method: "m", code, message: message.into(), data: None }
    }

    fn answered(code: i32, message: &str, status: u16) -> Verdict {
        verdict(&Failure::Answered { error: error(code, message), status, retry_after: None })
    }

    #[test]
    fn errors_that_pass_with_time_are_retried() {
        for (code, message, status) in [
            (-28, "Loading block index…", 500),
            (-32005, "limit exceeded", 200),
            (-32005, "daily request count exceeded, request rate limited", 200),
            (-32029, "", 200),
            (429, "Your app has exceeded its compute units per second capacity", 200),
            (-32000, "Too Many Requests", 200),
            (-32007, "50/second request limit reached", 200),
            (30, "rate limit exceeded", 402),
            (-32603, "whatever", 503),
            (-1, "anything", 429),
        ] {
            assert_eq!(answered(code, message, status), Verdict::Retry(None), "{code} {message}");
        }
    }

    #[test]
    fn errors_about_the_call_itself_are_handed_to_the_caller() {
        for (code, message, status) in [
            (-5, "Block not found", 500),
            (-8, "Block height out of range", 500),
            (-1, "Block not available (pruned data)", 500),
            (-32601, "Method not found", 404),
            (-32000, "header not found", 200),
            (-32000, "execution reverted", 200),
            (-32602, "invalid params", 200),
            (-32005, "query returned more than 10000 results. Try with this block range [0x1, 0x2].", 200),
        ] {
            assert_eq!(answered(code, message, status), Verdict::Answer, "{code} {message}");
        }
    }

    #[test]
    fn range_limits_of_many_providers_are_recognised_whatever_their_code() {
        for (code, message) in [
            (-32602, "range 1000000 exceeds limit of 10000"),
            (-32005, "query returned more than 10000 results"),
            (-32602, "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range"),
            (35, "ranges over 10000 blocks are not supported on freetier"),
            (-32000, "exceed maximum block range: 5000"),
            (-32603, "block range is too wide"),
            (-32614, "eth_getLogs is limited to a 10,000 range"),
            (-32000, "too many blocks requested, try again with fewer"),
            (-32002, "request timed out"),
        ] {
            assert!(error(code, message).is_range_limit(), "{message}");
            assert!(!error(code, message).is_throttle(), "{message}");
            assert!(!error(code, message).is_method_missing(), "{message}");
        }
        let in_data = CallError { data: Some("{\"payload\":\"max range 5000\"}".into()), ..error(-32000, "bad") };
        assert!(in_data.is_range_limit());
    }

    #[test]
    fn missing_methods_and_pruned_history_have_names_of_their_own() {
        assert!(error(-32601, "the method debug_traceBlockByHash does not exist/is not available").is_method_missing());
        assert!(error(-32004, "This method is not supported").is_method_missing());
        assert!(error(-1, "Block not available (pruned data)").is_pruned());
        assert!(error(4444, "").is_pruned());
        assert!(!error(-8, "Block height out of range").is_pruned());
    }

    #[test]
    fn a_refused_login_is_fetched_anew_and_an_undecodable_answer_read_again() {
        let denied = Failure::Denied { status: 401, version: 1, remedy: "" };
        assert_eq!(verdict(&denied), Verdict::Authenticate);
        assert_eq!(verdict(&Failure::Undecodable("x".into())), Verdict::ReadAgain);
        assert_eq!(verdict(&Failure::TooLarge { cap_bytes: 1 }), Verdict::ReadAgain);
        assert_eq!(verdict(&Failure::Html(String::new())), Verdict::Retry(None));
    }
}
