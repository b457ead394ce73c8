//! The `confirmd` binary: the daemon with the kinds of chains and sinks that ship with it.

use std::process::ExitCode;

fn main() -> ExitCode {
    confirmd::run(confirmd_builtin::registry())
}
