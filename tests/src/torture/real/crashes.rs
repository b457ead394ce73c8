//! kill -9 of confirmd at any moment, and its starts.

use anyhow::{Context, Result, ensure};
use tokio::sync::watch;

use super::dice::Dice;
use super::journal::Journal;
use crate::{SOON, Service};

const WHO: &str = "confirmd";

/// confirmd across its crashes: its log is collected before it is forgotten.
#[derive(Debug)]
pub(super) struct Patient {
    /// The running instance.
    pub(super) service: Service,
    /// Crashes so far.
    pub(super) crashes: u64,
    /// Ticks that read something, counted from the log.
    pub(super) ticks: u64,
    log: String,
}

impl Patient {
    /// Not started yet.
    pub(super) fn new(service: Service) -> Self {
        Self { service, crashes: 0, ticks: 0, log: String::new() }
    }

    /// Everything it logged; fails if there was a panic.
    pub(super) fn log(&self) -> Result<&str> {
        ensure!(!self.log.contains("panicked at"), "confirmd panicked");
        Ok(&self.log)
    }

    /// Takes the log of the last start up. Only once for each.
    pub(super) fn collect(&mut self) {
        let lines = self.service.log();
        let ticks = lines.lines().filter(|line| line.contains(" tick chain=")).count();
        self.ticks += u64::try_from(ticks).unwrap_or(u64::MAX);
        self.log.push_str(&lines);
        self.log.push_str("\n-- end of this process\n");
    }

    fn kill(&mut self, journal: &Journal) -> Result<()> {
        let exit = self.service.instance().kill()?;
        self.crashes += 1;
        journal.note(WHO, &format!("killed: {exit}"));
        self.collect();
        let by_itself = exit.code().is_some();
        ensure!(!by_itself, "confirmd had ended by itself with {exit}\n{}", self.log);
        Ok(())
    }

    /// Starts it; sometimes it is killed while it starts, the first time too.
    pub(super) async fn start(&mut self, dice: &mut Dice, journal: &Journal) -> Result<()> {
        while dice.chance(1, 4) {
            self.service.instance().run(&["--init", "--no-progress"])?;
            dice.pause(0, 200).await;
            self.kill(journal).context("killed while it started")?;
        }
        self.service.run().await.with_context(|| self.log.clone())?;
        journal.note(WHO, "runs");
        Ok(())
    }

    /// Kills and starts it again and again until the round's acts are over.
    pub(super) async fn torment(&mut self, dice: &mut Dice, journal: &Journal, mut over: watch::Receiver<bool>) -> Result<()> {
        loop {
            let wait = dice.time(30, 700);
            if tokio::time::timeout(wait, over.wait_for(|over| *over)).await.is_ok() {
                return Ok(());
            }
            self.kill(journal)?;
            if dice.chance(1, 3) {
                dice.pause(0, 300).await;
            }
            self.start(dice, journal).await?;
        }
    }

    /// The last crash of a round: anything may just be happening.
    pub(super) async fn crash_once_more(&mut self, dice: &mut Dice, journal: &Journal) -> Result<()> {
        dice.pause(0, 100).await;
        self.kill(journal)?;
        self.service.run().await.with_context(|| self.log.clone())
    }

    /// A clean end.
    pub(super) async fn terminate(&mut self) -> Result<()> {
        let status = self.service.instance().terminate(SOON).await?;
        self.collect();
        ensure!(status.success(), "confirmd ended with {status} after SIGTERM\n{}", self.log);
        Ok(())
    }
}
