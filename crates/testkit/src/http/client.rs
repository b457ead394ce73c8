//! The smallest HTTP/1.1 client that can talk to the servers of this crate. It opens one
//! connection per request, knows no TLS and no chunked bodies.

use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// Names in lower case, in the order of arrival.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
}

impl Reply {
    /// The first header of this (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as text, with replacement characters where it is not UTF-8.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is not JSON.
    pub fn json(&self) -> io::Result<Value> {
        serde_json::from_slice(&self.body).map_err(io::Error::other)
    }
}

/// GET.
///
/// # Errors
/// When the server can't be reached or closes the connection without an answer.
pub async fn get(url: &str) -> io::Result<Reply> {
    request("GET", url, &[], b"").await
}

/// POST.
///
/// # Errors
/// As [`get`].
pub async fn post(url: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
    request("POST", url, headers, body).await
}

/// One JSON-RPC 2.0 call; gives the whole answer, with its `result` or `error`.
///
/// # Errors
/// As [`get`], and when the answer is not JSON.
pub async fn rpc(url: &str, method: &str, params: Value) -> io::Result<Value> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    post(url, &[("content-type", "application/json")], body.to_string().as_bytes()).await?.json()
}

/// Any request to an `http://host:port/path` URL.
///
/// # Errors
/// As [`get`].
pub async fn request(method: &str, url: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
    let rest = url.strip_prefix("http://").ok_or_else(|| malformed("the URL is not http://"))?;
    let (host, path) = match rest.split_once('/') {
        Some((host, path)) => (host, format!("/{path}")),
        None => (rest, "/".to_owned()),
    };
    let mut stream = TcpStream::connect(host).await?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    parse(&answer)
}

fn parse(answer: &[u8]) -> io::Result<Reply> {
    let end = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .ok_or_else(|| malformed("the connection closed before the end of the headers"))?;
    let (head, body) = answer.split_at(end);
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| malformed("the status line has no status"))?;
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Ok(Reply { status, headers, body: body.get(4..).unwrap_or_default().to_vec() })
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
