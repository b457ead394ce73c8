//! The lines a process writes, as they come.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::sync::watch;

/// All complete lines read from a pipe so far. Clones see the same lines.
#[derive(Debug, Clone)]
pub struct Lines {
    lines: watch::Receiver<Vec<String>>,
}

impl Lines {
    /// Reads `pipe` to its end on a thread of its own.
    pub fn follow(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = watch::channel(Vec::new());
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n') {
                let Ok(line) = line else { break };
                let line = String::from_utf8_lossy(&line).into_owned();
                sender.send_modify(|lines| lines.push(line));
            }
        });
        Self { lines }
    }

    /// Every line so far.
    pub fn all(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// How many lines so far: a mark for [`Lines::wait_after`].
    pub fn count(&self) -> usize {
        self.lines.borrow().len()
    }

    /// Waits for a line that `wanted` accepts, among all lines; `what` names it in the error.
    pub async fn wait_for(&self, what: &str, deadline: Duration, wanted: impl Fn(&str) -> bool) -> Result<String> {
        self.wait_after(0, what, deadline, wanted).await
    }

    /// As [`Lines::wait_for`], among the lines after the first `mark`. Fails early when the pipe ends.
    pub async fn wait_after(&self, mark: usize, what: &str, deadline: Duration, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let mut lines = self.lines.clone();
        let mut seen = mark;
        let search = async {
            loop {
                let ended = lines.has_changed().is_err();
                {
                    let now = lines.borrow_and_update();
                    if let Some(line) = now.iter().skip(seen).find(|line| wanted(line)) {
                        return Some(line.clone());
                    }
                    seen = seen.max(now.len());
                }
                // An error means the end of the pipe; whatever came just before it is looked at once more.
                if ended {
                    return None;
                }
                let _ = lines.changed().await;
            }
        };
        match tokio::time::timeout(deadline, search).await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => bail!("the output ended without {what}; it was:\n{}", self.all().join("\n")),
            Err(_) => bail!("{what} did not come within {deadline:?}; the output was:\n{}", self.all().join("\n")),
        }
    }

    /// Waits until the pipe has ended and returns every line.
    pub async fn until_end(&self, deadline: Duration) -> Result<Vec<String>> {
        let mut lines = self.lines.clone();
        let end = async { while lines.changed().await.is_ok() {} };
        match tokio::time::timeout(deadline, end).await {
            Ok(()) => Ok(self.all()),
            Err(_) => bail!("the output did not end within {deadline:?}"),
        }
    }
}
