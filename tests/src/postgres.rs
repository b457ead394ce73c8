//! A throw-away PostgreSQL cluster on loopback: of Debian's package, on a port and in a folder of its own.
//!
//! The server refuses to run as root, so as root it runs as the package's user `postgres`. It dies with the test.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use crate::port::Port;
use crate::process::Process;
use crate::scratch::scratch_dir;

/// How long a start may take, recovery included.
const START_DEADLINE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A cluster. The server runs between `start` or `start_again` and `kill`, `stop` or drop; the data stay while this value lives.
#[derive(Debug)]
pub struct Postgres {
    process: Option<Process>,
    port: Port,
    settings: Vec<String>,
    dir: TempDir,
}

impl Postgres {
    /// The superuser of every cluster, and its password.
    pub const SUPERUSER: (&str, &str) = ("postgres", "only-for-trials");

    /// A new cluster, running.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// A new cluster with settings like `max_connections=5`, running.
    pub async fn start_with(settings: &[&str]) -> Result<Self> {
        Self::start_in(scratch_dir()?, settings).await
    }

    /// The same in a folder of the caller's choice: on a disk, where a commit costs what it costs.
    pub async fn start_in(dir: TempDir, settings: &[&str]) -> Result<Self> {
        // Its user must be able to pass through.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).context("open the folder")?;
        let copied = Command::new("cp").arg("-a").arg(template()?).arg(dir.path().join("data")).output().context("run cp")?;
        ensure!(copied.status.success(), "copy the template: {}", String::from_utf8_lossy(&copied.stderr));
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut cluster = Self { process: None, port: Port::free()?, settings, dir };
        cluster.start_again().await?;
        Ok(cluster)
    }

    /// The port on 127.0.0.1; the same after a restart.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `postgres://…` without a password.
    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port())
    }

    /// A connection of the superuser.
    pub async fn admin(&self, database: &str) -> Result<Client> {
        let (user, password) = Self::SUPERUSER;
        self.connect(user, password, database).await
    }

    /// A connection.
    pub async fn connect(&self, user: &str, password: &str, database: &str) -> Result<Client> {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(self.port()).user(user).password(password).dbname(database).application_name("trial");
        let (client, driver) = config.connect(NoTls).await.context("connect to the cluster")?;
        tokio::spawn(driver);
        Ok(client)
    }

    /// Starts the server after a `kill` or `stop`; waits until it answers.
    pub async fn start_again(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            let exited = match &mut self.process {
                Some(process) => process.exited()?.is_some(),
                None => true,
            };
            if exited {
                // After a kill the last children hold the shared memory for a moment, and the start is refused.
                self.process = Some(self.spawn()?);
            }
            if let Ok(client) = self.admin("postgres").await
                && client.simple_query("select 1").await.is_ok()
            {
                return Ok(());
            }
            if began.elapsed() > START_DEADLINE {
                bail!("the cluster did not start within {START_DEADLINE:?}:\n{}", self.log());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn spawn(&self) -> Result<Process> {
        let mut command = as_server_user(&bin()?.join("postgres"))?;
        command.arg("-D").arg(self.dir.path().join("data")).args(["-p", &self.port().to_string()]);
        // Memory of killed servers would stay for ever in /dev/shm; mapped files go with the folder.
        let memory = ["shared_buffers=16MB", "dynamic_shared_memory_type=mmap"];
        for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=30"].iter().chain(&memory) {
            command.args(["-c", setting]);
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.current_dir("/");
        Process::spawn_logged("postgres", &mut command, &self.dir.path().join("server.log"))
    }

    /// SIGKILL to the server: its sessions end with it, nothing is written in an orderly way.
    pub fn kill(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the cluster does not run")?;
        process.kill()?;
        Ok(())
    }

    /// Ends the server in an orderly way; sessions are cut off.
    pub async fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the cluster does not run")?;
        process.signal("INT")?;
        process.wait(START_DEADLINE).await?;
        Ok(())
    }

    /// Stops and starts.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.start_again().await
    }

    /// What the server said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("server.log")).unwrap_or_default()
    }

    /// Puts a file for the server into its data folder, readable by it alone.
    pub fn put_file(&self, name: &str, content: &str) -> Result<()> {
        let path = self.dir.path().join("data").join(name);
        std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        if let Some((user, group)) = server_user()? {
            chown(&path, Some(user), Some(group)).context("give the file to the server")?;
        }
        Ok(())
    }
}

