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
    /// Bytes of the file system at `small`, if there is one.
    small: Option<u64>,
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
        let mut cluster = Self::copied(dir, settings)?;
        cluster.start_again().await?;
        Ok(cluster)
    }

    /// With a file system of so many bytes at [`Postgres::small_folder`], which only the server sees and which ends with it. Needs
    /// [`Postgres::can_mount`].
    pub async fn start_with_small_disk(bytes: u64, settings: &[&str]) -> Result<Self> {
        let mut cluster = Self { small: Some(bytes), ..Self::copied(scratch_dir()?, settings)? };
        std::fs::create_dir(cluster.small_folder()).context("make the folder of the small file system")?;
        cluster.start_again().await?;
        Ok(cluster)
    }

    /// Whether this process may mount file systems.
    pub fn can_mount() -> bool {
        let tried = Command::new("unshare").args(["--mount", "--", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]).output();
        tried.is_ok_and(|tried| tried.status.success())
    }

    /// Where the small file system is, for `create tablespace`.
    pub fn small_folder(&self) -> PathBuf {
        self.dir.path().join("small")
    }

    fn copied(dir: TempDir, settings: &[&str]) -> Result<Self> {
        // Its user must be able to pass through.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).context("open the folder")?;
        let copied = Command::new("cp").arg("-a").arg(template()?).arg(dir.path().join("data")).output().context("run cp")?;
        ensure!(copied.status.success(), "copy the template: {}", String::from_utf8_lossy(&copied.stderr));
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Ok(Self { process: None, port: Port::free()?, settings, small: None, dir })
    }

    /// A replica that follows this one and only reads, until [`Postgres::promote`]. From then on a commit here is answered once the
    /// replica has it.
    pub async fn standby(&self) -> Result<Self> {
        let dir = scratch_dir()?;
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).context("open the folder")?;
        let data = dir.path().join("data");
        std::fs::create_dir(&data).context("make the replica's folder")?;
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).context("close the replica's folder")?;
        if let Some((user, group)) = server_user()? {
            chown(&data, Some(user), Some(group)).context("give the folder to the server's user")?;
        }
        let mut command = as_server_user(&bin()?.join("pg_basebackup"))?;
        let (user, password) = Self::SUPERUSER;
        let from = format!("host=127.0.0.1 port={} user={user} password={password}", self.port());
        command.arg("-D").arg(&data).args(["-d", &from, "-X", "stream", "-c", "fast", "-R"]).current_dir("/");
        let copied = command.stdin(Stdio::null()).output().context("run pg_basebackup")?;
        ensure!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        let mut standby = Self { process: None, port: Port::free()?, settings: self.settings.clone(), small: None, dir };
        standby.start_again().await?;
        let admin = self.admin("postgres").await?;
        admin.batch_execute("alter system set synchronous_standby_names = '*'").await?;
        admin.batch_execute("select pg_reload_conf()").await?;
        Ok(standby)
    }

    /// Makes a replica the one that is written to.
    pub async fn promote(&self) -> Result<()> {
        let admin = self.admin("postgres").await?;
        ensure!(admin.query_one("select pg_promote(true, 60)", &[]).await?.get::<_, bool>(0), "the replica was not promoted");
        // It has no replica of its own to wait for.
        admin.batch_execute("alter system reset synchronous_standby_names").await?;
        admin.batch_execute("select pg_reload_conf()").await?;
        Ok(())
    }

    /// Something that kills the server as [`Postgres::kill`] does, from anywhere; [`Postgres::start_again`] follows.
    pub fn killer(&self) -> Result<impl Fn() + Send + Sync + use<>> {
        let pid = self.process.as_ref().context("the cluster does not run")?.pid();
        Ok(move || drop(Command::new("sh").args(["-c", &format!("kill -KILL {pid}")]).status()))
    }

    /// Starts the server again once what [`Postgres::killer`] did has been done.
    pub async fn start_after_kill(&mut self) -> Result<()> {
        self.process.as_mut().context("the cluster does not run")?.wait(START_DEADLINE).await?;
        self.start_again().await
    }

    /// Runs one of the server's client programs (`pg_dump`, `pg_restore`) as its superuser; what it writes to stdout.
    pub fn tool(&self, program: &str, args: &[&str]) -> Result<Vec<u8>> {
        let mut command = crate::process::guarded(&bin()?.join(program));
        self.output(command.args(args)).with_context(|| format!("{program} {args:?}"))
    }

    /// Runs a shell script in a folder, with the server's client programs at hand, as its superuser; what it writes to stdout.
    pub fn shell(&self, folder: &Path, script: &str) -> Result<Vec<u8>> {
        let path = [bin()?.into_os_string(), std::env::var_os("PATH").unwrap_or_default()].join(std::ffi::OsStr::new(":"));
        let mut command = crate::process::guarded(Path::new("/bin/sh"));
        self.output(command.args(["-e", "-c", script]).env("PATH", path).current_dir(folder)).with_context(|| script.to_owned())
    }

    fn output(&self, command: &mut Command) -> Result<Vec<u8>> {
        let (user, password) = Self::SUPERUSER;
        command.env("PGHOST", "127.0.0.1").env("PGPORT", self.port().to_string()).env("PGUSER", user).env("PGPASSWORD", password);
        let output = command.stdin(Stdio::null()).output().context("run it")?;
        ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        Ok(output.stdout)
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
        if let Some(bytes) = self.small {
            command = in_small_disk(&command, &self.small_folder(), bytes)?;
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

/// The command in a mount namespace of its own, with a file system of so many bytes at `folder`.
fn in_small_disk(command: &Command, folder: &Path, bytes: u64) -> Result<Command> {
    let (user, group) = server_user()?.context("only root can mount a file system")?;
    let mount = format!("mount -t tmpfs -o size={bytes},uid={user},gid={group},mode=700 none \"$0\" && exec \"$@\"");
    let mut wrapped = Command::new("unshare");
    wrapped.args(["--mount", "--", "sh", "-c", &mount]).arg(folder).arg(command.get_program()).args(command.get_args());
    Ok(wrapped)
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
