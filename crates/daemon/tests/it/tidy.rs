//! Files stay small.

use std::path::{Path, PathBuf};

/// Above it a file holds more than one noun.
const LINES_MAX: usize = 600;
/// Above it a file is on its way there.
const LINES_WARN: usize = 400;

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, into);
        } else if name.ends_with(".rs") {
            into.push(path);
        }
    }
}

#[test]
fn no_source_file_is_longer_than_600_lines() {
    let mut files = Vec::new();
    sources(&super::root(), &mut files);
    assert!(files.len() > 50, "only {} files were found", files.len());
    let mut too_long = Vec::new();
    for file in files {
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        if lines > LINES_MAX {
            too_long.push(format!("{}: {lines}", file.display()));
        } else if lines > LINES_WARN {
            eprintln!("warning: {} has {lines} lines", file.display());
        }
    }
    assert!(too_long.is_empty(), "longer than {LINES_MAX} lines:\n{}", too_long.join("\n"));
}
