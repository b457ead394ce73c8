//! One HTTP exchange with one endpoint: target, headers, credentials, response cap.

use crate::auth::Credentials;
use crate::classify::is_throttle_text;
use crate::connect::{Exchange, Links};
use crate::failure::Failure;
use crate::health::Stats;
use crate::redact::{RedactedUrl, Scrubber};
use crate::retry_after::retry_after;
use bytes::{Bytes, BytesMut};
use confirmd_core::with_causes;
use http::header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("confirmd/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Reserved for an answer before it arrives, however long it says it is.
const ANNOUNCED_BYTES_MAX: usize = 256 * 1024;
/// Of a foreign body, as much as a message can show.
const BEGINNING_BYTES: usize = 1024;

pub(crate) struct Wire {
    pub(crate) target: Uri,
    pub(crate) shown: RedactedUrl,
    pub(crate) headers: HeaderMap,
    pub(crate) credentials: Credentials,
    pub(crate) scrubber: Scrubber,
    pub(crate) exchange: Box<dyn Exchange>,
    pub(crate) links: Arc<Links>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) response_bytes_max: u32,
    /// Wall clock, for `Retry-After` dates of servers that send no date of their own.
    pub(crate) now: fn() -> SystemTime,
}

/// An HTTP answer, completely read.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<std::time::Duration>,
    pub(crate) body: Bytes,
    /// The beginning of the body for messages: set for bodies that may be shown.
    shown: String,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// An answer that came over no wire.
    #[cfg(test)]
    pub(crate) fn made(status: u16, body: Vec<u8>) -> Self {
        let shown = String::from_utf8_lossy(body.get(..BEGINNING_BYTES).unwrap_or(&body)).into_owned();
        Self { status, retry_after: None, body: body.into(), shown }
    }

    /// The body's beginning, without secrets, on one line.
    pub(crate) fn beginning(&self) -> String {
        self.shown.clone()
    }
}

impl Wire {
    /// Posts a JSON body to the endpoint.
    pub(crate) async fn post(&self, body: Bytes) -> Result<Answer, Failure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        request.headers_mut().insert(CONTENT_TYPE, JSON);
        request.headers_mut().insert(ACCEPT, JSON);
        self.send(request).await
    }

    /// Gets a path from the endpoint's host.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        let mut parts = self.target.clone().into_parts();
        parts.path_and_query = Some(path.parse().map_err(|_| Failure::Request("the REST path is not a path".into()))?);
        let mut request = Request::new(Full::default());
        *request.uri_mut() = Uri::from_parts(parts).map_err(|_| Failure::Request("the REST path is not a path".into()))?;
        self.send(request).await
    }

    /// A text from outside as it may be shown.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.scrubber.scrub(text, self.credentials.secret().as_deref())
    }

    async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Answer, Failure> {
        let (authorization, version) = self.credentials.header().await?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, AGENT);
        headers.extend(self.headers.clone());
        if let Some(value) = authorization {
            headers.insert(AUTHORIZATION, value);
        }
        self.stats.requests.fetch_add(1, Relaxed);
        let response = self.exchange.send(request).await.map_err(|error| {
            let text = self.scrub(&with_causes(&error));
            if error.is_connect() { Failure::Unreachable(text) } else { Failure::Interrupted(text) }
        })?;
        if closes(&response) {
            self.links.expect_close();
        }
        let status = response.status();
        let wait = retry_after(response.headers(), (self.now)());
        let body = self.read(response.into_body()).await?;
        let beginning = body.get(..BEGINNING_BYTES).unwrap_or(&body);
        let shown = self.scrub(&String::from_utf8_lossy(beginning));
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) && !is_throttle_text(&shown) {
            return Err(Failure::Denied { status: status.as_u16(), version, remedy: self.credentials.remedy() });
        }
        Ok(Answer { status: status.as_u16(), retry_after: wait, body, shown })
    }

    /// Reads the body, at most the cap: what is announced or arrives beyond it is not kept.
    async fn read(&self, mut body: Incoming) -> Result<Bytes, Failure> {
        let cap = u64::from(self.response_bytes_max);
        let too_large = Failure::TooLarge { cap_bytes: self.response_bytes_max };
        if body.size_hint().lower() > cap {
            return Err(too_large);
        }
        let mut bytes =
            BytesMut::with_capacity(usize::try_from(body.size_hint().lower()).unwrap_or_default().min(ANNOUNCED_BYTES_MAX));
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Failure::Interrupted(self.scrub(&with_causes(&error))))?;
            let Some(data) = frame.data_ref() else { continue };
            self.stats.bytes_received.fetch_add(u64::try_from(data.len()).unwrap_or(u64::MAX), Relaxed);
            if u64::try_from(bytes.len() + data.len()).is_ok_and(|len| len > cap) {
                return Err(too_large);
            }
            bytes.extend_from_slice(data);
        }
        Ok(bytes.freeze())
    }
}

fn closes<B>(response: &Response<B>) -> bool {
    let close = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.to_ascii_lowercase().contains("close"));
    response.version() == Version::HTTP_10 || response.headers().get_all(CONNECTION).iter().any(close)
}
