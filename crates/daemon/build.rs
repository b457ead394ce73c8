//! Tells the program the revision of the source it was built from.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=CONFIRMD_REVISION");
    let revision = std::env::var("CONFIRMD_REVISION").ok().filter(|text| !text.is_empty()).or_else(revision);
    println!("cargo:rustc-env=CONFIRMD_REVISION={}", revision.as_deref().unwrap_or("unknown"));
}

fn revision() -> Option<String> {
    let root = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    // Somebody else's repository around an unpacked source says nothing about it.
    if source()? != root {
        return None;
    }
    for name in ["HEAD", "refs/heads", "packed-refs"] {
        // In a linked worktree these lie in different folders; git knows.
        if let Some(path) =
            git(&["rev-parse", "--path-format=absolute", "--git-path", name]).filter(|path| Path::new(path).exists())
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    for name in ["crates", "adapters", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", root.join(name).display());
    }
    let revision = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = git(&[
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        "crates",
        "adapters",
        "Cargo.toml",
        "Cargo.lock",
    ]);
    Some(if changed.is_some() { format!("{revision}-dirty") } else { revision })
}

/// What git prints, without the line break; `None` if it fails or prints nothing.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(source()?).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// The workspace that is built now: asked for when this runs, since a target folder may hold this program from another checkout.
fn source() -> Option<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")?;
    Some(Path::new(&manifest).parent()?.parent()?.to_owned())
}
