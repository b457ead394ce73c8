//! What a server may say to a commit with an effect, each provoked for real: the commit waits and passes, and decides and credits once.

use crate::cuts::{EFFECT, chain, confirm};
use crate::kills::{Own, trial};
use crate::postgres::Postgres;
use crate::rig::server_at;
use anyhow::{Context, Result, ensure};
use confirmd_core::StateStore;
use confirmd_postgres::Schema;
use confirmd_store_postgres::{PgOptions, PgStore};
use libtest_mimic::Trial;
use std::time::Duration;

/// A commit that waits for so long waits for us.
const WAITS: Duration = Duration::from_millis(700);
/// Of the file system that gets full: some hundred events.
const SMALL: u64 = 600 * 1024;

pub(crate) fn trials() -> Vec<Trial> {
    let full = trial("g5_a_disk_that_is_full_holds_a_commit_until_there_is_room_and_it_is_decided_once", full);
    let full = match Postgres::can_mount() {
        true => full,
        false => full.with_kind("a small file system can't be mounted: run as root").with_ignored_flag(true),
    };
    vec![
        trial("g5_what_passes_by_itself_is_tried_again_and_decides_and_credits_once", passing),
        trial("g5_a_statement_beyond_its_time_is_tried_again_and_decides_and_credits_once", slow),
        trial("g5_a_server_that_only_reads_holds_a_commit_until_it_writes_again", read_only),
        trial("g5_a_replica_that_takes_over_has_every_decision_and_the_rest_is_decided_there", failover),
        full,
    ]
}

/// The effect raises this, the first three times it is tried.
fn raises(what: &str) -> String {
    format!(
        "drop sequence if exists effect.tries; create sequence effect.tries;
         create or replace function effect.post(event text) returns void language plpgsql as $$
         begin
             if nextval('effect.tries') <= 3 then {what}; end if;
             insert into effect.posting values (event);
         end $$"
    )
}

async fn passing() -> Result<()> {
    let own = Own::new(Postgres::start_with(&[]).await?).await?;
    let store = own.store(Duration::from_secs(10), |_| {}).await?;
    let codes = ["40001", "40P01", "53100", "53200", "53300", "57014", "57P01", "55P03", "25006", "58030", "08006", "XX000"];
    let mut version = 0;
    for code in codes {
        own.sql(&raises(&format!("raise exception 'provoked' using errcode = '{code}'"))).await?;
        store.commit(confirm(&store, version, version + 1)?).await.with_context(|| code)?;
        version += 1;
        own.ensure_once(version).await.with_context(|| code)?;
    }
    Ok(())
}

async fn slow() -> Result<()> {
    let own = Own::new(Postgres::start_with(&[]).await?).await?;
    let store = own.store(Duration::from_millis(300), |_| {}).await?;
    own.sql(&raises("perform pg_sleep(60)")).await?;
    store.commit(confirm(&store, 0, 1)?).await?;
    own.ensure_once(1).await
}

async fn read_only() -> Result<()> {
    let own = Own::new(Postgres::start_with(&[]).await?).await?;
    let store = own.store(Duration::from_secs(10), |_| {}).await?;
    store.commit(confirm(&store, 0, 1)?).await?;
    own.sql("alter database postgres set default_transaction_read_only = on").await?;
    own.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'own'").await?;
    let mut commit = std::pin::pin!(store.commit(confirm(&store, 1, 2)?));
    let early = tokio::time::timeout(WAITS, commit.as_mut()).await;
    ensure!(early.is_err(), "a server that only reads took it: {early:?}");
    own.sql("set transaction read write; alter database postgres reset default_transaction_read_only").await?;
    commit.await?;
    own.ensure_once(2).await
}

async fn failover() -> Result<()> {
    let own = Own::new(Postgres::start_with(&["max_wal_senders=4"]).await?).await?;
    let Own { mut cluster, proxy, folder } = own;
    let standby = cluster.standby().await?;
    let url = format!(
        "postgres://{}@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        Postgres::SUPERUSER.0,
        cluster.port(),
        standby.port()
    );
    let schema = Schema::try_from("shared".to_owned()).map_err(anyhow::Error::msg)?;
    let options = PgOptions { init: true, on_event: Some(EFFECT.into()), ..PgOptions::new(schema) };
    let store = PgStore::open(server_at(&url, Duration::from_secs(10), folder.path(), "own")?, options).await?;
    for version in 0..5 {
        store.commit(confirm(&store, version, version + 1)?).await?;
    }
    let mut commit = std::pin::pin!(store.commit(confirm(&store, 5, 6)?));
    // Somewhere within it.
    let early = tokio::time::timeout(Duration::from_millis(2), commit.as_mut()).await;
    cluster.kill()?;
    // Its answer may be on the way; else it waits, since a replica that only reads takes nothing.
    let early = match early {
        Ok(done) => Ok(done),
        Err(_) => tokio::time::timeout(WAITS, commit.as_mut()).await,
    };
    standby.promote().await?;
    match early {
        Ok(done) => done?,
        Err(_) => commit.await?,
    };
    for version in 6..10 {
        store.commit(confirm(&store, version, version + 1)?).await?;
    }
    let held = store.load(&chain()).await?.context("a state")?;
    ensure!(held.reported.len() == 10, "{} are reported", held.reported.len());
    Own { cluster: standby, proxy, folder }.ensure_once(10).await
}

async fn full() -> Result<()> {
    let own = Own::new(Postgres::start_with_small_disk(SMALL, &[]).await?).await?;
    let store = own.store(Duration::from_secs(10), |_| {}).await?;
    own.sql(&format!("create tablespace small location '{}'", own.cluster.small_folder().display())).await?;
    own.sql("alter table shared.event set tablespace small").await?;
    let mut version = 0;
    loop {
        ensure!(version < 5_000, "the disk is never full");
        let mut commit = std::pin::pin!(store.commit(confirm(&store, version, version + 1)?));
        version += 1;
        match tokio::time::timeout(Duration::from_secs(2), commit.as_mut()).await {
            Ok(committed) => drop(committed?),
            Err(_) => {
                ensure!(own.cluster.log().contains("No space left on device"), "something else holds it: {}", own.cluster.log());
                own.ensure_once(version - 1).await?;
                own.sql("alter table shared.event set tablespace pg_default").await?;
                commit.await?;
                break;
            }
        }
    }
    store.commit(confirm(&store, version, version + 1)?).await?;
    own.ensure_once(version + 1).await
}
