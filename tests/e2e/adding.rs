//! The pages on adding a network and a sink, carried out: their files are written into an empty folder and its tests are run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::workspace_root;
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    let network = || carried_out("adding-a-network.md", "pebble", "kinds pebble", &["s1", "s20"]);
    let sink = || carried_out("adding-a-sink.md", "lines", "kinds lines", &["k1", "k10"]);
    vec![
        trial("adding::the_documented_network_is_built_in_an_empty_folder_and_keeps_every_rule", network),
        trial("adding::the_documented_sink_is_built_in_an_empty_folder_and_keeps_every_rule", sink),
    ]
}

/// Without the limit of other trials: the first build of the day compiles what the folder depends on.
fn trial(name: &str, test: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || test().map_err(|error| Failed::from(format!("{error:?}"))))
}

/// The blocks of a page that are files: ```` ```rust file=src/lib.rs ````.
fn files(page: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for block in page.split("\n```").skip(1).step_by(2) {
        let (head, text) = block.split_once('\n').unwrap_or((block, ""));
        found.extend(head.split_once(" file=").map(|(_, path)| (path.trim(), text)));
    }
    found
}

/// What the page calls `../confirmd` is this checkout.
fn write(page: &str, folder: &Path) -> Result<usize> {
    let files = files(page);
    for (path, text) in &files {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().context("a file without a folder")?)?;
        let here = workspace_root().display().to_string();
        std::fs::write(file, format!("{}\n", text.replace("../confirmd/", &format!("{here}/"))))?;
    }
    std::fs::copy(workspace_root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(files.len())
}

fn cargo(folder: &Path, args: &[&str]) -> Result<String> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let target = target.parent().context("no target folder")?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo tells this test of its own package makes some build scripts run again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_PRIMARY_", "CARGO_BIN_", "CARGO_TARGET_TMP", "NEXTEST"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    // Shared with the workspace, and its profile: what is the same is not compiled again.
    command.env("CARGO_TARGET_DIR", target).args(["--config", "profile.dev.debug='line-tables-only'"]);
    command.args(["--config", "profile.dev.split-debuginfo='unpacked'"]);
    command.args(["--config", "profile.dev.package.'*'.debug=false", "--config", "profile.dev.package.'*'.opt-level=1"]);
    let output = command.current_dir(folder).args(args).output().context("run cargo")?;
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    ensure!(output.status.success(), "cargo {args:?} ends with {}:\n{text}", output.status);
    Ok(text)
}

fn carried_out(page: &str, name: &str, kinds: &str, rules: &[&str]) -> Result<()> {
    let text = std::fs::read_to_string(workspace_root().join("docs").join(page)).with_context(|| format!("read {page}"))?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("adding").join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let written = write(&text, &folder)?;
    ensure!(written >= 6, "{page} has only {written} files");

    let said = cargo(&folder, &["test", "--offline", "--test", "conform"])?;
    let line = said.lines().find(|line| line.starts_with("test result: ok.")).with_context(|| format!("no result: {said}"))?;
    let count = |what: &str| -> Result<usize> {
        let (before, _) = line.split_once(what).with_context(|| format!("{line:?} names no {what:?}"))?;
        Ok(before.trim().rsplit(' ').next().unwrap_or_default().parse()?)
    };
    let expected = expected(&text)?;
    ensure!((count("passed")?, count("ignored")?) == expected, "{page} says {expected:?}: {line}");
    for rule in rules {
        ensure!(said.contains(&format!("{name}::{rule}_")), "no trial of {rule}: {said}");
    }
    let shown = cargo(&folder, &["run", "--offline", "--quiet", "--", kinds.split(' ').next().unwrap_or_default(), name])?;
    ensure!(shown.contains(&format!("kind = \"{name}\"")), "{kinds} prints {shown}");
    Ok(())
}

/// `N trials pass, M are ignored`, as the page says.
fn expected(page: &str) -> Result<(usize, usize)> {
    let words: Vec<&str> = page.split_whitespace().collect();
    let found = words.windows(6).find_map(|words| match words {
        [passed, "trials", "pass,", ignored, "are", "ignored:"] => Some((passed.parse().ok()?, ignored.parse().ok()?)),
        _ => None,
    });
    found.context("the page does not say how many trials pass and are ignored")
}
