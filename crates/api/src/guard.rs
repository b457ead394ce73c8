//! Who may ask: programs on this machine, or whoever has a token; never a web page of somebody else.
//!
//! A page in the operator's browser can send requests to the loopback interface. It can't choose the Host header (so a
//! name that was re-bound to 127.0.0.1 shows), and it can't send a header of ours or a JSON body to another origin
//! without asking first, which is never granted.

use crate::access::{Access, Role};
use crate::limit::Limits;
use crate::problem::{Problem, ProblemType};
use crate::{ErrorKind, OperatorError};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, header};
use http_body::Body as _;
use std::sync::Arc;

/// Every changing request carries it with the value 1.
pub(crate) const REQUEST_HEADER: &str = "x-confirmd-request";

/// What a request is measured by.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) access: Access,
    pub(crate) limits: Arc<Limits>,
    pub(crate) port: u16,
    /// Whether other machines reach the port.
    pub(crate) open: bool,
}

/// Refuses what may not be asked.
pub(crate) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    if let Err(text) = guard.is_meant_for_us(&request) {
        return OperatorError::new(ErrorKind::Forbidden, text).into_response();
    }
    // Probes are asked by what has no token: they tell whether, and to others not why not.
    let is_probe = matches!(request.uri().path(), "/healthz" | "/readyz");
    if !is_probe {
        if let Err(error) = guard.with_token(&request) {
            // Guesses have a limit of their own: they must not use up the operator's.
            return match error.kind == ErrorKind::Unauthorized && !guard.limits.failed() {
                true => too_many(),
                false => error.into_response(),
            };
        }
        if !guard.limits.asked() {
            return too_many();
        }
    }
    if let Err(text) = changes_on_purpose(&request) {
        return OperatorError::new(ErrorKind::Forbidden, text).into_response();
    }
    next.run(request).await
}

fn too_many() -> Response {
    let mut response = Problem::response(
        ProblemType::TooManyRequests,
        "too many requests; ask less often, in larger pages, or raise `api.requests_per_second`",
    );
    response.headers_mut().insert(header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    response
}

impl Guard {
    /// Whether the request was meant for us and not sent by a page of another origin.
    pub(crate) fn is_meant_for_us(&self, request: &Request) -> Result<(), String> {
        let headers = request.headers();
        let port = self.port;
        let host = single(headers, header::HOST.as_str()).ok_or("the request has no single Host header")?;
        let uri_host = request.uri().authority().map(|authority| authority.as_str());
        if !self.open && (!is_local(host, port) || !uri_host.is_none_or(|authority| is_local(authority, port))) {
            return Err(format!(
                "the Host header {host:?} is not this instance; use http://127.0.0.1:{port}, http://localhost:{port} or http://[::1]:{port}"
            ));
        }
        if headers.contains_key(header::ORIGIN) {
            let origin = single(headers, header::ORIGIN.as_str());
            let origin = origin.and_then(|origin| origin.strip_prefix("http://").or(origin.strip_prefix("https://")));
            let ours = |origin: &str| if self.open { origin.eq_ignore_ascii_case(host) } else { is_local(origin, port) };
            if !origin.is_some_and(ours) {
                return Err("a page of another origin may not ask here".to_owned());
            }
        }
        Ok(())
    }

    fn with_token(&self, request: &Request) -> Result<(), OperatorError> {
        if !self.access.is_required() {
            return Ok(());
        }
        let unauthorized = |text: &str| Err(OperatorError::new(ErrorKind::Unauthorized, text));
        let Some(value) = single(request.headers(), header::AUTHORIZATION.as_str()) else {
            return unauthorized(
                "a token is needed: send `Authorization: Bearer TOKEN` with the value of `api.admin_token` or `api.read_token`",
            );
        };
        let token =
            value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        match token.and_then(|token| self.access.role_of(token)) {
            None => unauthorized("the token is not one of this instance"),
            Some(Role::Read) if !is_reading(request.method()) => {
                Err(OperatorError::new(ErrorKind::Forbidden, "this token may only read; a change needs `api.admin_token`"))
            }
            Some(_) => Ok(()),
        }
    }
}

fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Whether a change carries what no page of another origin can send.
fn changes_on_purpose(request: &Request) -> Result<(), String> {
    // No path takes TRACE, and no browser sends it.
    if is_reading(request.method()) || *request.method() == Method::TRACE {
        return Ok(());
    }
    let headers = request.headers();
    if single(headers, REQUEST_HEADER) != Some("1") {
        return Err("a change needs the header `X-Confirmd-Request: 1`".to_owned());
    }
    let no_body = request.body().is_end_stream();
    if no_body && !headers.contains_key(header::CONTENT_TYPE) {
        return Ok(());
    }
    let content_type = single(headers, header::CONTENT_TYPE.as_str()).unwrap_or("");
    let essence = content_type.split(';').next().unwrap_or("").trim();
    if ["application/json", "application/x-ndjson"].iter().any(|known| essence.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    Err("a change with a body needs the header `Content-Type: application/json`".to_owned())
}

/// The header's value, if it is there exactly once and readable.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether `host[:port]` is the loopback interface by one of its plain names, at our port.
fn is_local(authority: &str, port: u16) -> bool {
    let rest = ["localhost", "127.0.0.1", "[::1]"].iter().find_map(|name| {
        let (head, tail) = authority.split_at_checked(name.len())?;
        head.eq_ignore_ascii_case(name).then_some(tail)
    });
    match rest {
        Some("") => port == 80,
        Some(tail) => tail.strip_prefix(':').is_some_and(|text| text == port.to_string()),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn only_the_plain_names_of_the_loopback_interface_at_our_port_are_local() {
        for good in ["localhost:8787", "LOCALHOST:8787", "127.0.0.1:8787", "[::1]:8787"] {
            assert!(is_local(good, 8787), "{good}");
        }
        for bad in [
            "",
            "localhost",
            "localhost:80",
            "localhost:08787",
            "127.0.0.1.evil.example:8787",
            "evil.example:8787",
            "localhost.evil.example:8787",
            "user@localhost:8787",
            "127.0.0.2:8787",
            "localhost:8787:8787",
        ] {
            assert!(!is_local(bad, 8787), "{bad}");
        }
        assert!(is_local("localhost", 80));
    }
}