/// Where the server's programs are: `CONFIRMD_POSTGRES_BIN`, the newest of Debian's, or the PATH.
pub(crate) fn bin() -> Result<PathBuf> {
    find_bin().context("postgres not installed: run tests/postgres/install")
}

pub(crate) fn find_bin() -> Option<PathBuf> {
    let is_there = |folder: &PathBuf| folder.join("postgres").is_file() && folder.join("initdb").is_file();
    if let Some(folder) = std::env::var_os("CONFIRMD_POSTGRES_BIN") {
        return Some(PathBuf::from(folder)).filter(is_there);
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()).unwrap_or_default();
    let newest = versions.map(|entry| entry.path()).filter(|path| is_there(&path.join("bin"))).max_by_key(|path| number(path));
    newest.map(|path| path.join("bin")).or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(is_there)
    })
}

/// User and group of the server, if it must not be ours.
fn server_user() -> Result<Option<(u32, u32)>> {
    let ours = std::fs::metadata("/proc/self").map(|of| std::os::unix::fs::MetadataExt::uid(&of)).unwrap_or(1);
    if ours != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").context("read /etc/passwd")?;
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let line = line.context("the server refuses to run as root, and there is no user postgres; run tests/postgres/install")?;
    let field = |number| line.split(':').nth(number).and_then(|text| text.parse().ok()).context("a line of /etc/passwd");
    Ok(Some((field(2)?, field(3)?)))
}

/// A command that the kernel kills with the thread that spawns it, as the server's user.
fn as_server_user(program: &Path) -> Result<Command> {
    let Some((user, group)) = server_user()? else { return Ok(crate::process::guarded(program)) };
    let mut command = Command::new("/usr/bin/setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups", "--pdeathsig", "KILL", "--"]);
    command.arg(program);
    Ok(command)
}

/// A data folder as `initdb` makes it, made once for all tests of this machine and version, then copied.
fn template() -> Result<PathBuf> {
    let bin = bin()?;
    let name = format!("confirmd-e2e-postgres-{}", bin.display().to_string().replace('/', "_"));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let lock = File::create(folder.join("lock")).context("open the template's lock")?;
    lock.lock().context("wait for another test's initdb")?;
    let (data, done) = (folder.join("data"), folder.join("done"));
    if done.exists() && data.join("PG_VERSION").exists() {
        return Ok(data);
    }
    let _ = std::fs::remove_dir_all(&data);
    std::fs::create_dir(&data).context("make the template")?;
    let word = folder.join("password");
    std::fs::write(&word, Postgres::SUPERUSER.1).context("write the password")?;
    if let Some((user, group)) = server_user()? {
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).context("open the template's folder")?;
        chown(&data, Some(user), Some(group)).context("give the template to the server's user")?;
        chown(&word, Some(user), Some(group)).context("give the password to the server's user")?;
    }
    let mut command = as_server_user(&bin.join("initdb"))?;
    command.arg("-D").arg(&data).arg("--pwfile").arg(&word).current_dir("/").stdin(Stdio::null());
    command.args(["--no-sync", "--username", Postgres::SUPERUSER.0, "--encoding=UTF8", "--locale=C.UTF-8", "--wal-segsize=1"]);
    let output = command.args(["--auth=scram-sha-256"]).output().context("run initdb")?;
    ensure!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
    File::create(done).context("mark the template as done")?;
    Ok(data)
}
