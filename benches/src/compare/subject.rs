//! The processes that are measured: a node, and `confirmd` reading from it.

use super::driver::Process;
use super::figure::{Figure, cpu_ms};
use super::instance::{DEPOSITS, Instance, file_sink};
use crate::http::Http;
use crate::process::{memory_kb, scratch};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const READY: Duration = Duration::from_secs(60);
const LIMIT: Duration = Duration::from_secs(900);
/// Wall times are no finer than this.
const LOOK: Duration = Duration::from_millis(5);

/// A node of this machine, ended and removed with this value.
#[derive(Debug)]
pub struct Node {
    /// `127.0.0.1:port`.
    pub host: String,
    basic: String,
    process: Process,
    _folder: TempDir,
}

impl Node {
    /// Starts it, and waits until it accepts requests. `basic`: credentials in base64, or empty.
    pub fn start(name: &str, mut command: Command, folder: TempDir, port: u16, basic: &str) -> Result<Self> {
        let log = folder.path().join("log");
        let process = Process::start(&mut command, &log)?;
        let host = format!("127.0.0.1:{}", port);
        let mut node = Self { host, basic: basic.to_owned(), process, _folder: folder };
        let start = Instant::now();
        let probe = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{}","params":[]}}"#,
            if basic.is_empty() { "eth_chainId" } else { "getblockcount" }
        );
        while node.http().and_then(|mut http| http.post(&probe)).is_err() {
            ensure!(node.process.exited()?.is_none() && start.elapsed() < READY, "{name} does not start: {}", end(&log));
            std::thread::sleep(LOOK);
        }
        Ok(node)
    }

    /// A new connection.
    pub fn http(&self) -> Result<Http> {
        Http::connect(&self.host, &self.basic)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// A deposit's key, as far as a run is checked: transaction and output index.
pub type Keys = BTreeSet<(String, u64)>;

/// Runs the binary over the chain of `section`, from nothing until `deposits` events are in its sink's file. Checks that they are
/// that many different ones.
pub fn catch_up(confirmd: &Path, node: &Node, section: &str, deposits: u64) -> Result<(Figure, Keys)> {
    let folder = scratch("confirmd")?;
    let node_before = cpu_ms(node.pid())?;
    let mut run = Instance::start(confirmd, folder.path(), &format!("{}{section}", file_sink(folder.path())))?;
    let sink = folder.path().join(DEPOSITS);
    let mut seen = (0, 0);
    while seen.1 < deposits {
        run.alive()?;
        ensure!(
            run.started.elapsed() < LIMIT,
            "{} of {deposits} deposits after {} s:\n{}",
            seen.1,
            LIMIT.as_secs(),
            run.log_end()
        );
        let length = std::fs::metadata(&sink).map_or(0, |file| file.len());
        // The whole file is counted only near its end: counting costs the CPU that is measured beside it.
        if length != seen.0 && length >= deposits.saturating_mul(200) {
            seen = (length, lines(&sink)?);
            continue;
        }
        std::thread::sleep(LOOK);
    }
    let wall_ms = u64::try_from(run.started.elapsed().as_millis())?;
    let (client_ms, node_ms) = (run.cpu_ms()?, cpu_ms(node.pid())? - node_before);
    let peak_kb = memory_kb(&run.pid().to_string(), "VmHWM")?;
    let requests = run.metrics()?.requests();
    run.kill()?;
    let keys = keys(&sink)?;
    ensure!(u64::try_from(keys.len())? == deposits, "{} deposits in the file, {deposits} on the chain", keys.len());
    Ok((Figure { wall_ms, client_ms, node_ms, requests, peak_kb, found: deposits }, keys))
}

fn lines(file: &Path) -> Result<u64> {
    Ok(u64::try_from(std::fs::read(file)?.iter().filter(|byte| **byte == b'\n').count())?)
}

fn keys(file: &Path) -> Result<Keys> {
    let mut keys = Keys::new();
    for line in std::fs::read_to_string(file)?.lines() {
        let event: Value = serde_json::from_str(line)?;
        let deposit = event.get("key").with_context(|| format!("no key in {line}"))?;
        let tx = deposit.get("tx_id").and_then(Value::as_str).with_context(|| format!("no tx_id in {line}"))?;
        let index = deposit.get("output_index").and_then(Value::as_u64).context("no output_index")?;
        keys.insert((tx.to_owned(), index));
    }
    Ok(keys)
}

/// The last lines of a log.
pub(crate) fn end(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().rev().take(20).collect();
    lines.reverse();
    lines.join("\n")
}
