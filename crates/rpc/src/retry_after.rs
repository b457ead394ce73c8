//! The `Retry-After` header in both of its forms.

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// A node that asks for longer is asked again after this: a mistaken header must not blind a chain for a day.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// How long the server wants us to stay away, at most [`RETRY_AFTER_MAX`]. A date counts from the server's own `Date`
/// where it sends one, since the two clocks may differ; otherwise from `now`. A date in the past is zero.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = httpdate::parse_http_date(text).ok()?;
            let sent = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
            until.duration_since(sent.unwrap_or(now)).unwrap_or_default()
        }
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(pairs: &[(&'static str, &str)], now: u64) -> Option<Duration> {
        let headers = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(now))
    }

    #[test]
    fn seconds_and_dates_are_read_and_capped() {
        let date = "Thu, 01 Jan 1970 00:01:40 GMT";
        assert_eq!(read(&[("retry-after", "7")], 0), Some(Duration::from_secs(7)));
        assert_eq!(read(&[("retry-after", date)], 90), Some(Duration::from_secs(10)));
        assert_eq!(read(&[("retry-after", date)], 200), Some(Duration::ZERO));
        assert_eq!(read(&[("retry-after", "99999999")], 0), Some(RETRY_AFTER_MAX));
        assert_eq!(read(&[("retry-after", "soon")], 0), None);
        assert_eq!(read(&[], 0), None);
    }

    #[test]
    fn a_date_counts_from_the_servers_own_clock() {
        let pairs = [("retry-after", "Thu, 01 Jan 1970 00:01:40 GMT"), ("date", "Thu, 01 Jan 1970 00:01:37 GMT")];
        assert_eq!(read(&pairs, 9_999_999), Some(Duration::from_secs(3)));
    }
}
