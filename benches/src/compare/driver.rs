//! The little of a driver that measuring needs: ports, processes, where the nodes are, call data.

use crate::process::workspace;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A port of 127.0.0.1 that is free now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A program of `tests/nodes/install`: in its folder or on the path.
pub fn node_program(name: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("CONFIRMD_NODES").map_or_else(|| workspace().join(".nodes"), PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.join("bin")).chain(std::env::split_paths(&path));
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("{name} is missing: run tests/nodes/install"))
}

/// A child that ends with this value.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts it without input, its output in `log`.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log)?;
        let started = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn();
        Ok(Self(started.with_context(|| format!("starting {}", command.get_program().display()))?))
    }

    /// Its id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Whether it has ended by itself.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }

    /// Asks it to end (SIGTERM), and waits for the end.
    pub fn stop(&mut self) -> Result<()> {
        let asked = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status()?;
        ensure!(asked.success(), "SIGTERM was not sent ({asked})");
        self.0.wait()?;
        Ok(())
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.kill();
    }
}

/// A compiled contract of `fixtures/contracts`.
#[derive(Debug)]
pub struct Contract(Value);

impl Contract {
    /// By its name.
    pub fn named(name: &str) -> Result<Self> {
        let compiled: Value = serde_json::from_str(include_str!("../../../fixtures/contracts/contracts.json"))?;
        let found = compiled.pointer(&format!("/contracts/{name}")).cloned();
        Ok(Self(found.with_context(|| format!("no contract {name}"))?))
    }

    /// Its creation code.
    pub fn bytecode(&self) -> Result<&str> {
        self.0.get("bytecode").and_then(Value::as_str).context("no bytecode")
    }

    /// Call data: the selector of `signature` and the words.
    pub fn data(&self, signature: &str, words: &[String]) -> Result<String> {
        let selector = self.0.get("selectors").and_then(|all| all.get(signature)).and_then(Value::as_str);
        let Some(selector) = selector else { bail!("the contract has no {signature}") };
        Ok(format!("0x{selector}{}", words.concat()))
    }
}

/// A number as a word.
#[must_use]
pub fn number_word(number: u64) -> String {
    format!("{number:064x}")
}

/// An account as a word.
#[must_use]
pub fn account_word(account: &str) -> String {
    format!("{:0>64}", account.trim_start_matches("0x"))
}
