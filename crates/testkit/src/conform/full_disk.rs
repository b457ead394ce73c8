//! A disk that takes no more, without filling one: a limit on the size of files, which holds for the whole process.

use super::{Broken, Verdict};
use libtest_mimic::{Arguments, Trial};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::{Command, ExitCode};

/// Set once the signal of a file that may not grow is ignored, so that its write fails instead.
const SIGNAL_IGNORED: &str = "CONFIRMD_CONFORM_XFSZ_IGNORED";

/// The `main` of a test binary whose trials call [`limit_files`]: runs them one at a time, in a process that such a limit does not
/// kill. That process is started through `sh`, since ignoring a signal takes unsafe code here; without an `sh` the trials run
/// in this one, and [`files_can_be_limited`] says no.
pub fn run_with_full_disks(trials: impl FnOnce() -> Vec<Trial>) -> ExitCode {
    if files_can_be_limited().is_err()
        && let Ok(program) = std::env::current_exe()
        && let Ok(status) = Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(program)
            .args(std::env::args_os().skip(1))
            .env(SIGNAL_IGNORED, "1")
            .status()
    {
        return status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials()).exit_code()
}

/// Whether this process survives [`limit_files`]; if not, why.
///
/// # Errors
/// A reason to show beside an ignored trial.
pub fn files_can_be_limited() -> Result<(), String> {
    match std::env::var_os(SIGNAL_IGNORED) {
        Some(_) => Ok(()),
        None => Err("there is no sh to start a process with whose files can be limited".to_owned()),
    }
}

/// From now on no file of this process is written beyond so many bytes; `None` lifts the limit.
///
/// # Errors
/// When the system does not allow it.
pub fn limit_files(bytes: Option<u64>) -> Verdict {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum })
        .map_err(Broken::tried("limiting the size of files"))
}
