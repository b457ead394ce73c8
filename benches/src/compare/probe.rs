//! What a sync of a file costs on this disk, now.

use anyhow::{Context, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

const PAGE: [u8; 4096] = [7; 4096];

/// A file that is written and synced; see [`SyncProbe::took_us`].
#[derive(Debug)]
pub struct SyncProbe {
    file: File,
    took_us: Vec<u64>,
}

impl SyncProbe {
    /// In this folder.
    pub fn new(folder: &Path) -> Result<Self> {
        let path = folder.join("sync-probe");
        Ok(Self { file: File::create(&path).with_context(|| format!("making {}", path.display()))?, took_us: Vec::new() })
    }

    /// Writes a page and syncs it.
    pub fn once(&mut self) -> Result<()> {
        let start = Instant::now();
        self.file.write_all_at(&PAGE, 0)?;
        self.file.sync_data()?;
        self.took_us.push(u64::try_from(start.elapsed().as_micros())?);
        Ok(())
    }

    /// Microseconds of each.
    #[must_use]
    pub fn took_us(&self) -> Vec<u64> {
        self.took_us.clone()
    }
}
