//! The barest HTTP client: one connection, one request at a time, nothing decoded. What a floor is measured with.

use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(120);

/// A connection to a node on this machine.
#[derive(Debug)]
pub struct Http {
    stream: BufReader<TcpStream>,
    host: String,
    authorization: String,
    /// Requests sent.
    pub requests: u64,
    /// Bytes of bodies received.
    pub bytes: u64,
}

impl Http {
    /// Connects to `host:port`; `basic` is `user:password` in base64, or empty.
    pub fn connect(host: &str, basic: &str) -> Result<Self> {
        let stream = TcpStream::connect(host).with_context(|| format!("connecting to {host}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let authorization = if basic.is_empty() { String::new() } else { format!("Authorization: Basic {basic}\r\n") };
        Ok(Self {
            stream: BufReader::with_capacity(1 << 16, stream),
            host: host.to_owned(),
            authorization,
            requests: 0,
            bytes: 0,
        })
    }

    /// Posts JSON; the answer's body.
    pub fn post(&mut self, body: &str) -> Result<Vec<u8>> {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.host,
            self.authorization,
            body.len()
        );
        self.exchange(&[head.as_bytes(), body.as_bytes()].concat())
    }

    /// Gets a path; the answer's body.
    pub fn get(&mut self, path: &str) -> Result<Vec<u8>> {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{}\r\n", self.host, self.authorization);
        self.exchange(head.as_bytes())
    }

    fn exchange(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        self.requests += 1;
        #[cfg(target_os = "linux")]
        rustix::net::sockopt::set_tcp_quickack(self.stream.get_ref(), true)?;
        self.stream.get_mut().write_all(request)?;
        let (mut length, mut line, mut status) = (None, String::new(), String::new());
        loop {
            line.clear();
            ensure!(self.stream.read_line(&mut line)? > 0, "{} has closed the connection", self.host);
            let text = line.trim_end();
            if status.is_empty() {
                text.clone_into(&mut status);
            } else if text.is_empty() {
                break;
            } else if let Some((name, value)) =
                text.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            {
                let _ = name;
                length = Some(value.trim().parse::<usize>()?);
            }
        }
        let mut body = vec![0; length.with_context(|| format!("{} sends no content-length", self.host))?];
        self.stream.read_exact(&mut body)?;
        self.bytes += u64::try_from(body.len())?;
        if !status.contains(" 200") {
            bail!("{}: {status}: {}", self.host, String::from_utf8_lossy(body.get(..300).unwrap_or(&body)));
        }
        Ok(body)
    }
}
