//! The store contract, rule by rule; each place is a schema of its own, behind a proxy that cuts.

use super::cluster::Cluster;
use crate::postgres::Postgres;
use crate::wire_proxy::{At, Cut, WireProxy};
use async_trait::async_trait;
use confirmd_core::{Clock, SecretSource, StoreError, Timestamp};
use confirmd_postgres::{Schema, Server, ServerConfig, UrlSource};
use confirmd_store_postgres::{PgOptions, PgStore};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::store::{Damage, Store, StoreHarness, StoreRig, StoreTest};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tempfile::TempDir;
use tokio_postgres::Client;

/// How long the store of a trial waits for a server that is gone.
const PATIENCE: Duration = Duration::from_millis(800);

/// One cluster for all places.
#[derive(Default)]
pub(super) struct Shared {
    cluster: Mutex<Option<Arc<Cluster>>>,
    places: AtomicU32,
}

/// A clock that stands still.
#[derive(Debug)]
pub(super) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_790_000_000)
    }
}

/// A schema, and the handles that were opened on it.
struct Rig {
    _cluster: Arc<Cluster>,
    proxy: WireProxy,
    admin: Client,
    schema: Schema,
    /// Where the password stands.
    folder: TempDir,
    handles: Vec<(Weak<PgStore>, String)>,
    opened: u32,
    failures: u32,
}

fn failed<T>(outcome: anyhow::Result<T>) -> Result<T, Broken> {
    outcome.map_err(|error| Broken::new(format!("the cluster's driver failed: {error:#}")))
}

#[async_trait]
impl StoreHarness for Shared {
    async fn start(&self) -> Result<Box<dyn StoreRig>, Broken> {
        let cluster = {
            let mut held = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
            match held.as_ref() {
                Some(cluster) => Arc::clone(cluster),
                None => Arc::clone(held.insert(Arc::new(failed(Cluster::start())?))),
            }
        };
        let proxy = failed(WireProxy::start(cluster.port).await)?;
        let admin = failed(cluster.admin().await)?;
        let folder = tempfile::tempdir().map_err(Broken::tried("making a folder"))?;
        std::fs::write(folder.path().join("password"), Postgres::SUPERUSER.1).map_err(Broken::tried("writing the password"))?;
        let schema = Schema::try_from(format!("place_{}", self.places.fetch_add(1, Ordering::SeqCst))).map_err(Broken::new)?;
        let (handles, opened, failures) = (Vec::new(), 0, 0);
        Ok(Box::new(Rig { _cluster: cluster, proxy, admin, schema, folder, handles, opened, failures }))
    }

    fn unable(&self, test: StoreTest) -> Option<String> {
        let why = match test {
            StoreTest::Crash | StoreTest::FailCommit => return None,
            StoreTest::PowerCut => "what a power cut leaves is the server's own doing: synchronous_commit is kept on",
            StoreTest::Damage => "damage is the server's own to notice: initdb --data-checksums",
        };
        Some(why.to_owned())
    }

    fn cases(&self) -> u32 {
        6
    }
}

impl Rig {
    /// Waits until the server has ended what a process that is gone left, and lets its leases' time go by.
    async fn time_goes_by(&mut self) -> Result<(), Broken> {
        let mut live = Vec::new();
        let mut gone = Vec::new();
        for (handle, application) in std::mem::take(&mut self.handles) {
            match handle.upgrade() {
                Some(store) => {
                    live.push(store.owner().to_owned());
                    self.handles.push((handle, application));
                }
                None => gone.push(application),
            }
        }
        loop {
            let left = self.admin.query("select 1 from pg_stat_activity where application_name = any($1)", &[&gone]).await;
            if left.map_err(Broken::tried("looking at sessions"))?.is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let there = self.admin.query_one("select to_regclass($1) is not null", &[&format!("{}.delivery", self.schema)]).await;
        if there.map_err(Broken::tried("looking for a table"))?.get(0) {
            let lapse = format!("update {}.delivery set lease_until = '-infinity' where owner <> all($1)", self.schema);
            self.admin.execute(&lapse, &[&live]).await.map_err(Broken::tried("letting leases pass"))?;
        }
        Ok(())
    }
}

/// A server behind a port; the superuser's password stands in the folder.
pub(super) fn server(port: u16, folder: &std::path::Path, application: &str) -> Result<Server, StoreError> {
    server_of(Postgres::SUPERUSER.0, port, folder, application)
}

/// The same for any role with that password.
pub(super) fn server_of(role: &str, port: u16, folder: &std::path::Path, application: &str) -> Result<Server, StoreError> {
    server_within(Duration::from_secs(10), role, port, folder, application)
}

/// The same with a limit of a statement.
pub(super) fn server_within(
    statement_timeout: Duration,
    role: &str,
    port: u16,
    folder: &std::path::Path,
    application: &str,
) -> Result<Server, StoreError> {
    server_at(&format!("postgres://{role}@127.0.0.1:{port}/postgres"), statement_timeout, folder, application)
}

/// The server of a URL; the password of the folder.
pub(super) fn server_at(
    url: &str,
    statement_timeout: Duration,
    folder: &std::path::Path,
    application: &str,
) -> Result<Server, StoreError> {
    let config = ServerConfig {
        url: UrlSource::Literal(url.to_owned()),
        password: Some(SecretSource::File(folder.join("password"))),
        ca_file: None,
        statement_timeout,
        application: application.to_owned(),
    };
    Server::new(&config).map_err(|error| StoreError::Invalid(error.to_string()))
}

#[async_trait]
impl StoreRig for Rig {
    async fn open(&mut self, init: bool) -> Result<Arc<dyn Store>, StoreError> {
        self.proxy.repair();
        self.time_goes_by().await.map_err(|broken| StoreError::Invalid(broken.to_string()))?;
        self.opened += 1;
        let application = format!("{}-{}", self.schema, self.opened);
        let options =
            PgOptions { init, patience: PATIENCE, connections: 4, clock: Arc::new(Still), ..PgOptions::new(self.schema.clone()) };
        let store = Arc::new(PgStore::open(server(self.proxy.port(), self.folder.path(), &application)?, options).await?);
        self.handles.push((Arc::downgrade(&store), application));
        Ok(store)
    }

    async fn crash(&mut self) -> Result<(), Broken> {
        self.handles.iter().filter_map(|(handle, _)| handle.upgrade()).for_each(|store| store.abandon());
        Ok(())
    }

    async fn power_cut(&mut self) -> Result<(), Broken> {
        Err(Broken::new("a server's power is not ours to cut"))
    }

    async fn fail_next_commit(&mut self) -> Result<(), Broken> {
        self.failures += 1;
        let cut = if self.failures % 2 == 1 { Cut::Before } else { Cut::After };
        self.proxy.cut(At::Text("COMMIT"), cut, true);
        Ok(())
    }

    fn damages(&self) -> Vec<Damage> {
        Vec::new()
    }

    async fn damage(&mut self, _number: usize) -> Result<(), Broken> {
        Err(Broken::new("there is no damage to do"))
    }
}
