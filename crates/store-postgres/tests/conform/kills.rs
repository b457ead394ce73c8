//! The server itself is killed at every statement of a commit that carries the operator's own effect, and comes back; or another one
//! takes its place.

use crate::cuts::{EFFECT, MESSAGES_MAX, OPERATOR, chain, confirm};
use crate::postgres::Postgres;
use crate::rig::server_within;
use crate::wire_proxy::{At, Cut, WireProxy};
use anyhow::{Context, Result, ensure};
use confirmd_core::{StateStore, StateVersion};
use confirmd_postgres::Schema;
use confirmd_store_postgres::{PgOptions, PgStore};
use libtest_mimic::{Failed, Trial};
use std::future::Future;
use std::time::Duration;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("g5_a_server_killed_before_any_statement_of_a_commit_decides_and_credits_once", before),
        trial("g5_a_connection_that_falls_silent_at_any_statement_of_a_commit_decides_and_credits_once", silent),
        trial("g11_an_instance_that_stops_within_a_commit_holds_others_up_for_seconds_at_most", stopped),
        trial("g5_a_server_killed_after_any_statement_of_a_commit_decides_and_credits_once", after),
    ]
}

/// A trial whose clusters live and end on its own thread.
pub(crate) fn trial<F: Future<Output = Result<()>> + 'static>(name: &str, run: fn() -> F) -> Trial {
    Trial::test(format!("store_postgres::{name}"), move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(run()).map_err(|error: anyhow::Error| Failed::from(format!("{error:#}")))
    })
}

/// A cluster of the trial's own with the operator's effect in it, behind a proxy.
pub(crate) struct Own {
    pub(crate) cluster: Postgres,
    pub(crate) proxy: WireProxy,
    pub(crate) folder: tempfile::TempDir,
}

impl Own {
    pub(crate) async fn new(cluster: Postgres) -> Result<Self> {
        let proxy = WireProxy::start(cluster.port()).await?;
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("password"), Postgres::SUPERUSER.1)?;
        cluster.admin("postgres").await?.batch_execute(OPERATOR).await?;
        Ok(Self { cluster, proxy, folder })
    }

    /// The store of the schema `shared`, with the effect.
    pub(crate) async fn store(&self, limit: Duration, change: impl FnOnce(&mut PgOptions)) -> Result<PgStore> {
        let schema = Schema::try_from("shared".to_owned()).map_err(anyhow::Error::msg)?;
        let mut options = PgOptions { init: true, on_event: Some(EFFECT.into()), ..PgOptions::new(schema) };
        change(&mut options);
        let server = server_within(limit, Postgres::SUPERUSER.0, self.proxy.port(), self.folder.path(), "own")?;
        Ok(PgStore::open(server, options).await?)
    }

    pub(crate) async fn sql(&self, sql: &str) -> Result<()> {
        self.cluster.admin("postgres").await?.batch_execute(sql).await.with_context(|| sql.to_owned())
    }

    /// How often the effect of each event happened, and events on record.
    pub(crate) async fn ensure_once(&self, events: u64) -> Result<()> {
        let ask = "select (select count(*) from effect.posting), (select count(distinct event) from effect.posting),
            (select count(*) from shared.event)";
        let row = self.cluster.admin("postgres").await?.query_one(ask, &[]).await?;
        let counts = [row.get::<_, i64>(0), row.get(1), row.get(2)];
        ensure!(
            counts.iter().all(|count| u64::try_from(*count) == Ok(events)),
            "{counts:?} of {events}: effects, distinct, events"
        );
        Ok(())
    }
}

async fn before() -> Result<()> {
    everywhere(Cut::Before).await
}

async fn after() -> Result<()> {
    everywhere(Cut::After).await
}

async fn everywhere(cut: Cut) -> Result<()> {
    let mut own = Own::new(Postgres::start_with(&[]).await?).await?;
    let store = own.store(Duration::from_secs(10), |_| {}).await?;
    // Prepares everything once.
    store.commit(confirm(&store, 0, 1)?).await?;
    let mut version = 1;
    let mut statements = 0;
    for statement in 1..MESSAGES_MAX {
        own.proxy.cut_and(At::Statement(statement), cut, own.cluster.killer()?);
        let set = confirm(&store, version, version + 1)?;
        let mut commit = std::pin::pin!(store.commit(set));
        let mut receipt = None;
        while receipt.is_none() && own.proxy.cuts() == 0 {
            tokio::select! {
                done = commit.as_mut() => receipt = Some(done),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
        let killed = own.proxy.cuts() > 0;
        if killed {
            own.cluster.start_after_kill().await?;
        }
        let receipt = match receipt {
            Some(receipt) => receipt,
            None => commit.await,
        };
        own.proxy.repair();
        let receipt = receipt.with_context(|| format!("killed {cut:?} statement {statement}"))?;
        version += 1;
        ensure!(receipt.version == StateVersion(version), "{receipt:?} at statement {statement}");
        own.ensure_once(version).await.with_context(|| format!("killed {cut:?} statement {statement}"))?;
        if !killed {
            break;
        }
        statements = statement;
    }
    ensure!(statements > 10, "only {statements} statements were seen");
    eprintln!("the server was killed {cut:?} each of the {statements} statements of a commit");
    let held = store.load(&chain()).await?.context("a state")?;
    ensure!(u64::try_from(held.reported.len())? == version, "{} are reported of {version}", held.reported.len());
    Ok(())
}

/// Nothing is lost and nothing is closed: packets go nowhere.
async fn silent() -> Result<()> {
    let own = Own::new(Postgres::start_with(&[]).await?).await?;
    let store = own.store(Duration::from_millis(250), |_| {}).await?;
    store.commit(confirm(&store, 0, 1)?).await?;
    let mut version = 1;
    for cut in [Cut::SilenceBefore, Cut::SilenceAfter] {
        for statement in 1..MESSAGES_MAX {
            own.proxy.cut(At::Statement(statement), cut, false);
            let committed = store.commit(confirm(&store, version, version + 1)?).await;
            let cuts = own.proxy.cuts();
            own.proxy.repair();
            committed.with_context(|| format!("{cut:?} at statement {statement}"))?;
            version += 1;
            own.ensure_once(version).await.with_context(|| format!("{cut:?} at statement {statement}"))?;
            if cuts == 0 {
                ensure!(statement > 10, "only {statement} statements were seen");
                break;
            }
        }
    }
    Ok(())
}

/// One instance stands still in the middle of a commit, as by SIGSTOP; its server sees an open session that holds locks.
async fn stopped() -> Result<()> {
    let own = Own::new(Postgres::start_with(&[]).await?).await?;
    let one = own.store(Duration::from_secs(30), |_| {}).await?;
    let two = own.store(Duration::from_secs(30), |_| {}).await?;
    one.commit(confirm(&one, 0, 1)?).await?;
    // Behind the lock of the chain's row and that of the counter.
    own.proxy.cut(At::Statement(12), Cut::SilenceAfter, false);
    let mut stuck = std::pin::pin!(one.commit(confirm(&one, 1, 2)?));
    while own.proxy.cuts() == 0 {
        ensure!(tokio::time::timeout(Duration::from_millis(2), stuck.as_mut()).await.is_err(), "it never stood still");
    }
    own.proxy.repair();
    let began = std::time::Instant::now();
    two.commit(confirm(&two, 1, 3)?).await?;
    ensure!(began.elapsed() < Duration::from_secs(12), "held up for {:?}", began.elapsed());
    own.ensure_once(2).await
}
