//! A small model of a common design: everything ever seen is one document, written anew on every tick.

use crate::process::scratch;
use crate::usage::{Usage, Used};
use anyhow::Result;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use tempfile::TempDir;

#[derive(Debug, Default, Serialize)]
struct Document {
    height: u64,
    pending: Vec<String>,
    reported: Vec<String>,
    settled: Vec<String>,
}

/// See the module.
#[derive(Debug)]
pub struct SnapshotModel {
    document: Document,
    folder: TempDir,
}

impl SnapshotModel {
    /// With so many settled keys.
    pub fn with_settled(count: u64) -> Result<Self> {
        let mut model = Self { document: Document::default(), folder: scratch("snapshot-model")? };
        model.document.settled = (0..count).map(key).collect();
        model.write()?;
        Ok(model)
    }

    /// One new deposit seen, one reported, one settled; the whole document written, synced and put in its place.
    pub fn tick(&mut self) -> Result<()> {
        self.document.height += 1;
        self.document.settled.extend(self.document.reported.pop());
        self.document.reported.extend(self.document.pending.pop());
        self.document.pending.push(key(u64::MAX - self.document.height));
        self.write()
    }

    fn write(&self) -> Result<()> {
        let (new, path) = (self.folder.path().join("new"), self.folder.path().join("state.json"));
        let mut file = BufWriter::new(File::create(&new)?);
        serde_json::to_writer(&mut file, &self.document)?;
        file.flush()?;
        file.get_ref().sync_data()?;
        Ok(std::fs::rename(new, path)?)
    }

    /// What so many ticks take, each.
    pub fn measured(&mut self, ticks: u64) -> Result<Used> {
        let usage = Usage::now()?;
        for _ in 0..ticks {
            self.tick()?;
        }
        Ok(usage.used()?.each(ticks))
    }
}

/// A transaction and an output, as long as they are in practice.
fn key(n: u64) -> String {
    format!("{:016x}{:016x}{:016x}{:016x}:{}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n, n.rotate_left(17), n, n % 4)
}
