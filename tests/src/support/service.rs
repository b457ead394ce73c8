//! A running `confirmd` with its customer, watched through its control API.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::config::Config;
use super::customer::{SECRET, SECRET_ENV};
use crate::Instance;

/// Far longer than anything waited for should take, also on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);
/// A status is asked for; nothing tells of its changes.
const STATUS_POLL: Duration = Duration::from_millis(20);

/// An instance with a configuration, and its control API. The process is [`Service::instance`].
#[derive(Debug)]
pub struct Service {
    instance: Instance,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Service {
    /// Configured, not started.
    pub fn new(config: &Config) -> Result<Self> {
        Self::of_program(&crate::confirmd()?, config)
    }

    /// As [`Service::new`], for another program than the one under test.
    pub fn of_program(program: &Path, config: &Config) -> Result<Self> {
        let mut instance = Instance::of_program(program, |folder| config.render(folder))?;
        instance.env(SECRET_ENV, SECRET).env("CONFIRMD_LOG", "info").env("NO_COLOR", "1");
        Ok(Self { instance, client: Client::builder(TokioExecutor::new()).build_http() })
    }

    /// Configured and running, its state made.
    pub async fn start(config: &Config) -> Result<Self> {
        let mut service = Self::new(config)?;
        service.run().await?;
        Ok(service)
    }

    /// The process, its output and its folder.
    pub fn instance(&mut self) -> &mut Instance {
        &mut self.instance
    }

    /// The instance's folder.
    pub fn instance_dir(&self) -> &Path {
        self.instance.dir()
    }

    /// `run --init`; returns when it says that it runs.
    pub async fn run(&mut self) -> Result<()> {
        self.instance.run(&["--init", "--no-progress"])?;
        self.instance.stderr()?.wait_for("the start", SOON, |line| line.contains("confirmd runs")).await?;
        Ok(())
    }

    /// SIGKILL, then started again.
    pub async fn kill_and_run(&mut self) -> Result<()> {
        self.instance.kill()?;
        self.run().await
    }

    /// SIGTERM; ends cleanly.
    pub async fn terminate(&mut self) -> Result<()> {
        let status = self.instance.terminate(SOON).await?;
        ensure!(status.success(), "confirmd ended with {status} after SIGTERM:\n{}", self.log());
        Ok(())
    }

    /// Writes the configuration anew; it holds from the next start.
    pub fn configure(&self, config: &Config) -> Result<()> {
        self.instance.configure(|folder| config.render(folder))
    }

    /// What it logged since the last start.
    pub fn log(&self) -> String {
        self.instance.stderr().map(|lines| lines.all().join("\n")).unwrap_or_default()
    }

    /// Runs another command of the program and returns its stdout; an error shows everything if it fails.
    pub async fn command(&self, args: &[&str]) -> Result<String> {
        let (code, stdout, stderr) = self.attempt(args).await?;
        ensure!(code == Some(0), "{args:?} ends with {code:?}\n{stdout}\n{stderr}");
        Ok(stdout)
    }

    /// As [`Service::command`], for one that may fail: exit code, stdout, stderr.
    pub async fn attempt(&self, args: &[&str]) -> Result<(Option<i32>, String, String)> {
        let config = self.instance.config();
        let config = config.to_str().context("the path of the configuration is not UTF-8")?;
        let args: Vec<&str> = ["--config", config].into_iter().chain(args.iter().copied()).collect();
        let output = self.instance.command(&args).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
    }

    /// A command with `--json` that prints one object a line.
    pub async fn json_lines(&self, args: &[&str]) -> Result<Vec<Value>> {
        let stdout = self.command(args).await?;
        stdout.lines().map(|line| serde_json::from_str(line).with_context(|| format!("{args:?} prints {line}"))).collect()
    }

    /// One GET of the control API: HTTP status and body.
    pub async fn get(&self, path: &str) -> Result<(u16, Value)> {
        let address = address(self.instance.dir())?;
        let uri = format!("http://{address}{path}");
        let response = self.client.request(Request::get(&uri).body(Empty::new())?).await.with_context(|| format!("get {uri}"))?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, serde_json::from_slice(&body).with_context(|| format!("{uri} answers {body:?}"))?))
    }

    /// `GET /v1/status`: what `confirmd status --json` prints.
    pub async fn status(&self) -> Result<Value> {
        Ok(self.get("/v1/status").await?.1)
    }

    /// One chain of the status.
    pub async fn chain(&self, name: &str) -> Result<Value> {
        of(&self.status().await?, "chains", name)
    }

    /// Waits until the status is as wanted, and returns it; the error shows the last one and the log.
    pub async fn until(&self, what: &str, deadline: Duration, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let start = tokio::time::Instant::now();
        loop {
            let status = self.status().await;
            if let Ok(status) = &status
                && holds(status)
            {
                return Ok(status.clone());
            }
            if start.elapsed() > deadline {
                bail!("{what} did not come within {deadline:?}; status: {status:#?}\nlog:\n{}", self.log());
            }
            tokio::time::sleep(STATUS_POLL).await;
        }
    }

    /// Waits until one chain of the status is as wanted, and returns it.
    pub async fn until_chain(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let what = format!("{name}: {what}");
        let status = self.until(&what, SOON, |status| of(status, "chains", name).is_ok_and(|it| holds(&it))).await?;
        of(&status, "chains", name)
    }

    /// Waits until one consumer of the status is as wanted, and returns it.
    pub async fn until_consumer(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let what = format!("{name}: {what}");
        let status = self.until(&what, SOON, |status| of(status, "consumers", name).is_ok_and(|it| holds(&it))).await?;
        of(&status, "consumers", name)
    }

    /// Waits until the trail of a chain ends with this very block.
    pub async fn until_tip(&self, chain: &str, block: &crate::Block) -> Result<Value> {
        let what = format!("the trail's tip at {} {}", block.height, block.hash);
        let height = |chain: &Value| chain.pointer("/tip/height").and_then(Value::as_u64);
        let hash = |chain: &Value| chain.pointer("/tip/hash").and_then(Value::as_str).map(str::to_owned);
        self.until_chain(chain, &what, |chain| {
            height(chain) == Some(block.height) && hash(chain).is_some_and(|hash| same_hash(&hash, &block.hash))
        })
        .await
    }

    /// Waits until the trail of a chain ends with this block and every consumer has everything.
    pub async fn until_told(&self, chain: &str, block: &crate::Block) -> Result<()> {
        self.until_tip(chain, block).await?;
        let nothing_waits = |status: &Value| {
            let consumers = status["consumers"].as_array();
            consumers.is_some_and(|all| all.iter().all(|consumer| consumer["waiting"] == 0))
        };
        self.until("everything delivered", SOON, nothing_waits).await?;
        Ok(())
    }
}

fn same_hash(one: &str, other: &str) -> bool {
    one.trim_start_matches("0x").eq_ignore_ascii_case(other.trim_start_matches("0x"))
}

/// The entry of a list of the status by its name.
fn of(status: &Value, list: &str, name: &str) -> Result<Value> {
    let found = status[list].as_array().and_then(|all| all.iter().find(|one| one["name"] == name));
    found.cloned().with_context(|| format!("{list} of the status has no {name}: {status}"))
}

/// The first line of the file that tells where a state's instance listens.
fn address(folder: &Path) -> Result<String> {
    let file = folder.join("state").join("api-address");
    let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    Ok(text.lines().next().with_context(|| format!("{} is empty", file.display()))?.to_owned())
}
