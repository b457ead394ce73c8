//! One endpoint as it is configured: `{ url, cookie_file | user + password, headers, timeout }`.

use crate::auth::{CookieFile, Credentials, basic};
use crate::limits::SPAN_MAX;
use crate::redact::{RedactedUrl, Scrubber};
use confirmd_core::{ConfigError, HumanDuration, SecretSource};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

/// One place to ask.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointConfig {
    /// `http` or `https`. A URL that carries a key or a password belongs into `{ env = "NAME" }` or `{ file = "path" }`.
    pub url: UrlSetting,
    /// The cookie file of a Bitcoin-family node; a leading `~` is the home directory. Read again when the node refuses it.
    #[serde(default)]
    pub cookie_file: Option<PathBuf>,
    /// RPC user, together with `password`.
    #[serde(default)]
    pub user: Option<String>,
    /// RPC password: `{ env = "NAME" }` or `{ file = "path" }`.
    #[serde(default)]
    pub password: Option<SecretSource>,
    /// Headers sent with each request, each value `{ env = "NAME" }` or `{ file = "path" }`.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretSource>,
    /// The longest a single attempt at this endpoint may take; default `limits.request_timeout`.
    #[serde(default)]
    pub timeout: Option<HumanDuration>,
}

/// A URL, written down or named.
#[derive(Clone)]
pub enum UrlSetting {
    /// In the configuration; without user info.
    Literal(Url),
    /// In the environment or a file; may carry user info and keys.
    Source(SecretSource),
}

impl UrlSetting {
    /// The URL itself; one that is named is read and parsed now. Keys in errors are relative to the setting.
    pub(crate) fn resolve(&self, parse: fn(&str) -> Result<Url, String>) -> Result<Url, ConfigError> {
        match self {
            Self::Literal(url) => Ok(url.clone()),
            Self::Source(source) => {
                let text = source.resolve()?;
                parse(text.expose()).map_err(|problem| ConfigError::new("", format!("the value of {source} is {problem}")))
            }
        }
    }
}

impl fmt::Debug for UrlSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(url) => RedactedUrl::new(url).fmt(f),
            Self::Source(source) => source.fmt(f),
        }
    }
}

impl std::str::FromStr for UrlSetting {
    type Err = String;
    /// A literal. The error does not repeat it.
    fn from_str(text: &str) -> Result<Self, String> {
        let url = parse_url(text)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("user info in a URL is refused; write user = \"…\" and password = { env = \"NAME\" }, or cookie_file, \
                or the whole URL as { env = \"NAME\" }"
                .into());
        }
        Ok(Self::Literal(url))
    }
}

impl<'de> Deserialize<'de> for UrlSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Setting;
        impl<'de> Visitor<'de> for Setting {
            type Value = UrlSetting;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a URL such as \"http://127.0.0.1:8332\", { env = \"NAME\" } or { file = \"path\" }")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<UrlSetting, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UrlSetting, A::Error> {
                SecretSource::deserialize(MapAccessDeserializer::new(map)).map(UrlSetting::Source)
            }
        }
        deserializer.deserialize_any(Setting)
    }
}

/// A URL that can be asked. The error does not repeat the text: it may hold a secret.
fn parse_url(text: &str) -> Result<Url, String> {
    let url =
        Url::parse(text.trim()).map_err(|error| format!("not a URL ({error}); write one like \"http://127.0.0.1:8332\""))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        scheme => Err(format!("\"{scheme}:\" can't be asked; write an http:// or https:// URL")),
    }
}

/// An endpoint with its secrets read.
pub(crate) struct Target {
    pub(crate) uri: Uri,
    pub(crate) tls: bool,
    pub(crate) shown: RedactedUrl,
    pub(crate) headers: HeaderMap,
    pub(crate) credentials: Credentials,
    pub(crate) scrubber: Scrubber,
    pub(crate) timeout: Option<Duration>,
}

