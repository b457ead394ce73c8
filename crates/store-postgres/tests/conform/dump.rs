//! A store written out and made again, from schema to schema.

use super::cluster::Cluster;
use super::rig::{Still, server};
use crate::kills::trial;
use crate::postgres::Postgres;
use anyhow::{Result, ensure};
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
    trials.push(trial("dump::every_table_is_in_a_dump_or_known_not_to_be", || async {
        let place = Schemas::default().place()?;
        tables(&place).await
    }));
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

impl Schemas {
    fn place(&self) -> Result<Place> {
        let cluster = {
            let mut held = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
            match held.as_ref() {
                Some(cluster) => Arc::clone(cluster),
                None => Arc::clone(held.insert(Arc::new(Cluster::start()?))),
            }
        };
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("password"), Postgres::SUPERUSER.1)?;
        let schema = format!("dump_{}", self.places.fetch_add(1, Ordering::SeqCst));
        Ok(Place { cluster, schema: Schema::try_from(schema).map_err(anyhow::Error::msg)?, folder })
    }
}

#[async_trait]
impl DumpHarness for Schemas {
    async fn start(&self) -> Result<Box<dyn DumpPlace>, Broken> {
        let place = self.place().map_err(|error| Broken::new(format!("the cluster's driver failed: {error:#}")))?;
        Ok(Box::new(place))
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

/// Where a table's content is in a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum In {
    /// In records of this kind.
    Records,
    /// Nowhere: it means nothing to another store. The change sets and turns are what instances tell each other, migrations the schema's own.
    Nothing,
}

/// Every table and its columns, as all migrations together leave them.
const TABLES: &[(&str, In, &str)] = &[
    ("archive", In::Records, "digest chain height sequence event"),
    ("asset", In::Records, "chain asset listed"),
    ("attempt", In::Records, "consumer position ever attempt"),
    ("chain", In::Records, "id chain version head"),
    ("change", In::Nothing, "chain version token first_event changes"),
    ("consumer", In::Records, "id name chains assets began cursor paused notices"),
    ("delivery", In::Records, "consumer position digest state due_at attempts attempts_ever given_up token owner lease_until"),
    (
        "deposit",
        In::Records,
        "digest chain address reference asset symbol tx_id output_index state seen_at changed_at event record height",
    ),
    ("event", In::Records, "position id chain asset digest decided_at record body notice"),
    ("held", In::Records, "chain kind digest event deposit"),
    ("life", In::Records, "digest version number step"),
    ("meta", In::Records, "one store epoch created_at next_position"),
    ("migration", In::Nothing, "part version applied_at"),
    ("reader", In::Records, "name after used_at expired"),
    ("reorg", In::Records, "chain version at record"),
    ("rescan", In::Records, "chain id rescan"),
    ("skipped", In::Records, "consumer position at attempts"),
    ("trail", In::Records, "chain height hash"),
    ("turn", In::Nothing, "chain owner until"),
    ("watch", In::Records, "chain address entry"),
];
const MADE: &str = "select c.relname::text, string_agg(a.attname, ' ' order by a.attnum)
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'made'::regnamespace and c.relkind in ('r', 'p', 'm', 'f') group by c.relname order by c.relname";
const READ: &[&str] = &[
    include_str!("../../src/snapshot.rs"),
    include_str!("../../src/history.rs"),
    include_str!("../../src/chain.rs"),
    include_str!("../../src/consumers.rs"),
];

/// Who adds a table, or a column, decides whether a dump holds it: the schema is asked, whichever migrations made it.
async fn tables(place: &Place) -> Result<()> {
    let cluster = &place.cluster;
    let schema = Schema::try_from("made".to_owned()).map_err(anyhow::Error::msg)?;
    let server = server(cluster.port, place.folder.path(), "made")?;
    PgStore::open(server, PgOptions { init: true, ..PgOptions::new(schema) }).await?;
    let rows = cluster.admin().await?.query(MADE, &[]).await?;
    let made: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let known: Vec<_> = TABLES.iter().map(|(name, _, columns)| ((*name).to_owned(), (*columns).to_owned())).collect();
    ensure!(made == known, "the migrations make {made:#?}; say in src/snapshot.rs and here what of it is dumped");
    for (name, place, _) in TABLES {
        let from = [format!("from {name} "), format!("from {name}\n"), format!("from {name}\"")];
        let read = READ.iter().any(|text| from.iter().any(|from| text.contains(from)));
        ensure!(read || *place == In::Nothing, "nothing of a dump reads {name}");
    }
    Ok(())
}
