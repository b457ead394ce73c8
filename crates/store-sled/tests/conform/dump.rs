//! A store written out and made again, from directory to directory.

use super::options;
use async_trait::async_trait;
use confirmd_core::{StoreError, StoreImport};
use confirmd_store_sled::{OpenOptions, SledStore};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::store::{DumpHarness, DumpPlace, Dumpable, dump_trials};
use libtest_mimic::Trial;
use std::sync::Arc;
use tempfile::TempDir;

pub(super) fn trials() -> Vec<Trial> {
    dump_trials("store_sled", Arc::new(Directories))
}

struct Directories;

struct Directory(TempDir);

#[async_trait]
impl DumpHarness for Directories {
    async fn start(&self) -> Result<Box<dyn DumpPlace>, Broken> {
        Ok(Box::new(Directory(tempfile::tempdir().map_err(Broken::tried("making a directory"))?)))
    }
}

#[async_trait]
impl DumpPlace for Directory {
    async fn open(&self, init: bool) -> Result<Dumpable, StoreError> {
        let store = Arc::new(SledStore::open(self.0.path().join("state"), options(init)).await?);
        Ok(Dumpable { store: store.clone(), snapshots: store })
    }

    async fn import(&self, restored: bool) -> Result<Box<dyn StoreImport>, StoreError> {
        SledStore::import(self.0.path().join("state"), OpenOptions { restored, ..options(false) }).await
    }
}
