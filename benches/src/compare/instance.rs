//! `confirmd` in a folder of its own, started and ended as often as a measure needs.

use super::driver::{Process, free_port};
use super::figure::cpu_ms;
use super::subject::end;
use crate::http::Http;
use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Signs webhooks in every measure.
pub const SECRET: &str = "whsec_YmVuY2gtYmVuY2gtYmVuY2gtYmVuY2gtYmVuY2g=";
const LIMIT: Duration = Duration::from_secs(600);

/// A running instance; killed with this value.
#[derive(Debug)]
pub struct Instance {
    process: Process,
    host: String,
    log: PathBuf,
    /// When it was started.
    pub started: Instant,
}

/// What `/metrics` said.
#[derive(Debug)]
pub struct Metrics(String);

impl Metrics {
    /// The sum of the samples whose line begins so.
    #[must_use]
    pub fn sum(&self, begin: &str) -> u64 {
        let samples = self.0.lines().filter(|line| line.starts_with(begin));
        samples.filter_map(|line| line.rsplit(' ').next()?.split('.').next()?.parse::<u64>().ok()).sum()
    }

    /// Whether the chain is at its node's tip.
    #[must_use]
    pub fn following(&self) -> bool {
        self.sum(r#"confirmd_chain_state{chain="bench",state="following"}"#) == 1
    }

    /// The highest committed block.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.sum("confirmd_chain_trail_height{")
    }

    /// Requests to the node.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.sum("confirmd_rpc_requests_total{")
    }
}

impl Instance {
    /// Starts the binary on the state in `folder`, which it makes at the first start. `sections`: chains and sinks.
    pub fn start(confirmd: &Path, folder: &Path, sections: &str) -> Result<Self> {
        let port = free_port()?;
        let state = folder.join("state");
        let config = format!(
            "[state]\npath = \"{}\"\n[api]\nlisten = \"127.0.0.1:{port}\"\nrequests_per_second = 10000\n{sections}",
            state.display()
        );
        let path = folder.join("confirmd.toml");
        std::fs::write(&path, config)?;
        let mut command = Command::new(confirmd);
        command.args(["run", "--no-progress"]);
        if !state.exists() {
            command.arg("--init");
        }
        command.arg("--config").arg(&path).current_dir(folder);
        command.env("BENCH_NODE_PASSWORD", "bench").env("BENCH_SECRET", SECRET);
        let log = folder.join("log");
        let started = Instant::now();
        let process = Process::start(&mut command, &log)?;
        Ok(Self { process, host: format!("127.0.0.1:{port}"), log, started })
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Milliseconds of CPU so far, in steps of ten.
    pub fn cpu_ms(&self) -> Result<u64> {
        cpu_ms(self.pid())
    }

    /// What it counts; an error as long as its API is not there.
    pub fn metrics(&self) -> Result<Metrics> {
        Ok(Metrics(String::from_utf8(Http::connect(&self.host, "")?.get("/metrics")?)?))
    }

    /// Looks every so often until its metrics are as wanted.
    pub fn until(&mut self, what: &str, look: Duration, mut wanted: impl FnMut(&Metrics) -> bool) -> Result<Metrics> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.exited()? {
                bail!("confirmd ended by itself ({status}) before {what}:\n{}", end(&self.log));
            }
            match self.metrics() {
                Ok(metrics) if wanted(&metrics) => return Ok(metrics),
                _ => ensure!(begun.elapsed() < LIMIT, "{what} takes longer than {} s:\n{}", LIMIT.as_secs(), end(&self.log)),
            }
            std::thread::sleep(look);
        }
    }

    /// An error if it has ended by itself.
    pub fn alive(&mut self) -> Result<()> {
        match self.process.exited()? {
            Some(status) => bail!("confirmd ended by itself ({status}):\n{}", end(&self.log)),
            None => Ok(()),
        }
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_end(&self) -> String {
        end(&self.log)
    }

    /// kill -9.
    pub fn kill(mut self) -> Result<()> {
        self.process.kill()
    }

    /// An orderly end.
    pub fn stop(mut self) -> Result<()> {
        self.process.stop()
    }
}

/// What [`file_sink`] writes, in the instance's folder.
pub const DEPOSITS: &str = "deposits.jsonl";

/// A sink that writes a file.
#[must_use]
pub fn file_sink(folder: &Path) -> String {
    format!("[sinks.file]\nkind = \"file\"\npath = \"{}\"\nstart = \"beginning\"\n", folder.join(DEPOSITS).display())
}

/// A sink that posts to a port of this machine.
#[must_use]
pub fn webhook_sink(name: &str, port: u16, concurrency: usize) -> String {
    format!(
        "[sinks.{name}]\nkind = \"webhook\"\nurl = \"http://127.0.0.1:{port}/\"\nsecret = {{ env = \"BENCH_SECRET\" }}\n\
         allow_private = [\"127.0.0.0/8\"]\nconcurrency = {concurrency}\nstart = \"beginning\"\n"
    )
}
