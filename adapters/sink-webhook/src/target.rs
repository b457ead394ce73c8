//! Where the requests go, and what of it may be shown.

use crate::UrlSource;
use crate::address_policy::AddressPolicy;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use confirmd_core::ConfigError;
use http::{HeaderValue, Uri};
use std::fmt;
use std::net::IpAddr;
use url::{Host, Url};

/// Shorter parts of a path are words, not keys.
const KEY_LEN_MIN: usize = 16;

/// A checked URL. Shows its scheme, host and port only.
#[derive(Clone)]
pub(crate) struct Target {
    /// Without user info and fragment.
    pub(crate) uri: Uri,
    /// `scheme://host:port`.
    origin: String,
    /// From the user info.
    pub(crate) authorization: Option<HeaderValue>,
    /// What an answer might repeat and nobody may see.
    pub(crate) hidden: Vec<String>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.origin)
    }
}

impl Target {
    /// Reads and checks the URL; no error shows it. An address in it is judged here, a name when it is resolved.
    pub(crate) fn resolve(source: &UrlSource, policy: &AddressPolicy) -> Result<Self, ConfigError> {
        let wrong = |problem: String| ConfigError::new("url", problem);
        let text = match source {
            UrlSource::Literal(text) => text.clone(),
            UrlSource::Kept(source) => source.resolve().map_err(|error| error.below("url"))?.expose().to_owned(),
        };
        let mut url = Url::parse(text.trim()).map_err(|error| wrong(format!("not a URL ({error}); write https://host/path")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!("the scheme is {:?}; only http and https can be posted to", url.scheme())));
        }
        let has_user_info = !url.username().is_empty() || url.password().is_some();
        if has_user_info && matches!(source, UrlSource::Literal(_)) {
            return Err(wrong(
                "a URL with a user or password must not stand in the configuration; write { env = \"NAME\" } or { file = \"path\" }".into(),
            ));
        }
        let address = match url.host() {
            Some(Host::Ipv4(v4)) => Some(IpAddr::V4(v4)),
            Some(Host::Ipv6(v6)) => Some(IpAddr::V6(v6)),
            Some(Host::Domain(_)) => None,
            None => return Err(wrong("it names no host".into())),
        };
        if let Some(address) = address {
            policy.judge(address).map_err(|refusal| wrong(format!("the address {address} is refused: {refusal}")))?;
        }
        if url.port() == Some(0) {
            return Err(wrong("port 0 can't be connected to".into()));
        }
        let hidden = hidden_parts(&url);
        let authorization = has_user_info.then(|| basic(&url)).transpose()?;
        // Both can be done to any URL with a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        let origin = match (url.host_str(), url.port_or_known_default()) {
            (Some(host), Some(port)) => format!("{}://{host}:{port}", url.scheme()),
            _ => return Err(wrong("it names no host".into())),
        };
        let uri = url.as_str().parse().map_err(|_| wrong("not a URL that HTTP can carry".into()))?;
        Ok(Self { uri, origin, authorization, hidden })
    }
}

/// Longest first, so that a part never spoils the whole.
fn hidden_parts(url: &Url) -> Vec<String> {
    let mut parts = vec![url.path().to_owned()];
    if let Some(query) = url.query() {
        parts.push(format!("{}?{query}", url.path()));
        parts.push(query.to_owned());
        parts.extend(url.query_pairs().map(|(_, value)| value.into_owned()).filter(|value| value.len() >= KEY_LEN_MIN));
    }
    parts.extend(url.path_segments().into_iter().flatten().filter(|part| part.len() >= KEY_LEN_MIN).map(str::to_owned));
    parts.extend(url.password().map(str::to_owned));
    parts.extend(url.password().and_then(decoded));
    parts.retain(|part| part.len() > 1);
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    parts
}

fn basic(url: &Url) -> Result<HeaderValue, ConfigError> {
    let wrong = || ConfigError::new("url", "the user or password is not percent-encoded UTF-8");
    let user = decoded(url.username()).ok_or_else(wrong)?;
    let password = decoded(url.password().unwrap_or_default()).ok_or_else(wrong)?;
    let mut value =
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Without percent-encoding.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
                (digit()? << 4) | digit()?
            }
            plain => plain,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn literal(url: &str) -> Result<Target, ConfigError> {
        Target::resolve(&UrlSource::Literal(url.into()), &AddressPolicy::new(Vec::new()).unwrap())
    }

    #[test]
    fn e19_only_scheme_host_and_port_are_shown() {
        let target = literal("https://ledger.example/hooks/T0P-5ECRET?key=T0P-5ECRET#x").unwrap();
        assert_eq!(target.to_string(), "https://ledger.example:443");
        assert!(!format!("{target:?}").contains("5ECRET"));
        assert_eq!(target.uri.path_and_query().unwrap().as_str(), "/hooks/T0P-5ECRET?key=T0P-5ECRET");
    }

    #[test]
    fn a_literal_url_with_user_info_is_refused_without_showing_it_and_one_from_a_file_authenticates() {
        let error = literal("https://us3r:hunter2@ledger.example/").unwrap_err().to_string();
        assert!(error.contains("env =") && !error.contains("hunter2") && !error.contains("us3r"), "{error}");

        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "https://us3r:hunter%202@ledger.example/\n").unwrap();
        let source = UrlSource::Kept(confirmd_core::SecretSource::File(file.path().into()));
        let target = Target::resolve(&source, &AddressPolicy::new(Vec::new()).unwrap()).unwrap();
        assert_eq!(target.authorization.as_ref().unwrap(), &format!("Basic {}", STANDARD.encode("us3r:hunter 2")));
        assert!(!format!("{target:?}{target}{:?}{:?}", target.uri, target.authorization).contains("hunter"));
    }

    #[test]
    fn what_can_not_be_posted_to_is_refused_with_the_reason() {
        for (url, why) in [
            ("ledger.example/hooks", "not a URL"),
            ("ftp://ledger.example/", "only http and https"),
            ("https://", "not a URL"),
            ("https://127.0.0.1/", "allow_private"),
            ("https://2130706433/", "allow_private"),
            ("https://[::1]/", "allow_private"),
            ("http://169.254.169.254/latest", "always refused"),
            ("https://ledger.example:0/", "port 0"),
        ] {
            let error = literal(url).unwrap_err();
            assert_eq!(error.key, "url");
            assert!(error.to_string().contains(why), "{url}: {error}");
        }
    }
}
