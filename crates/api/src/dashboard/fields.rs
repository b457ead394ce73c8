//! What a form or a search sent.

use super::layout::Fault;
use crate::OperatorError;
use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::str::FromStr;

/// Named texts in the order they came, trimmed; empty ones are left out, since a form sends those, too.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// From a query or the body of a form.
    pub(super) fn parse(text: &[u8]) -> Self {
        let given = url::form_urlencoded::parse(text).map(|(name, value)| (name.into_owned(), value.trim().to_owned()));
        Self(given.filter(|(_, value)| !value.is_empty()).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// As text, empty if it is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or("")
    }

    pub(super) fn owned(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// A name, number or id.
    pub(super) fn parsed<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<Option<T>, OperatorError> {
        let wrong = |text: &str, error: T::Err| OperatorError::invalid(format!("{name} = {text:?}: {error}"));
        self.get(name).map(|text| text.parse().map_err(|error| wrong(text, error))).transpose()
    }

    /// As [`Fields::parsed`], and must be there.
    pub(super) fn needed<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<T, OperatorError> {
        self.parsed(name)?.ok_or_else(|| OperatorError::invalid(format!("the form lacks `{name}`")))
    }

    /// One of the words of an enum.
    pub(super) fn word<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, OperatorError> {
        let read = |text: &str| {
            let wrong = |_| OperatorError::invalid(format!("{name} = {text:?} is none of its words"));
            serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(wrong)
        };
        self.get(name).map(read).transpose()
    }

    /// These as a query, one of them replaced.
    pub(super) fn with(&self, name: &str, value: &str) -> String {
        let kept = self.0.iter().filter(|(known, _)| known != name && known != "done" && known != "count");
        let kept = kept.map(|(known, value)| (known.as_str(), value.as_str()));
        query(&kept.chain([(name, value)]).collect::<Vec<_>>())
    }
}

/// `?name=value&...`, escaped.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let mut text = url::form_urlencoded::Serializer::for_suffix(String::from("?"), 1);
    text.extend_pairs(pairs);
    text.finish()
}

/// One part of a path, escaped.
pub(super) fn segment(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

impl<S: Sync> FromRequestParts<S> for Fields {
    type Rejection = Infallible;
    /// The form's, which the door has read, else the query's.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let form = parts.extensions.remove::<Self>();
        Ok(form.unwrap_or_else(|| Self::parse(parts.uri.query().unwrap_or("").as_bytes())))
    }
}

/// A path's parts; wrong ones are answered with a page.
pub(super) struct At<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for At<T> {
    type Rejection = Fault;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(path)| Self(path)).map_err(|error| Fault(OperatorError::invalid(error.body_text())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn fields_are_read_trimmed_and_written_escaped() {
        let fields = Fields::parse(b"a=+x+&b=&c=1&c=2&done=paused");
        assert_eq!((fields.get("a"), fields.get("b"), fields.text("c")), (Some("x"), None, "1"));
        assert_eq!(fields.all("c").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(fields.with("after", "&\"<"), "?a=x&c=1&c=2&after=%26%22%3C");
        assert!(fields.needed::<u32>("a").is_err() && fields.needed::<u32>("z").is_err());
        assert_eq!(fields.needed::<u32>("c").unwrap(), 1);
        assert_eq!(segment("a/b?\"ü"), "a%2Fb%3F%22%C3%BC");
    }
}
