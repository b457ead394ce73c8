//! Who may ask: only programs on this machine, never a web page.
//!
//! A page in the operator's browser can send requests to the loopback interface. It can't choose the Host header (so a
//! name that was re-bound to 127.0.0.1 shows), and it can't send a header of ours or a JSON body to another origin
//! without asking first, which is never granted.

use crate::OperatorError;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, header};

/// Every changing request carries it with the value 1.
pub(crate) const REQUEST_HEADER: &str = "x-confirmd-request";

/// Refuses what did not come from a program on this machine.
pub(crate) async fn guard(State(port): State<u16>, request: Request, next: Next) -> Response {
    match allowed(&request, port) {
        Ok(()) => next.run(request).await,
        Err(text) => OperatorError::new(crate::ErrorKind::Forbidden, text).into_response(),
    }
}

fn allowed(request: &Request, port: u16) -> Result<(), String> {
    let headers = request.headers();
    let host = single(headers, header::HOST.as_str()).ok_or("the request has no single Host header")?;
    let uri_ok = request.uri().authority().is_none_or(|authority| is_local(authority.as_str(), port));
    if !is_local(host, port) || !uri_ok {
        return Err(format!(
            "the Host header {host:?} is not this instance; use http://127.0.0.1:{port}, http://localhost:{port} or http://[::1]:{port}"
        ));
    }
    if headers.contains_key(header::ORIGIN) {
        let origin = single(headers, header::ORIGIN.as_str()).and_then(|origin| origin.strip_prefix("http://"));
        if !origin.is_some_and(|origin| is_local(origin, port)) {
            return Err("a page of another origin may not ask here".to_owned());
        }
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    if single(headers, REQUEST_HEADER) != Some("1") {
        return Err("a change needs the header `X-Confirmd-Request: 1`".to_owned());
    }
    let content_type = single(headers, header::CONTENT_TYPE.as_str()).unwrap_or("");
    let essence = content_type.split(';').next().unwrap_or("").trim();
    if ["application/json", "application/x-ndjson"].iter().any(|known| essence.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    Err("a change needs the header `Content-Type: application/json`".to_owned())
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
