//! The features with which the workspace's tests have compiled what a folder depends on, so that cargo need not do it again.
//!
//! Cargo compiles a package anew for each set of features, and a folder on its own asks for fewer than the whole workspace. The
//! difference is a handful; it goes into a crate of its own beside the page's files, since it is nothing that a reader needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Name and version, as `cargo tree` prints a package, and the sets of features it is compiled with.
type Features = BTreeMap<String, BTreeSet<String>>;

/// The crate that asks for the rest.
pub(super) const CRATE: &str = "as-compiled";
/// A feature asked for may bring a dependency, which may differ in turn.
const ROUNDS: usize = 4;

fn tree(folder: &Path, more: &[&str]) -> Result<Features> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["tree", "--offline", "--edges", "normal,build,dev", "--prefix", "none", "--no-dedupe", "--format", "{p}|{f}"]);
    let output = command.args(more).current_dir(folder).output().context("run cargo tree")?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "cargo tree in {}: {}", folder.display(), String::from_utf8_lossy(&output.stderr));
    let mut found = Features::new();
    for (package, features) in text.lines().filter_map(|line| line.rsplit_once('|')) {
        found.entry(package.to_owned()).or_default().insert(features.to_owned());
    }
    Ok(found)
}

/// Writes the crate [`CRATE`] into the folder, on which its manifest depends already. Returns the packages of this checkout
/// that the folder depends on.
pub(super) fn align(folder: &Path, workspace: &Path) -> Result<Vec<String>> {
    let compiled = tree(workspace, &["--workspace", "--all-features"])?;
    let sources = folder.join(CRATE).join("src");
    std::fs::create_dir_all(&sources)?;
    std::fs::write(sources.join("lib.rs"), "//! Asks for features, and nothing else.\n")?;
    let mut asked = BTreeMap::new();
    let mut asks_for = String::new();
    for _ in 0..ROUNDS {
        let manifest =
            format!("[package]\nname = \"{CRATE}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{asks_for}");
        std::fs::write(folder.join(CRATE).join("Cargo.toml"), manifest)?;
        let here = tree(folder, &[])?;
        let before = asked.len();
        asked.extend(here.iter().filter_map(|(package, features)| difference(package, features, compiled.get(package)?)));
        if asked.len() == before {
            return Ok(here
                .keys()
                .filter_map(|package| package.split_once(" v").filter(|_| package.contains("(/")))
                .map(|own| own.0.to_owned())
                .collect());
        }
        asks_for = asked.iter().map(|(name, line)| format!("{name} = {line}\n")).collect();
    }
    anyhow::bail!("the features of {} still differ from the workspace's after {ROUNDS} rounds", folder.display())
}

/// What to ask for, so that a registry's package is compiled as it was.
fn difference(package: &str, here: &BTreeSet<String>, compiled: &BTreeSet<String>) -> Option<(String, String)> {
    let (name, version) = package.split_once(" v")?;
    // Paths and procedural macros stand in brackets behind the version; macros are compiled for the host, whoever asks.
    if version.contains('(') || here.is_subset(compiled) {
        return None;
    }
    let most = compiled.iter().max_by_key(|features| features.len())?;
    let features: Vec<&str> = most.split(',').filter(|feature| !feature.is_empty()).collect();
    Some((name.to_owned(), format!("{{ version = \"={version}\", default-features = false, features = {features:?} }}")))
}
