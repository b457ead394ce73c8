//! The barest receiver of webhooks: a thread a connection, every POST answered 204 after a delay.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What to do with a POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// 204 after so long.
    After(Duration),
    /// Nothing, ever.
    Never,
}

/// See the module. Stops taking connections with this value.
#[derive(Debug)]
pub struct Receiver {
    /// Its port on 127.0.0.1.
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    answer: Answer,
    keep: bool,
    count: AtomicU64,
    stopped: AtomicBool,
    /// Deposit's transaction and when its event came, if they are kept.
    arrivals: Mutex<Vec<(String, Instant)>>,
    body: Mutex<Vec<u8>>,
}

impl Receiver {
    /// Listens. `keep`: remembers each event's transaction and time.
    pub fn start(answer: Answer, keep: bool) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            answer,
            keep,
            count: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            arrivals: Mutex::default(),
            body: Mutex::default(),
        });
        let own = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if own.stopped.load(Ordering::Relaxed) {
                    break;
                }
                if let Ok(stream) = stream {
                    let own = own.clone();
                    // A connection that breaks off ends its thread, and the sender tries again.
                    std::thread::spawn(move || own.serve(stream));
                }
            }
        });
        Ok(Self { port, shared })
    }

    /// POSTs taken so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.shared.count.load(Ordering::Relaxed)
    }

    /// When this transaction's event came, if it did.
    #[must_use]
    pub fn arrival(&self, tx: &str) -> Option<Instant> {
        let arrivals = self.shared.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.iter().rev().find(|(id, _)| id == tx).map(|(_, at)| *at)
    }

    /// A body that came, to send the like of it.
    #[must_use]
    pub fn sample(&self) -> Vec<u8> {
        self.shared.body.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // The listener looks once more.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::with_capacity(1 << 14, stream);
        let mut body = Vec::new();
        while !self.stopped.load(Ordering::Relaxed) && read_post(&mut stream, &mut body)? {
            let now = Instant::now();
            if self.keep {
                let event: Value = serde_json::from_slice(&body)?;
                let tx = event.pointer("/key/tx_id").and_then(Value::as_str).context("no tx_id")?.to_owned();
                self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push((tx, now));
            }
            if self.count.fetch_add(1, Ordering::Relaxed) == 0 {
                self.body.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&body);
            }
            match self.answer {
                Answer::After(delay) if delay.is_zero() => {}
                Answer::After(delay) => std::thread::sleep(delay),
                Answer::Never => continue,
            }
            stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
        }
        Ok(())
    }
}

/// Reads a request and its body; whether there was one.
fn read_post(stream: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> Result<bool> {
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let text = line.trim_end();
        if text.is_empty() {
            break;
        }
        if let Some((name, value)) = text.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    ensure!(length < 1 << 20, "a body of {length} bytes");
    body.resize(length, 0);
    stream.read_exact(body)?;
    Ok(true)
}
