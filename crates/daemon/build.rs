//! Tells the program the revision of the source it was built from.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=CONFIRMD_REVISION");
    let revision = std::env::var("CONFIRMD_REVISION").ok().filter(|text| !text.is_empty()).or_else(revision);
    println!("cargo:rustc-env=CONFIRMD_REVISION={}", revision.as_deref().unwrap_or("unknown"));
}

fn revision() -> Option<String> {
    let root = std::path::PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Somebody else's repository around an unpacked source says nothing about it.
    if manifest.parent().and_then(Path::parent) != Some(root.as_path()) {
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?;
    let output = Command::new("git").current_dir(root).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
