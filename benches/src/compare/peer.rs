//! Other programs that read the same chains: those of `peers/install`, and one that is given.

use super::figure::{Figure, cpu_ms};
use super::subject::Node;
use crate::process::workspace;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A program that reads a chain up to `BENCH_TIP`, prints how much it found, and ends.
#[derive(Debug, Clone)]
pub struct Peer {
    /// For the table.
    pub name: String,
    program: PathBuf,
    argument: Option<PathBuf>,
}

impl Peer {
    /// Subsquid's processor, if it is installed.
    #[must_use]
    pub fn subsquid() -> Option<Self> {
        let script = folder().join("subsquid/run.mjs");
        let installed = script.is_file() && script.with_file_name("node_modules").is_dir();
        installed.then(|| Self { name: "subsquid".to_owned(), program: "node".into(), argument: Some(script) })
    }

    /// BDK's emitter, if it is installed.
    #[must_use]
    pub fn bdk() -> Option<Self> {
        let program = folder().join("bdk-emitter/release/bench-bdk-emitter");
        program.is_file().then(|| Self { name: "bdk emitter".to_owned(), program, argument: None })
    }

    /// Whatever program it is.
    #[must_use]
    pub fn given(program: &Path) -> Self {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, program: program.to_owned(), argument: None }
    }

    /// Lets it read.
    pub fn run(&self, node: &Node, environment: &[(&str, String)]) -> Result<Figure> {
        let mut command = Command::new(&self.program);
        command.args(&self.argument).env("BENCH_RPC", format!("http://{}", node.host));
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let (start, before, node_before) = (Instant::now(), ended_children_ms()?, cpu_ms(node.pid())?);
        let output = command.stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("starting {}", self.program.display()))?;
        let wall_ms = u64::try_from(start.elapsed().as_millis())?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} has ended with {}: {complaint}", self.name, output.status);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = said.lines().next_back().and_then(|line| line.trim().parse().ok());
        Ok(Figure {
            wall_ms,
            client_ms: ended_children_ms()? - before,
            node_ms: cpu_ms(node.pid())? - node_before,
            found: found.with_context(|| format!("{} does not say how much it found", self.name))?,
            ..Figure::default()
        })
    }
}

fn folder() -> PathBuf {
    std::env::var_os("CONFIRMD_PEERS").map_or_else(|| workspace().join("target/peers"), PathBuf::from)
}

/// CPU of this process's children that have ended and were waited for, in milliseconds.
fn ended_children_ms() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = text.rsplit_once(')').context("no name in stat")?.1.split_whitespace().collect();
    let field = |n: usize| fields.get(n - 3).and_then(|field| field.parse::<u64>().ok()).context("a field of stat");
    Ok((field(16)? + field(17)?) * super::figure::TICK_MS)
}
