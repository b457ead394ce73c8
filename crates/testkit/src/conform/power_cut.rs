//! Power cuts. A process records everything it does to the files below one directory, and from the recording the disk is rebuilt as
//! a machine whose power went at some point would find it: what was synced, and of the rest what a [`Model`] keeps.
//!
//! What records is a small library that is loaded before the C library and compiled when it is first needed, with the C compiler that
//! Rust links with. That nothing went past it is checked: with all operations kept, the rebuilt disk must equal the real one.

mod disk;
mod recording;
mod run;

pub use disk::Model;
pub use run::{Cuts, Tally, record_and_cut};

use crate::conform::Broken;
use disk::{Chance, Disk};
use recording::Recording;
use sha2::{Digest, Sha256};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const SHIM: &str = include_str!("power_cut/shim.c");
/// Below it, everything is recorded.
const DIRECTORY: &str = "POWER_CUT_DIR";
/// Where the recording is.
const LOG: &str = "POWER_CUT_LOG";

/// The `main` of a test binary whose trials use [`PowerCut`]: runs itself again with everything recorded. Where that is not possible
/// it goes on without, and [`power_can_be_cut`] says why.
pub fn run_with_power_cuts(main: impl FnOnce() -> ExitCode) -> ExitCode {
    match run_again() {
        Some(code) => code,
        None => main(),
    }
}

fn run_again() -> Option<ExitCode> {
    if std::env::var_os(LOG).is_some() {
        return None;
    }
    let root = scratch().ok()?;
    let mut command = recorded(root.path(), &root.path().join("recording")).ok()?;
    let status = command.args(std::env::args_os().skip(1)).status().ok()?;
    Some(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Whether this process's operations are recorded; if not, why.
///
/// # Errors
/// A reason to show beside an ignored trial.
pub fn power_can_be_cut() -> Result<(), String> {
    if std::env::var_os(LOG).is_some() {
        return Ok(());
    }
    shim().map(drop).map_err(|error| error.to_string())?;
    Err("this process was started without a recording of its file operations".to_owned())
}

/// This program, to be run with everything below `directory/files` recorded into `log`.
fn recorded(directory: &Path, log: &Path) -> Result<Command, Broken> {
    let files = directory.join("files");
    std::fs::create_dir_all(&files).map_err(Broken::tried("making a directory"))?;
    let program = std::env::current_exe().map_err(Broken::tried("finding this program"))?;
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", shim()?).env(DIRECTORY, files).env(LOG, log);
    Ok(command)
}

/// The compiled library, beside this program.
fn shim() -> Result<PathBuf, Broken> {
    let program = std::env::current_exe().map_err(Broken::tried("finding this program"))?;
    let digest: String = Sha256::digest(SHIM).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let library = program.with_file_name(format!("power-cut-{digest}.so"));
    if library.exists() {
        return Ok(library);
    }
    let made = library.with_extension(format!("{}.c", std::process::id()));
    let built = library.with_extension(std::process::id().to_string());
    std::fs::write(&made, SHIM).map_err(Broken::tried("writing the recorder's source"))?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let arguments = ["-shared", "-fPIC", "-O1", "-w", "-o"];
    let compiled = Command::new(compiler).args(arguments).arg(&built).arg(&made).args(["-ldl", "-lpthread"]).output();
    let compiled = compiled.map_err(Broken::tried("running the C compiler"))?;
    // Nothing but a leftover if it stays.
    let _ = std::fs::remove_file(&made);
    if !compiled.status.success() {
        return Err(Broken::new(format!("the recorder does not compile: {}", String::from_utf8_lossy(&compiled.stderr))));
    }
    std::fs::rename(&built, &library).map_err(Broken::tried("placing the recorder"))?;
    Ok(library)
}

/// A directory in memory where there is such a thing: stores sync all the time.
fn scratch() -> std::io::Result<Scratch> {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    Scratch::new(&base)
}

/// A directory that goes when dropped.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new(base: &Path) -> std::io::Result<Self> {
        for number in 0_u32.. {
            let path = base.join(format!("power-cut-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(std::io::ErrorKind::AlreadyExists.into())
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Power cuts within this process, for a `StoreRig`: a directory whose operations are recorded.
#[derive(Debug)]
pub struct PowerCut {
    root: Scratch,
    recording: Recording,
    disk: Disk,
    cuts: u64,
}

impl PowerCut {
    /// A new directory whose operations are recorded; only in a process that was started by [`run_with_power_cuts`].
    ///
    /// # Errors
    /// If nothing is recorded here.
    pub fn start() -> Result<Self, Broken> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let (Some(log), Some(files)) = (variable(LOG), variable(DIRECTORY)) else {
            return Err(Broken::new("this process's file operations are not recorded"));
        };
        let recording = Recording::from_now(&log)?;
        let root = Scratch::new(&files).map_err(Broken::tried("making a directory"))?;
        Ok(Self { root, recording, disk: Disk::default(), cuts: 0 })
    }

    /// The recorded directory, as long as no power was cut; later `cut` names others.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// What a power cut at this moment leaves of a directory below [`PowerCut::path`] of which nothing unsynced is kept; in a new
    /// directory below it, which is returned. What it holds counts as synced.
    ///
    /// # Errors
    /// If the recording can't be read, or the process did what can't be recorded.
    pub fn cut(&mut self, directory: &Path) -> Result<PathBuf, Broken> {
        while let Some(record) = self.recording.next()? {
            self.disk.take(record);
        }
        self.cuts += 1;
        let target = self.root.path().join(format!("after-{}", self.cuts));
        let inode = std::fs::metadata(directory).map_err(Broken::tried("looking at the directory"))?.ino();
        self.disk.rebuild(inode, Model::None, &mut Chance::new(0), &target)?;
        Ok(target)
    }
}
