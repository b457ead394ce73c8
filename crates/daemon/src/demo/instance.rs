//! The confirmd process of the demo: this very program, with a log that can be waited for.

use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// Longer than anything in the demo takes, also on a slow machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A running `confirmd run`. Ends with the demo.
#[derive(Debug)]
pub(super) struct Instance {
    child: Child,
    lines: watch::Receiver<Vec<String>>,
}

impl Instance {
    /// Starts it and waits until it says that it runs.
    pub(super) async fn start(config: &Path, secret: (&str, &str)) -> Result<Self> {
        let program = std::env::current_exe().context("find this program's own file")?;
        let mut child = Command::new(&program)
            .args(["run", "--init", "--no-progress", "--log-format", "json", "--config"])
            .arg(config)
            .env(secret.0, secret.1)
            .env_remove("RUST_LOG")
            .env("CONFIRMD_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let stderr = child.stderr.take().context("read the log of the started process")?;
        let (sender, lines) = watch::channel(Vec::new());
        tokio::spawn(async move {
            let mut log = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = log.next_line().await {
                sender.send_modify(|lines| lines.push(line));
            }
        });
        let mut instance = Self { child, lines };
        instance.until_logged("confirmd runs", 1).await?;
        Ok(instance)
    }

    /// How often this message was logged.
    pub(super) fn logged(&self, message: &str) -> usize {
        count(&self.lines.borrow(), message)
    }

    /// Waits until this message was logged so often.
    pub(super) async fn until_logged(&mut self, message: &str, times: usize) -> Result<()> {
        let wait = self.lines.wait_for(|lines| count(lines, message) >= times);
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => bail!("confirmd ended while {message:?} was waited for"),
            Err(_) => bail!("confirmd did not log {message:?} {times} times within {PATIENCE:?}"),
        }
    }

    /// The last log lines.
    pub(super) fn tail(&self) -> Vec<String> {
        let lines = self.lines.borrow();
        lines.iter().skip(lines.len().saturating_sub(20)).cloned().collect()
    }

    /// SIGKILL: no chance to tidy up.
    pub(super) async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.context("kill confirmd")
    }
}

/// The log is JSON: one object a line with a fixed message.
fn count(lines: &[String], message: &str) -> usize {
    let says = |line: &&String| {
        let line: Option<serde_json::Value> = serde_json::from_str(line).ok();
        line.is_some_and(|line| line.get("message").and_then(serde_json::Value::as_str) == Some(message))
    };
    lines.iter().filter(says).count()
}
