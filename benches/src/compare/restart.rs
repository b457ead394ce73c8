//! B4: a start on a state with very many reported deposits, until its first tick is done.

use super::evm_chain::{EvmChain, WATCHED};
use super::instance::{Instance, file_sink};
use super::report::Goal;
use crate::process::scratch;
use crate::ratio::median;
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A first tick is long over before the next one. A block at a time, since spans of many are cut after 500 deposits and read again.
const CHAIN_LINES: &str = "poll_interval = \"60s\"\nspan_max = 1\n";
const ROUNDS: usize = 3;
const LOOK: Duration = Duration::from_millis(20);
/// Deposits of a full run.
const FULL: u64 = 100_000;
const CPU_MS: u64 = 100;
const REQUESTS: u64 = 5;

/// A chain whose deposits are all reported, none settled, and a state that has read it. Other measures drain it, too.
#[derive(Debug)]
pub struct Crowd {
    /// The chain.
    pub chain: EvmChain,
    /// The instance's folder.
    pub folder: TempDir,
    /// Deposits in it.
    pub deposits: u64,
}

impl Crowd {
    /// Makes the chain and lets confirmd read it.
    pub fn make(confirmd: &Path, deposits: u64) -> Result<Self> {
        let start = Instant::now();
        let crowd = Self { chain: EvmChain::crowd(deposits)?, folder: scratch("crowd")?, deposits };
        let chain_s = start.elapsed().as_secs();
        let mut instance = Instance::start(confirmd, crowd.folder.path(), &crowd.sections())?;
        instance.until("the crowd was read and delivered", Duration::from_millis(200), |metrics| {
            metrics.sum("confirmd_chain_reported_deposits{") == deposits
                && metrics.sum("confirmd_deliveries{") == 0
                && metrics.following()
        })?;
        let cpu_ms = instance.cpu_ms()?;
        instance.stop()?;
        println!(
            "{deposits} deposits for B4, B9 and B10: chain made in {chain_s} s, read and delivered with {cpu_ms} ms CPU, all in {} s",
            start.elapsed().as_secs()
        );
        Ok(crowd)
    }

    /// An instance on a copy of the state as it was after catching up, with further sinks: what they were not delivered can't be
    /// left behind in the state.
    pub fn copied(&self, confirmd: &Path, sinks: impl FnOnce(&Path) -> Result<String>) -> Result<(Instance, TempDir)> {
        let folder = scratch("copy")?;
        let copied = Command::new("cp").arg("-a").arg(self.folder.path().join(".")).arg(folder.path()).status()?;
        ensure!(copied.success(), "copying the state failed ({copied})");
        let sinks = sinks(folder.path())?;
        let chain = self.chain.section_with(WATCHED, self.deposits, CHAIN_LINES);
        Ok((Instance::start(confirmd, folder.path(), &format!("{chain}{}{sinks}", file_sink(folder.path())))?, folder))
    }

    /// Its chain's section, and the sink that has everything already.
    fn sections(&self) -> String {
        format!("{}{}", self.chain.section_with(WATCHED, self.deposits, CHAIN_LINES), file_sink(self.folder.path()))
    }
}

/// What one start took.
#[derive(Debug, Clone, Copy)]
struct Start {
    cpu_ms: u64,
    wall_ms: u64,
    requests: u64,
}

/// Starts after an orderly end and after kill -9, in turn.
pub fn restart(confirmd: &Path, crowd: &Crowd) -> Result<Goal> {
    let (mut orderly, mut killed) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // The first one follows the orderly end after catching up.
        let (instance, figures) = start(confirmd, crowd)?;
        orderly.push(figures);
        instance.kill()?;
        let (instance, figures) = start(confirmd, crowd)?;
        killed.push(figures);
        instance.stop()?;
    }
    let of = |starts: &[Start], read: fn(&Start) -> u64| median(starts.iter().map(read).collect());
    let (cpu, cpu_killed) = (of(&orderly, |start| start.cpu_ms), of(&killed, |start| start.cpu_ms));
    let (wall, wall_killed) = (of(&orderly, |start| start.wall_ms), of(&killed, |start| start.wall_ms));
    let requests = orderly.iter().chain(&killed).map(|start| start.requests).max().unwrap_or_default();
    println!("B4 restart with {} reported deposits: {cpu} ms CPU, {wall} ms wall, {requests} requests", crowd.deposits);
    println!("B4 the same after kill -9: {cpu_killed} ms CPU, {wall_killed} ms wall");
    let scaled = if crowd.deposits < FULL { ", scaled down from 100,000" } else { "" };
    let what = format!("CPU until the first tick with {} reported deposits{scaled}", crowd.deposits);
    Ok(Goal::new("B4").at_most(&what, cpu.max(cpu_killed), CPU_MS, "ms").at_most("requests", requests, REQUESTS, "").note(
        format!("started at once, the first time, after each kill -9 ({wall_killed} ms against {wall} ms after an orderly end)"),
    ))
}

fn start(confirmd: &Path, crowd: &Crowd) -> Result<(Instance, Start)> {
    let mut instance = Instance::start(confirmd, crowd.folder.path(), &crowd.sections())?;
    let metrics = instance.until("the first tick was done", LOOK, |metrics| metrics.following())?;
    let start = Start {
        cpu_ms: instance.cpu_ms()?,
        wall_ms: u64::try_from(instance.started.elapsed().as_millis())?,
        requests: metrics.requests(),
    };
    let reported = metrics.sum("confirmd_chain_reported_deposits{");
    ensure!(reported == crowd.deposits, "{reported} deposits are reported after the start, of {}", crowd.deposits);
    Ok((instance, start))
}
