//! A server without notifications and advisory locks, as distributed engines that speak PostgreSQL's protocol may be: instances look at
//! the clock instead.

use crate::cuts::{chain, confirm};
use crate::kills::{Own, trial};
use crate::postgres::Postgres;
use crate::rig::server_within;
use anyhow::{Context, Result, ensure};
use confirmd_core::{ConsumerFilter, ConsumerName, ConsumerSpec, Outbox, Sharing, StateStore, Timestamp};
use confirmd_postgres::Schema;
use confirmd_store_postgres::{PgOptions, PgStore};
use libtest_mimic::Trial;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("g11_without_notifications_and_advisory_locks_instances_look_by_themselves", quiet)]
}

async fn quiet() -> Result<()> {
    let own = Own::new(Postgres::start_with(&[]).await?).await?;
    let weak = format!("create role weak login password '{}'; grant create on database postgres to weak", Postgres::SUPERUSER.1);
    own.sql(&weak).await?;
    own.sql("revoke execute on function pg_notify(text, text), pg_advisory_xact_lock(bigint) from public").await?;
    let open = || async {
        let schema = Schema::try_from("quiet".to_owned()).map_err(anyhow::Error::msg)?;
        let server = server_within(Duration::from_secs(10), "weak", own.proxy.port(), own.folder.path(), "own")?;
        Ok::<_, anyhow::Error>(PgStore::open(server, PgOptions { init: true, ..PgOptions::new(schema) }).await?)
    };
    let (one, two) = tokio::try_join!(open(), open())?;
    ensure!(one.identity() == two.identity(), "two stores in one schema");
    let name = ConsumerName::new("ledger")?;
    one.register(&ConsumerSpec { name: name.clone(), filter: ConsumerFilter::default(), start: None }).await?;
    let wake = Arc::new(Notify::new());
    two.wake_on_events(Arc::clone(&wake));
    for version in 0..3 {
        let (id, woken) = (chain(), wake.notified());
        // What was said of the round before is heard first.
        let heard = two.changed(&id);
        one.commit(confirm(&one, version, version + 1)?).await?;
        // Twice the longest wait between two looks.
        tokio::time::timeout(Duration::from_secs(8), async { tokio::join!(heard, woken) }).await.context("nobody looked")?;
    }
    let due = two.due(&name, Timestamp(1), 10).await?;
    ensure!(due.len() == 3 && one.due(&name, Timestamp(1), 10).await?.is_empty(), "{due:?}");
    let sets = two.changes_since(&chain(), confirmd_core::StateVersion(0)).await?.context("the change sets are kept")?;
    ensure!(sets.len() == 3, "{} change sets", sets.len());
    Ok(())
}
