//! One instance of `confirmd`: its folder, configuration, process and output, across restarts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::lines::Lines;
use crate::process::{Process, guarded};
use crate::scratch::scratch_dir;

const COMMAND_DEADLINE: Duration = Duration::from_secs(60);

/// A configured instance; it runs between `start` and `kill`, `terminate` or drop. The folder, and with it the
/// state, lives as long as this value.
#[derive(Debug)]
pub struct Instance {
    program: PathBuf,
    dir: TempDir,
    environment: Vec<(OsString, OsString)>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    process: Process,
    stdout: Lines,
    stderr: Lines,
}

impl Instance {
    /// The binary under test with the configuration that `config` writes; it is given the instance's folder.
    pub fn new(config: impl FnOnce(&Path) -> String) -> Result<Self> {
        Self::of_program(&crate::binary::confirmd()?, config)
    }

    /// As [`Instance::new`], for another program.
    pub fn of_program(program: &Path, config: impl FnOnce(&Path) -> String) -> Result<Self> {
        let dir = scratch_dir()?;
        let instance = Self { program: program.to_owned(), dir, environment: Vec::new(), running: None };
        instance.configure(config)?;
        Ok(instance)
    }

    /// Writes the configuration anew; it holds from the next start.
    pub fn configure(&self, config: impl FnOnce(&Path) -> String) -> Result<()> {
        std::fs::write(self.config(), config(self.dir())).context("write the configuration")
    }

    /// Sets an environment variable for everything started from now on.
    pub fn env(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// The instance's folder: the working directory of all its processes.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The configuration file, `confirmd.toml` in the folder.
    pub fn config(&self) -> PathBuf {
        self.dir().join("confirmd.toml")
    }

    fn build_command(&self, args: &[&str]) -> Command {
        let mut command = guarded(&self.program);
        command.args(args).current_dir(self.dir()).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the program with `args` and follows its output. Earlier output is forgotten.
    pub fn start(&mut self, args: &[&str]) -> Result<()> {
        if self.running.as_mut().is_some_and(|running| matches!(running.process.exited(), Ok(None))) {
            bail!("the instance is running already");
        }
        let mut command = self.build_command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn("confirmd", &mut command)?;
        let stdout = process.child().stdout.take().context("take the pipe of stdout")?;
        let stderr = process.child().stderr.take().context("take the pipe of stderr")?;
        self.running = Some(Running { process, stdout: Lines::follow(stdout), stderr: Lines::follow(stderr) });
        Ok(())
    }

    /// Starts `run --config FILE` with further arguments, for example `--init`.
    pub fn run(&mut self, more: &[&str]) -> Result<()> {
        let config = self.config();
        let config = config.to_str().context("the path of the configuration is not UTF-8")?;
        let args: Vec<&str> = ["run", "--config", config].into_iter().chain(more.iter().copied()).collect();
        self.start(&args)
    }

    fn running(&mut self) -> Result<&mut Running> {
        self.running.as_mut().context("the instance was never started")
    }

    /// The lines on stdout since the last start; they can still be read after the end.
    pub fn stdout(&self) -> Result<&Lines> {
        Ok(&self.running.as_ref().context("the instance was never started")?.stdout)
    }

    /// The lines on stderr since the last start.
    pub fn stderr(&self) -> Result<&Lines> {
        Ok(&self.running.as_ref().context("the instance was never started")?.stderr)
    }

    /// The process id of the last start.
    pub fn pid(&mut self) -> Result<u32> {
        Ok(self.running()?.process.pid())
    }

    /// SIGKILL, as a power cut would be for the process.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.running()?.process.kill()
    }

    /// SIGTERM, and waits for the end, at most `deadline`.
    pub async fn terminate(&mut self, deadline: Duration) -> Result<ExitStatus> {
        self.running()?.process.terminate(deadline).await
    }

    /// Waits for the program to end by itself, at most `deadline`.
    pub async fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        self.running()?.process.wait(deadline).await
    }

    /// Sends a signal by name, for example `STOP`.
    pub fn signal(&mut self, signal: &str) -> Result<()> {
        self.running()?.process.signal(signal)
    }

    /// Runs another command of the program to its end beside the running one, at most a minute.
    pub async fn command(&self, args: &[&str]) -> Result<Output> {
        let mut command = self.build_command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn("confirmd", &mut command)?;
        let stdout = Lines::follow(process.child().stdout.take().context("take the pipe of stdout")?);
        let stderr = Lines::follow(process.child().stderr.take().context("take the pipe of stderr")?);
        let status = process.wait(COMMAND_DEADLINE).await.with_context(|| format!("run {args:?}"))?;
        let text = |lines: Vec<String>| lines.into_iter().flat_map(|line| (line + "\n").into_bytes()).collect();
        let stdout = text(stdout.until_end(COMMAND_DEADLINE).await?);
        Ok(Output { status, stdout, stderr: text(stderr.until_end(COMMAND_DEADLINE).await?) })
    }
}
