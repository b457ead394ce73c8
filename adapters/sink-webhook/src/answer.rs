//! What an answer means.

use confirmd_core::{SinkErrorKind, Timestamp};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::time::{Duration, UNIX_EPOCH};
use tokio::time::{Instant, timeout_at};

/// Of an answer's body; what follows is not read.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;
/// Of a body in an error's text.
const EXCERPT_BYTES_MAX: usize = 300;
/// Where parts are hidden before the excerpt is cut, so that a cut never leaves half of one.
const HIDING_BYTES_MAX: usize = 4096;
/// A receiver that asks for longer is asked again after this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// How the reading of a body ended.
#[derive(Debug)]
pub(crate) enum BodyEnd {
    /// It was read whole, or up to the cap.
    Read,
    /// The connection broke in it.
    Broken(hyper::Error),
    /// The deadline passed in it.
    TimedOut,
}

/// Reads a body up to the cap and the deadline.
pub(crate) async fn read_body(mut body: Incoming, deadline: Instant) -> (Vec<u8>, BodyEnd) {
    let mut read = Vec::new();
    loop {
        match timeout_at(deadline, body.frame()).await {
            Err(_) => return (read, BodyEnd::TimedOut),
            Ok(None) => return (read, BodyEnd::Read),
            Ok(Some(Err(error))) => return (read, BodyEnd::Broken(error)),
            Ok(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap_or_default();
                let room = BODY_BYTES_MAX.saturating_sub(read.len());
                read.extend_from_slice(data.get(..room).unwrap_or(&data));
                if read.len() >= BODY_BYTES_MAX {
                    return (read, BodyEnd::Read);
                }
            }
        }
    }
}

/// What the pump does next; `None` for success.
pub(crate) fn judge(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<SinkErrorKind> {
    let retry_after = retry_after(headers, now);
    match status.as_u16() {
        200..=299 => None,
        408 | 425 | 429 | 500..=599 => Some(SinkErrorKind::Transient { retry_after }),
        410 => Some(SinkErrorKind::Fatal),
        _ => Some(SinkErrorKind::Rejected { retry_after }),
    }
}

/// What to tell the operator about a status, beside the status.
pub(crate) fn advice(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => "; redirects are not followed, write the final address into url",
        401 | 403 => "; does the receiver have this consumer's secret?",
        410 => "; it wants no more events: correct url or the receiver, then resume the consumer",
        _ => "",
    }
}

/// `Retry-After` in seconds or as a date, at most 24 hours.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let after = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let at = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        Timestamp::from_seconds(at.as_secs()).since(now)
    };
    Some(after.min(RETRY_AFTER_MAX))
}

/// The beginning of a body for an error's text: one line, printable, without what must be hidden.
pub(crate) fn excerpt<'a>(body: &[u8], hidden: impl Iterator<Item = &'a str>) -> String {
    let window = body.get(..HIDING_BYTES_MAX).unwrap_or(body);
    let mut text = String::from_utf8_lossy(window).into_owned();
    for part in hidden.filter(|part| !part.is_empty()) {
        text = text.replace(part, "…");
        // The window's end may have cut one in half; spaces before it vanish, and the half would be shown.
        let begun = part.char_indices().map(|(at, _)| at).skip(1).filter_map(|at| part.get(..at));
        if let Some(half) = begun.filter(|half| text.trim_end_matches('\u{fffd}').ends_with(half)).last() {
            let end = text.trim_end_matches('\u{fffd}').len().saturating_sub(half.len());
            text.truncate(end);
        }
    }
    let printable: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<_> = printable.split_whitespace().collect();
    let line = words.join(" ");
    if line.len() <= EXCERPT_BYTES_MAX {
        return line;
    }
    let end = (0..=EXCERPT_BYTES_MAX).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", line.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn kind(status: u16, retry_after: Option<&str>) -> Option<SinkErrorKind> {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(header::RETRY_AFTER, value.parse().unwrap());
        }
        judge(StatusCode::from_u16(status).unwrap(), &headers, Timestamp::from_seconds(1_767_225_600))
    }

    #[test]
    fn d10_a_status_has_one_meaning() {
        for status in [200, 201, 202, 204, 226, 299] {
            assert_eq!(kind(status, None), None, "{status}");
        }
        for status in [408, 425, 429, 500, 502, 503, 504, 599] {
            assert_eq!(kind(status, None), Some(SinkErrorKind::Transient { retry_after: None }), "{status}");
        }
        for status in [101, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 409, 413, 422, 451, 499, 600, 999] {
            assert_eq!(kind(status, None), Some(SinkErrorKind::Rejected { retry_after: None }), "{status}");
        }
        assert_eq!(kind(410, Some("5")), Some(SinkErrorKind::Fatal));
    }

    #[test]
    fn k7_retry_after_is_read_in_seconds_and_as_a_date_and_capped_at_a_day() {
        let after = |value| match kind(503, Some(value)) {
            Some(SinkErrorKind::Transient { retry_after }) => retry_after,
            other => panic!("{other:?}"),
        };
        assert_eq!(after("120"), Some(Duration::from_secs(120)));
        assert_eq!(after("0"), Some(Duration::ZERO));
        assert_eq!(after("Thu, 01 Jan 2026 00:10:00 GMT"), Some(Duration::from_secs(600)));
        assert_eq!(after("Wed, 01 Jan 2025 00:10:00 GMT"), Some(Duration::ZERO), "a date in the past");
        for long in ["86401", "99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
            assert_eq!(after(long), Some(Duration::from_secs(86_400)), "{long}");
        }
        for nonsense in ["", "soon", "-1", "1.5"] {
            assert_eq!(after(nonsense), None, "{nonsense:?}");
        }
        assert_eq!(kind(404, Some("7")), Some(SinkErrorKind::Rejected { retry_after: Some(Duration::from_secs(7)) }));
    }

    #[test]
    fn an_excerpt_is_one_printable_line_of_300_bytes_without_what_is_hidden() {
        assert_eq!(excerpt(b"no\r\n\x1b[31m  such\x00route", std::iter::empty()), "no [31m such route");
        assert_eq!(excerpt(b"Cannot POST /hooks/KEY", ["/hooks/KEY"].into_iter()), "Cannot POST …");
        let long = excerpt("é".repeat(1000).as_bytes(), std::iter::empty());
        assert!(long.len() <= 300 + '…'.len_utf8() && long.ends_with('…'), "{}", long.len());
        let straddling = format!("{}hunter2-hunter2-hunter2", "x".repeat(290));
        assert!(!excerpt(straddling.as_bytes(), ["hunter2-hunter2-hunter2"].into_iter()).contains("hunter"));
        assert_eq!(excerpt(&[0xff, 0xfe], std::iter::empty()), "\u{fffd}\u{fffd}");
    }
}
