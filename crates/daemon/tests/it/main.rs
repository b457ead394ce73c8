//! The daemon from outside: its example configurations, its layers, and the binary without a node.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod api;
mod binary;
mod dev;
mod examples;
mod hostile;
mod instance;
mod layers;
mod running;
mod tidy;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
