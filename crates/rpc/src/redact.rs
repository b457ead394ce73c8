//! What of an endpoint may be shown, and how its secrets are taken out of other people's texts.

use std::fmt;
use std::sync::Arc;
use url::Url;

/// Shown instead of a secret.
const HIDDEN: &str = "***";
/// Shorter pieces of a path or query (`v3`, `rpc`) are names, not keys; hiding them would garble every message.
const SECRET_CHARS_MIN: usize = 6;
/// Texts of nodes end up in logs and health pages: enough to recognise the cause, not a page of HTML.
const TEXT_CHARS_MAX: usize = 400;

/// Scheme, host and port of an endpoint; everything else is left out (`https://node.example:8545/…`).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RedactedUrl(Arc<str>);

impl RedactedUrl {
    /// Keeps what may be shown.
    pub fn new(url: &Url) -> Self {
        let host = url.host_str().unwrap_or("?");
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let rest = if url.path().len() > 1 || url.query().is_some() { "/…" } else { "" };
        Self(format!("{}://{host}{port}{rest}", url.scheme()).into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RedactedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RedactedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Knows an endpoint's secrets and removes them from texts that came from outside (gateways like to quote the key).
#[derive(Clone, Default)]
pub(crate) struct Scrubber {
    secrets: Vec<String>,
}

impl Scrubber {
    /// Learns the secret parts of a URL: user info, path pieces, query values.
    pub(crate) fn learn_url(&mut self, url: &Url) {
        self.learn(url.password().unwrap_or_default());
        self.learn_piece(url.username());
        url.path_segments().into_iter().flatten().for_each(|piece| self.learn_piece(piece));
        url.query_pairs().for_each(|(_, value)| self.learn_piece(&value));
        url.query().into_iter().flat_map(|query| query.split(['&', '='])).for_each(|piece| self.learn_piece(piece));
    }

    /// Learns a secret of any length.
    pub(crate) fn learn(&mut self, secret: &str) {
        if !secret.is_empty() {
            self.secrets.push(secret.to_owned());
            // The longest first: a secret inside another one must not leave the rest standing.
            self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    fn learn_piece(&mut self, piece: &str) {
        if piece.len() >= SECRET_CHARS_MIN {
            self.learn(piece);
        }
    }

    /// The text on one line, bounded, without secrets. `also` is a secret that changes (a cookie).
    pub(crate) fn scrub(&self, text: &str, also: Option<&str>) -> String {
        let mut clean = text.to_owned();
        for secret in self.secrets.iter().map(String::as_str).chain(also).filter(|secret| !secret.is_empty()) {
            clean = clean.replace(secret, HIDDEN);
        }
        let mut line: String = clean.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_CHARS_MAX).collect();
        if clean.chars().nth(TEXT_CHARS_MAX).is_some() {
            line.push('…');
        }
        line.trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_redacted_url_has_no_user_info_path_or_query() {
        let url = Url::parse("https://user:pw@host.example:8545/v3/SECRETKEY?token=x").unwrap();
        assert_eq!(RedactedUrl::new(&url).to_string(), "https://host.example:8545/…");
        let url = Url::parse("http://127.0.0.1:8332").unwrap();
        assert_eq!(format!("{:?}", RedactedUrl::new(&url)), "http://127.0.0.1:8332");
    }

    #[test]
    fn secrets_are_taken_out_of_foreign_texts_on_one_bounded_line() {
        let mut scrubber = Scrubber::default();
        scrubber.learn_url(&Url::parse("https://user:pw@host:8545/v3/SECRETKEY?token=tok%20en77").unwrap());
        let text = scrubber.scrub("no project\nSECRETKEY for pw, tok en77 or tok%20en77; cookie abc", Some("abc"));
        assert_eq!(text, "no project *** for ***, *** or ***; cookie ***");
        assert!(scrubber.scrub(&"x".repeat(5_000), None).chars().count() <= TEXT_CHARS_MAX + 1);
    }
}