impl EndpointConfig {
    /// An endpoint without credentials.
    pub fn new(url: Url) -> Self {
        Self {
            url: UrlSetting::Literal(url),
            cookie_file: None,
            user: None,
            password: None,
            headers: BTreeMap::new(),
            timeout: None,
        }
    }

    /// Reads the secrets. Keys in errors are relative to the endpoint.
    pub(crate) fn resolve(&self) -> Result<Target, ConfigError> {
        let mut scrubber = Scrubber::default();
        let mut url = self.url.resolve(parse_url).map_err(|error| error.below("url"))?;
        scrubber.learn_url(&url);
        let shown = RedactedUrl::new(&url);
        let credentials = self.credentials(&url, &mut scrubber)?;
        let headers = self.headers(&mut scrubber)?;
        if headers.contains_key(AUTHORIZATION) && !matches!(credentials, Credentials::None) {
            return Err(ConfigError::new("headers.Authorization", "there are other credentials, too; keep one of them"));
        }
        if self.timeout.is_some_and(|timeout| timeout.0.is_zero() || timeout.0 > SPAN_MAX) {
            return Err(ConfigError::new("timeout", "it must be between 1ms and 1d; write for example \"20s\""));
        }
        let cleared = url.set_username("").and_then(|()| url.set_password(None));
        url.set_fragment(None);
        let uri = url.as_str().parse().ok().filter(|_| cleared.is_ok());
        Ok(Target {
            uri: uri.ok_or_else(|| ConfigError::new("url", "it holds characters that HTTP can't carry"))?,
            tls: url.scheme() == "https",
            shown,
            headers,
            credentials,
            scrubber,
            timeout: self.timeout.map(|timeout| timeout.0),
        })
    }

    fn credentials(&self, url: &Url, scrubber: &mut Scrubber) -> Result<Credentials, ConfigError> {
        let in_url = !url.username().is_empty() || url.password().is_some();
        if usize::from(in_url)
            + usize::from(self.cookie_file.is_some())
            + usize::from(self.user.is_some() || self.password.is_some())
            > 1
        {
            let problem = "credentials are given twice; keep one of: cookie_file, user and password, user info in the URL";
            return Err(ConfigError::new(if self.cookie_file.is_some() { "cookie_file" } else { "user" }, problem));
        }
        let pair = if in_url {
            format!("{}:{}", percent_decoded(url.username()), percent_decoded(url.password().unwrap_or_default()))
        } else if let Some(path) = &self.cookie_file {
            return Ok(Credentials::Cookie(CookieFile::new(at_home(path)?)));
        } else {
            match (&self.user, &self.password) {
                (None, None) => return Ok(Credentials::None),
                (Some(user), Some(password)) => {
                    let password = password.resolve().map_err(|error| error.below("password"))?;
                    format!("{user}:{}", password.expose())
                }
                (Some(_), None) => {
                    return Err(ConfigError::new("password", "user needs a password: password = { env = \"NAME\" }"));
                }
                (None, Some(_)) => return Err(ConfigError::new("user", "password needs a user: user = \"…\"")),
            }
        };
        scrubber.learn(pair.split_once(':').map_or("", |(_, password)| password));
        let header = basic(&pair).ok_or_else(|| ConfigError::new("password", "it can't be sent in a header"))?;
        scrubber.learn(header.to_str().ok().and_then(|text| text.strip_prefix("Basic ")).unwrap_or_default());
        Ok(Credentials::Fixed(header))
    }

    fn headers(&self, scrubber: &mut Scrubber) -> Result<HeaderMap, ConfigError> {
        let mut headers = HeaderMap::new();
        for (name, source) in &self.headers {
            let key = format!("headers.{name}");
            let value = source.resolve().map_err(|error| error.below(&key))?;
            let field: HeaderName = name.parse().map_err(|_| ConfigError::new(&key, "not a header's name"))?;
            let mut content = HeaderValue::from_str(value.expose()).map_err(|_| {
                ConfigError::new(&key, format!("the value from {source} holds characters that no header can carry"))
            })?;
            content.set_sensitive(true);
            scrubber.learn(value.expose());
            // "Bearer KEY": the key alone is a secret, too.
            value.expose().split_whitespace().skip(1).for_each(|part| scrubber.learn(part));
            headers.insert(field, content);
        }
        Ok(headers)
    }
}

