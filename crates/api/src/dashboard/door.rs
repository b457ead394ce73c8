//! Who may see the page, and who may press its buttons.
//!
//! A request comes in with a session's cookie, or without one where no token is configured. A form is taken only with the token
//! that this instance wrote into it, which no page of another origin can read, and never from a session that may only read.

use super::fields::Fields;
use super::layout::fault_page;
use super::sessions::{Sessions, random};
use crate::guard::Guard;
use crate::{ErrorKind, OperatorError, Role};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// A form with a pasted list of addresses.
const FORM_MAX: usize = 1024 * 1024;
/// Nothing but our own files, no script or style within a page, nobody frames it, forms go nowhere else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Whoever looks at the page.
#[derive(Debug, Clone)]
pub(super) struct Viewer {
    /// Whether buttons are there and taken.
    pub(super) may_change: bool,
    /// Goes into every form.
    pub(super) csrf: String,
    /// Whether there is a session that can be ended.
    pub(super) signed_in: bool,
}

/// The page's guard.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) guard: Guard,
    pub(super) sessions: Sessions,
    /// In forms outside of a session.
    pub(super) csrf: String,
}

impl Door {
    pub(super) fn new(guard: Guard) -> Self {
        let csrf = random().expect("invariant: the system has random bytes; TLS and ids would fail, too");
        Self { guard, sessions: Sessions::default(), csrf }
    }

    /// Browsers keep one jar for all ports of a host: each instance has a name of its own.
    fn cookie_name(&self) -> String {
        format!("confirmd_session_{}", self.guard.port)
    }

    /// The session's id that came with a request.
    pub(super) fn session_id<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let name = self.cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find_map(|(known, value)| (known == name).then_some(value))
    }

    /// Sets the cookie, or takes it away. A browser that reached us through TLS keeps it to TLS.
    pub(super) fn cookie(&self, id: Option<&str>, headers: &HeaderMap) -> HeaderValue {
        let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
        let secure = if origin.is_some_and(|origin| origin.starts_with("https://")) { "; Secure" } else { "" };
        let end = if id.is_none() { "; Max-Age=0" } else { "" };
        let (name, id) = (self.cookie_name(), id.unwrap_or(""));
        let text = format!("{name}={id}; Path=/; HttpOnly; SameSite=Strict{secure}{end}");
        HeaderValue::from_str(&text).expect("invariant: hex and plain words")
    }

    fn viewer(&self, headers: &HeaderMap) -> Option<Viewer> {
        if !self.guard.access.is_required() {
            return Some(Viewer { may_change: true, csrf: self.csrf.clone(), signed_in: false });
        }
        let session = self.sessions.of(self.session_id(headers)?)?;
        Some(Viewer { may_change: session.role == Role::Admin, csrf: session.csrf, signed_in: true })
    }
}

/// Refuses what may not be seen or done; reads forms.
pub(super) async fn door(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_asset = matches!(path, "/page.css" | "/page.js" | "/page.svg");
    let mut response = match enter(&door, request, is_asset).await {
        Ok(request) => next.run(request).await,
        Err(refused) => *refused,
    };
    let headers = response.headers_mut();
    let set = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Not `no-referrer`: forms would then come from the origin `null`.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in set {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !is_asset {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

type Refused = Box<Response>;

fn refused(kind: ErrorKind, text: &str) -> Refused {
    Box::new(fault_page(&OperatorError::new(kind, text)))
}

async fn enter(door: &Door, mut request: Request, is_asset: bool) -> Result<Request, Refused> {
    door.guard.is_meant_for_us(&request).map_err(|text| refused(ErrorKind::Forbidden, &text))?;
    if !door.guard.limits.asked() {
        let text = "too many requests; wait a moment, or raise `api.requests_per_second`";
        let mut response = fault_page(&OperatorError::unavailable(text));
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        return Err(Box::new(response));
    }
    let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
    let viewer = door.viewer(request.headers());
    let is_login = request.uri().path() == "/login";
    if viewer.is_none() && !is_login && !is_asset {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        return Err(match is_reading {
            true => Box::new(Redirect::to(&format!("/login{}", super::fields::query(&[("next", path)]))).into_response()),
            false => refused(ErrorKind::Forbidden, "nobody is signed in; sign in again and repeat it"),
        });
    }
    if !is_reading {
        let (csrf, may_change) = match (&viewer, is_login) {
            (_, true) => (door.csrf.as_str(), true),
            (Some(viewer), false) => (viewer.csrf.as_str(), viewer.may_change),
            (None, false) => return Err(refused(ErrorKind::Forbidden, "nobody is signed in")),
        };
        // Whoever may only read may still leave.
        let is_logout = request.uri().path() == "/logout";
        if !may_change && !is_logout {
            return Err(refused(
                ErrorKind::Forbidden,
                "this token may only read; sign in with `api.admin_token` to change something",
            ));
        }
        let (parts, body) = request.into_parts();
        let fields = form(&parts.headers, body).await?;
        if !bool::from(fields.text("csrf").as_bytes().ct_eq(csrf.as_bytes())) {
            let text = "this form is not of this session: go back, reload the page and try again";
            return Err(refused(ErrorKind::Forbidden, text));
        }
        request = Request::from_parts(parts, Body::empty());
        request.extensions_mut().insert(fields);
    }
    if let Some(viewer) = viewer {
        request.extensions_mut().insert(viewer);
    }
    Ok(request)
}

async fn form(headers: &HeaderMap, body: Body) -> Result<Fields, Refused> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let essence = kind.split(';').next().unwrap_or("").trim();
    if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(refused(ErrorKind::Invalid, "the page takes forms only; programs use /v1"));
    }
    let bytes = axum::body::to_bytes(body, FORM_MAX).await;
    let bytes = bytes
        .map_err(|_| refused(ErrorKind::Invalid, "the form is larger than 1 MiB; `confirmd watch import` takes any list"))?;
    Ok(Fields::parse(&bytes))
}
