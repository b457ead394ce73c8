//! A child process that can't outlive its test.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often an exit is looked for: the standard library has no wait with a deadline.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// A running child. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
}

/// A command that the kernel kills with the thread that spawns it, where util-linux's `setpriv` is there.
/// Spawn it from the trial's own thread (or a runtime worker), never from a short-lived one.
pub(crate) fn guarded(program: &Path) -> Command {
    const SETPRIV: &str = "/usr/bin/setpriv";
    if Path::new(SETPRIV).exists() {
        let mut command = Command::new(SETPRIV);
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

impl Process {
    /// Spawns with no input; the command's own settings of stdout and stderr hold.
    pub fn spawn(name: &str, command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.with_context(|| format!("start {name}: {command:?}"))?;
        Ok(Self { name: name.to_owned(), child })
    }

    /// Spawns with stdout and stderr appended to `log`.
    pub fn spawn_logged(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("open {}", log.display()))?;
        command.stdout(file.try_clone()?).stderr(file);
        Self::spawn(name, command)
    }

    /// The child's process id (the guard replaces itself by the program, so it is the program's).
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child, to take its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The exit status, if it has ended.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("ask for the state of {}", self.name))
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        // Fails only if it has ended already; `wait` then answers at once.
        let _ = self.child.kill();
        self.child.wait().with_context(|| format!("wait for {} after SIGKILL", self.name))
    }

    /// Sends a signal by name: `TERM`, `INT`, `STOP`, `CONT`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        // The shell's own `kill`: there is no safe call for it in the standard library, and no such program on some systems.
        let script = format!("kill -{signal} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &script]).status().context("run sh")?;
        if !status.success() {
            bail!("SIG{signal} for {} (process {}): {status}", self.name, self.child.id());
        }
        Ok(())
    }

    /// Waits for the end, at most `deadline`.
    pub async fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.exited()? {
                return Ok(status);
            }
            if start.elapsed() > deadline {
                bail!("{} (process {}) did not end within {deadline:?}", self.name, self.child.id());
            }
            tokio::time::sleep(EXIT_POLL).await;
        }
    }

    /// SIGTERM, and waits for the end, at most `deadline`.
    pub async fn terminate(&mut self, deadline: Duration) -> Result<ExitStatus> {
        self.signal("TERM")?;
        self.wait(deadline).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
