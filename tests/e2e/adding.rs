//! The pages on adding a network and a sink, carried out: their files are written into an empty folder and its tests are run.

mod features;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::workspace_root;
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    let network = || carried_out("adding-a-network.md", "pebble", &["s1", "s20"]);
    let sink = || carried_out("adding-a-sink.md", "lines", &["k1", "k10"]);
    vec![
        trial("adding::the_documented_network_is_built_in_an_empty_folder_and_keeps_every_rule", network),
        trial("adding::the_documented_sink_is_built_in_an_empty_folder_and_keeps_every_rule", sink),
    ]
}

/// Without the limit of other trials: what of this checkout the folder depends on is compiled once more, some 15 crates.
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
        let mut text = format!("{}\n", text.replace("../confirmd/", &format!("{here}/")));
        if *path == "Cargo.toml" {
            let name = features::CRATE;
            text = text.replacen("\n[dependencies]\n", &format!("\n[dependencies]\n{name} = {{ path = \"{name}\" }}\n"), 1);
        }
        std::fs::write(file, text)?;
    }
    std::fs::copy(workspace_root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(files.len())
}

/// Where the workspace's tests are compiled to.
fn target() -> Result<PathBuf> {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().map(Path::to_owned).context("no target folder")
}

/// Runs cargo in the folder; `own` are packages of this checkout, which are compiled as quickly as here.
fn cargo(folder: &Path, own: &[String], args: &[&str]) -> Result<String> {
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
    // Shared with the workspace, with its profile: what is the same is not compiled again.
    command.env("CARGO_TARGET_DIR", target()?).args(["--config", "profile.dev.debug='line-tables-only'"]);
    command.args(["--config", "profile.dev.split-debuginfo='unpacked'"]);
    command.args(["--config", "profile.dev.package.'*'.debug=false", "--config", "profile.dev.package.'*'.opt-level=1"]);
    for name in own {
        command.args(["--config".to_owned(), format!("profile.dev.package.{name}.opt-level=0")]);
    }
    let output = command.current_dir(folder).args(args).output().context("run cargo")?;
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    ensure!(output.status.success(), "cargo {args:?} ends with {}:\n{text}", output.status);
    Ok(text)
}

fn carried_out(page: &str, name: &str, rules: &[&str]) -> Result<()> {
    let text = std::fs::read_to_string(workspace_root().join("docs").join(page)).with_context(|| format!("read {page}"))?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("adding").join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let written = write(&text, &folder)?;
    ensure!(written >= 6, "{page} has only {written} files");

    let own = features::align(&folder, &workspace_root())?;
    let said = cargo(&folder, &own, &["test", "--offline", "--test", "conform"])?;
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
    // The page's main function, with everything that confirmd ships with beside it: compiled for the tests, as cargo does.
    let package = text.lines().find_map(|line| line.strip_prefix("name = ")).context("the page's package has no name")?;
    let binary = target()?.join("debug").join(package.trim_matches('"'));
    let output = Command::new(&binary).args(["kinds", name]).output().with_context(|| format!("run {}", binary.display()))?;
    let shown = String::from_utf8_lossy(&output.stdout);
    ensure!(shown.contains(&format!("kind = \"{name}\"")), "kinds {name} prints {shown}");
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
