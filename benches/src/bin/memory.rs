//! The memory of the real `confirmd` after it caught up with two chains of 10,000 blocks; fails above the goal.
//!
//! The nodes run in another process (this program again), so that only confirmd's memory is counted.

use anyhow::{Context, Result, bail, ensure};
use benches::process::{build_confirmd, memory_kb, scratch};
use benches::village::{ADDRESSES, BLOCKS, Nodes, Village, configuration};
use clap::Parser;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const GOAL_MB: u64 = 200;
const LIMIT: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(500);

/// Measures confirmd's memory over a catch-up.
#[derive(Debug, Parser)]
struct Args {
    /// The binary to measure; otherwise it is built, in the release profile.
    #[arg(long)]
    confirmd: Option<PathBuf>,
    /// Be the nodes: tell where they are in one line, and serve until the input ends.
    #[arg(long, hide = true)]
    nodes: bool,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if args.nodes {
        serve_nodes()?;
        return Ok(ExitCode::SUCCESS);
    }
    let confirmd = args.confirmd.map_or_else(build_confirmd, Ok)?;
    let confirmd = confirmd.canonicalize().with_context(|| format!("looking for {}", confirmd.display()))?;
    let mut nodes =
        Running::start(Command::new(std::env::current_exe()?).arg("--nodes").stdin(Stdio::piped()).stdout(Stdio::piped()))?;
    let village = told(&mut nodes.0)?;
    let folder = scratch("memory")?;
    let config = folder.path().join("confirmd.toml");
    std::fs::write(&config, configuration(&village, folder.path())?)?;
    let log = std::fs::File::create(folder.path().join("log"))?;
    let start = Instant::now();
    let mut run = Running::start(
        Command::new(&confirmd)
            .args(["run", "--init", "--no-progress", "--config"])
            .arg(&config)
            .current_dir(&folder)
            .stderr(log),
    )?;
    caught_up(&mut run.0, folder.path(), village.deposits)?;
    let (seconds, process) = (start.elapsed().as_secs(), run.0.id().to_string());
    let (peak, now) = (memory_kb(&process, "VmHWM")?, memory_kb(&process, "VmRSS")?);
    println!(
        "memory: {} deposits in two chains of {BLOCKS} blocks, {ADDRESSES} addresses each, caught up in {seconds} s; {} MB at the end",
        village.deposits,
        mb(now)
    );
    let reached = mb(peak) <= GOAL_MB;
    println!("memory after a catch-up, peak: {} MB (goal {GOAL_MB} MB){}", mb(peak), if reached { "" } else { "  MISSED" });
    Ok(if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn serve_nodes() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let nodes = runtime.block_on(Nodes::start())?;
    println!("{}", serde_json::to_string(&nodes.village())?);
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn told(nodes: &mut Child) -> Result<Village> {
    let output = nodes.stdout.take().context("the nodes' output is piped")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    serde_json::from_str(&line).context("the process with the nodes told nothing; run this program with --nodes to see why")
}

/// Waits until the file holds every deposit: the last of each chain is confirmed only by the tip itself.
fn caught_up(confirmd: &mut Child, folder: &Path, deposits: u64) -> Result<()> {
    let start = Instant::now();
    loop {
        if let Some(status) = confirmd.try_wait()? {
            bail!("confirmd ended by itself ({status}):\n{}", log_end(folder));
        }
        let lines = std::fs::read(folder.join("deposits.jsonl")).unwrap_or_default();
        let lines = u64::try_from(lines.iter().filter(|byte| **byte == b'\n').count())?;
        if lines >= deposits {
            ensure!(lines == deposits, "{lines} events for {deposits} deposits");
            return Ok(());
        }
        ensure!(start.elapsed() < LIMIT, "{lines} of {deposits} deposits after {} s:\n{}", LIMIT.as_secs(), log_end(folder));
        std::thread::sleep(LOOK);
    }
}

fn log_end(folder: &Path) -> String {
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    let mut lines: Vec<&str> = log.lines().rev().take(20).collect();
    lines.reverse();
    lines.join("\n")
}

fn mb(kb: u64) -> u64 {
    kb.saturating_mul(1024).div_ceil(1_000_000)
}

/// A process that ends with us.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let started = command.spawn();
        Ok(Self(started.with_context(|| format!("starting {}", command.get_program().display()))?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