/// Replaces a leading `~` by the home directory.
fn at_home(path: &Path) -> Result<PathBuf, ConfigError> {
    let Ok(rest) = path.strip_prefix("~") else { return Ok(path.to_owned()) };
    match std::env::var_os("HOME") {
        Some(home) => Ok(PathBuf::from(home).join(rest)),
        None => Err(ConfigError::new("cookie_file", "\"~\" stands for HOME, which is not set; write the whole path")),
    }
}

/// User info is percent-encoded in a URL, and not in a header.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match (byte, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Result<EndpointConfig, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn a_literal_url_with_user_info_is_refused_without_repeating_it() {
        let error = parse("url = 'http://alice:hunter2@127.0.0.1:8332'").unwrap_err();
        assert!(error.contains("password = { env") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_literal_password_or_header_is_refused_with_the_way_to_do_it() {
        for text in ["user = 'a'\npassword = 'hunter2'", "headers = { Authorization = 'Bearer hunter2' }"] {
            let error = parse(&format!("url = 'http://127.0.0.1:1'\n{text}")).unwrap_err();
            assert!(error.contains("{ env = ") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn unknown_keys_and_other_schemes_are_refused() {
        assert!(parse("url = 'http://127.0.0.1:1'\ncookie = 'x'").is_err());
        let error = parse("url = 'ws://127.0.0.1:1'").unwrap_err();
        assert!(error.contains("ws") && error.contains("http://"), "{error}");
        assert!(parse("url = 'not a url'").is_err());
        assert!(parse("url = 7").is_err());
    }

    #[test]
    fn a_url_from_a_file_may_carry_user_info_which_becomes_a_header() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "https://us%40er:p%3Ass@host:8545/v3/SECRETKEY?token=longtoken\n").unwrap();
        let config = parse(&format!("url = {{ file = {:?} }}", file.path())).unwrap();
        let target = config.resolve().map_err(|e| e.to_string()).ok().unwrap();
        assert_eq!(target.uri.to_string(), "https://host:8545/v3/SECRETKEY?token=longtoken");
        assert_eq!(target.shown.to_string(), "https://host:8545/…");
        let Credentials::Fixed(header) = &target.credentials else { panic!("no credentials") };
        assert_eq!(header, basic("us@er:p:ss").unwrap());
        assert!(!format!("{config:?}{header:?}").contains("p:ss"));
        assert_eq!(target.scrubber.scrub("SECRETKEY p:ss longtoken", None), "*** *** ***");
    }

    #[test]
    fn half_or_double_credentials_are_refused_at_their_key() {
        for (text, key) in [
            ("user = 'a'", "password"),
            ("password = { env = 'X' }", "user"),
            ("cookie_file = '/c'\nuser = 'a'\npassword = { env = 'X' }", "cookie_file"),
            ("headers = { X-Key = { env = 'CONFIRMD_TEST_NOT_SET' } }", "headers.X-Key"),
            ("timeout = '0s'", "timeout"),
        ] {
            let config = parse(&format!("url = 'http://127.0.0.1:1'\n{text}")).unwrap();
            assert_eq!(config.resolve().err().unwrap().key, key, "{text}");
        }
    }

    #[test]
    fn a_tilde_in_the_cookie_path_is_the_home_directory() {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap());
        assert_eq!(at_home(Path::new("~/.bitcoin/.cookie")).unwrap(), home.join(".bitcoin/.cookie"));
        assert_eq!(at_home(Path::new("/~/x")).unwrap(), PathBuf::from("/~/x"));
    }
}
