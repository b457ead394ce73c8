//! The binary in a folder of its own.

use serde_json::Value;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use tempfile::TempDir;

pub(crate) fn folder(config: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("confirmd.toml"), config).unwrap();
    dir
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_confirmd"));
    command.args(args).current_dir(dir).env_remove("CONFIRMD_LOG").env_remove("RUST_LOG").env_remove("CONFIRMD_CONFIG");
    command.stdin(Stdio::null());
    command
}

pub(crate) fn done(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn refused(output: &Output, parts: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

/// A running instance; killed with the test.
pub(crate) struct Instance {
    pub(crate) child: Child,
    /// Its standard output, line by line.
    pub(crate) events: Lines<BufReader<ChildStdout>>,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Instance {
    pub(crate) fn start(dir: &Path, args: &[&str]) -> Self {
        let mut child = command(dir, args).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let events = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut instance = Self { child, events, lines };
        instance.until("confirmd runs");
        instance
    }

    /// The next line of its standard output.
    pub(crate) fn next_event(&mut self) -> Value {
        serde_json::from_str(&self.events.next().unwrap().unwrap()).unwrap()
    }

    pub(crate) fn until(&mut self, part: &str) {
        let mut seen = String::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if line.contains(part) {
                return;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        panic!("it ended without {part:?}:\n{seen}");
    }

    pub(crate) fn terminate(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.until("stopped");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
