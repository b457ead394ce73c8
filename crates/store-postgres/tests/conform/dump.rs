//! A store written out and made again, from schema to schema.

use super::cluster::Cluster;
use super::rig::{Still, server};
use crate::postgres::Postgres;
use async_trait::async_trait;
use confirmd_core::{StoreError, StoreImport};
use confirmd_postgres::Schema;
use confirmd_store_postgres::{PgOptions, PgStore};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::store::{DumpHarness, DumpPlace, Dumpable, dump_trials};
use libtest_mimic::Trial;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = dump_trials("store_postgres", Arc::new(Schemas::default()));
    trials.push(Trial::test("store_postgres::dump::every_table_is_in_a_dump_or_known_not_to_be", || Ok(tables()?)));
    trials
}

/// One cluster for all places.
#[derive(Default)]
struct Schemas {
    cluster: Mutex<Option<Arc<Cluster>>>,
    places: AtomicU32,
}

struct Place {
    cluster: Arc<Cluster>,
    schema: Schema,
    /// Where the password stands.
    folder: TempDir,
}

#[async_trait]
impl DumpHarness for Schemas {
    async fn start(&self) -> Result<Box<dyn DumpPlace>, Broken> {
        let failed = |error: anyhow::Error| Broken::new(format!("the cluster's driver failed: {error:#}"));
        let cluster = {
            let mut held = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
            match held.as_ref() {
                Some(cluster) => Arc::clone(cluster),
                None => Arc::clone(held.insert(Arc::new(Cluster::start().map_err(failed)?))),
            }
        };
        let folder = tempfile::tempdir().map_err(Broken::tried("making a folder"))?;
        std::fs::write(folder.path().join("password"), Postgres::SUPERUSER.1).map_err(Broken::tried("writing the password"))?;
        let schema = Schema::try_from(format!("dump_{}", self.places.fetch_add(1, Ordering::SeqCst))).map_err(Broken::new)?;
        Ok(Box::new(Place { cluster, schema, folder }))
    }
}

impl Place {
    fn options(&self) -> PgOptions {
        PgOptions { connections: 4, clock: Arc::new(Still), ..PgOptions::new(self.schema.clone()) }
    }
}

#[async_trait]
impl DumpPlace for Place {
    async fn open(&self, init: bool) -> Result<Dumpable, StoreError> {
        let server = server(self.cluster.port, self.folder.path(), self.schema.as_str())?;
        let store = Arc::new(PgStore::open(server, PgOptions { init, ..self.options() }).await?);
        Ok(Dumpable { store: store.clone(), snapshots: store })
    }

    async fn import(&self, restored: bool) -> Result<Box<dyn StoreImport>, StoreError> {
        let server = server(self.cluster.port, self.folder.path(), self.schema.as_str())?;
        PgStore::import(server, PgOptions { restored, ..self.options() }).await
    }
}

/// Dumped, or of no meaning to another store: what instances tell each other, and who reads a node right now.
const TABLES: &[&str] = &[
    "archive", "asset", "attempt", "chain", "change", "consumer", "delivery", "deposit", "event", "held", "life", "meta",
    "reader", "reorg", "skipped", "trail", "turn", "watch",
];

/// Who adds a table decides whether a dump holds it.
fn tables() -> Result<(), String> {
    let sql: String = [include_str!("../../migrations/1.sql"), include_str!("../../migrations/2.sql")].concat();
    let made = sql.lines().filter_map(|line| line.strip_prefix("create table {schema}."));
    let mut made: Vec<_> = made.filter_map(|line| line.split([' ', '(']).next()).collect();
    made.sort_unstable();
    if made == TABLES {
        Ok(())
    } else {
        Err(format!("the migrations make {made:?}; say in src/snapshot.rs and here what of it is dumped"))
    }
}
