//! The binary under test, always built from the sources as they are now.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

/// The folder of the workspace's Cargo.toml.
pub fn workspace_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Builds `confirmd` (once in a process; processes take turns) and returns its path as cargo reports it.
/// The profile is that of `CONFIRMD_E2E_PROFILE`, by default `dev`. A caller that has just built it passes its path in
/// `CONFIRMD_E2E_BINARY`, as `./test` does; the trial of `--version` catches one that is stale.
pub fn confirmd() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(|error| anyhow!("build confirmd: {error}"))
}

fn build() -> Result<PathBuf> {
    if let Some(built) = std::env::var_os("CONFIRMD_E2E_BINARY") {
        return Ok(PathBuf::from(built));
    }
    let root = workspace_root();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    std::fs::create_dir_all(&target).with_context(|| format!("make {}", target.display()))?;
    let lock = File::create(target.join("e2e-binary.lock")).context("open the lock of the build")?;
    lock.lock().context("wait for another test's build")?;

    let profile = std::env::var("CONFIRMD_E2E_PROFILE").unwrap_or_else(|_| "dev".to_owned());
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // What cargo tells a test of its own package: some build scripts (ring's) run again when it differs from what they
    // saw last, and with them everything above, at every change between this build and another.
    for (name, _) in std::env::vars_os() {
        let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(|name| of_package(name) || ["CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"].contains(&name)) {
            command.env_remove(name);
        }
    }
    let output = command
        .current_dir(&root)
        .args(["build", "-p", "confirmd", "--bin", "confirmd", "--profile", &profile])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::piped())
        .output()
        .context("run cargo")?;
    if !output.status.success() {
        bail!("cargo build ends with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    executable(&String::from_utf8_lossy(&output.stdout)).context("cargo's output names no executable of confirmd")
}

/// The executable named by cargo's messages, one JSON object a line.
fn executable(messages: &str) -> Option<PathBuf> {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut executables = artifacts.filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from));
    executables.rfind(|path| path.file_stem().is_some_and(|stem| stem == "confirmd"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_taken_from_the_artifact_that_is_an_executable() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"confirmd"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"confirmd"},"executable":"/t/debug/confirmd"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages), Some(PathBuf::from("/t/debug/confirmd")));
        assert_eq!(executable("nothing"), None);
    }
}
