//! `[telemetry]`: where traces go.

use confirmd_core::{ConfigError, SecretSource};
use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Below this path a collector takes traces.
const PATH: &str = "/v1/traces";

/// `[telemetry]` as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySection {
    /// The collector's OTLP/HTTP endpoint, `http://127.0.0.1:4318`; `/v1/traces` is put behind it unless it ends so. Required.
    #[serde(default)]
    pub otlp: String,
    /// How this instance is called in traces.
    #[serde(default = "TelemetrySection::default_service_name")]
    pub service_name: String,
    /// So many of a hundred traces are recorded, chosen by their ids: all instances choose the same ones.
    #[serde(default = "TelemetrySection::default_sample_percent")]
    pub sample_percent: u32,
    /// Further headers of every request: tokens, say.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretSource>,
}

impl TelemetrySection {
    fn default_service_name() -> String {
        "confirmd".to_owned()
    }

    fn default_sample_percent() -> u32 {
        100
    }
}

/// Where traces go, and which.
#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    /// What is posted to.
    pub(crate) endpoint: Uri,
    /// `service.name`.
    pub(crate) service_name: String,
    /// 1 to 100.
    pub(crate) sample_percent: u32,
    /// Marked as sensitive.
    pub(crate) headers: HeaderMap,
}

impl TelemetryConfig {
    /// Reads the headers' secrets. Errors name the key below `[telemetry]`.
    pub(super) fn build(section: &TelemetrySection) -> Result<Self, ConfigError> {
        if section.service_name.is_empty() {
            return Err(ConfigError::new("service_name", "it is empty; leave it out for \"confirmd\""));
        }
        if !(1..=100).contains(&section.sample_percent) {
            let problem = format!("{} is not a whole number of percent from 1 to 100", section.sample_percent);
            return Err(ConfigError::new("sample_percent", problem));
        }
        let mut headers = HeaderMap::new();
        for (name, source) in &section.headers {
            let key = format!("headers.{name}");
            let header: HeaderName = name.parse().map_err(|_| ConfigError::new(&key, "this is no name of an HTTP header"))?;
            let secret = source.resolve().map_err(|error| error.below(&key))?;
            let mut value = HeaderValue::from_str(secret.expose())
                .map_err(|_| ConfigError::new(&key, "its content can't stand in an HTTP header; is there a line break in it?"))?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        let (service_name, sample_percent) = (section.service_name.clone(), section.sample_percent);
        Ok(Self { endpoint: endpoint(&section.otlp)?, service_name, sample_percent, headers })
    }
}

/// The URL is never shown: whoever put a key into it should not read it in a log.
fn endpoint(text: &str) -> Result<Uri, ConfigError> {
    let wrong = |problem: &str| ConfigError::new("otlp", problem);
    if text.is_empty() {
        return Err(wrong("it is missing; write where the collector takes OTLP over HTTP: otlp = \"http://127.0.0.1:4318\""));
    }
    let base = text.trim_end_matches('/');
    let whole = if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") };
    let uri: Uri = whole.parse().map_err(|_| wrong("this is not a URL; write \"http://127.0.0.1:4318\", say"))?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            Err(wrong("a URL here has no user info; write headers = { authorization = { env = \"NAME\" } }"))
        }
        (Some("http" | "https"), Some(_)) if uri.query().is_none() => Ok(uri),
        (Some("http" | "https"), Some(_)) => Err(wrong("a URL here has no query; keys go into `headers`")),
        _ => Err(wrong("this is not an HTTP URL; write \"http://127.0.0.1:4318\", say (4317 is gRPC, which is not spoken)")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn built(text: &str) -> Result<TelemetryConfig, ConfigError> {
        TelemetryConfig::build(&toml::from_str(text).unwrap())
    }

    #[test]
    fn the_path_is_put_behind_the_endpoint_once_and_the_defaults_are_everything() {
        for otlp in ["http://127.0.0.1:4318", "http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"] {
            let config = built(&format!("otlp = {otlp:?}")).unwrap();
            assert_eq!(config.endpoint, "http://127.0.0.1:4318/v1/traces");
            assert_eq!((config.service_name.as_str(), config.sample_percent), ("confirmd", 100));
        }
        assert_eq!(built("otlp = 'https://o.example/tenant'").unwrap().endpoint, "https://o.example/tenant/v1/traces");
    }

    #[test]
    fn what_is_wrong_is_named_and_no_token_is_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "Bearer hunter2\n").unwrap();
        let good = format!("otlp = 'http://c:1'\nheaders = {{ authorization = {{ file = {:?} }} }}", file.path());
        let config = built(&good).unwrap();
        assert_eq!(config.headers.get("authorization").unwrap(), "Bearer hunter2");
        assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
        std::fs::write(file.path(), "hunter2\nhunter2").unwrap();
        for (text, key) in [
            ("", "otlp"),
            ("otlp = 'grpc://c:4317'", "otlp"),
            ("otlp = 'c:4318'", "otlp"),
            ("otlp = 'http://u:hunter2@c:4318'", "otlp"),
            ("otlp = 'http://c:4318/?key=hunter2'", "otlp"),
            ("otlp = 'http://c:1'\nsample_percent = 0", "sample_percent"),
            ("otlp = 'http://c:1'\nsample_percent = 101", "sample_percent"),
            ("otlp = 'http://c:1'\nservice_name = ''", "service_name"),
            (&good, "headers.authorization"),
        ] {
            let error = built(text).unwrap_err();
            assert!(error.key == key && !error.to_string().contains("hunter2"), "{text}: {error}");
        }
    }
}
