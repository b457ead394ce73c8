//! `Sharing`: what lets several instances follow one chain without getting into each other's way.

use crate::chain;
use crate::error::{Failed, from_json, int, uint};
use crate::outbox::work;
use crate::session::Session;
use crate::store::PgStore;
use crate::work::Mode::{Read, Write};
use async_trait::async_trait;
use confirmd_core::{ChainId, ChangeSet, Sharing, StateVersion, StoreError, Turn};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

const SINCE: &str = "select version, changes from change where chain = $1 and version > $2 order by version";
const TAKE: &str = "insert into turn as t (chain, owner, until)
values ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
on conflict (chain) do update set owner = excluded.owner, until = excluded.until
where t.owner = excluded.owner or t.until <= clock_timestamp() returning chain";
const LEFT: &str = "select (extract(epoch from until - clock_timestamp()) * 1000)::bigint from turn where chain = $1";
const PASS: &str = "delete from turn where chain = $1 and owner = $2";

/// `None` if what is asked for is not kept any more.
async fn since(session: &Session, (id, version): &(ChainId, u64)) -> Result<Option<Vec<ChangeSet>>, Failed> {
    let Some(found) = chain::find(session, id, false).await? else { return Ok(Some(Vec::new())) };
    let mut sets = Vec::new();
    let mut base = *version;
    for row in session.query(SINCE, &[&found.number, &int(*version)]).await? {
        if uint(row.get(0)) != base.saturating_add(1) {
            return Ok(None);
        }
        let mut set = ChangeSet::new(id.clone(), StateVersion(base));
        set.changes = from_json(row.get(1), "a change set")?;
        sets.push(set);
        base = base.saturating_add(1);
    }
    Ok((StateVersion(base) == found.version).then_some(sets))
}

async fn take(session: &Session, (chain, owner, hold): &(ChainId, Arc<str>, f64)) -> Result<Turn, Failed> {
    if session.query_opt(TAKE, &[&chain.as_str(), &&**owner, hold]).await?.is_some() {
        return Ok(Turn::Ours);
    }
    let left = session.query_opt(LEFT, &[&chain.as_str()]).await?.map_or(0, |row| row.get::<_, i64>(0));
    Ok(Turn::Theirs { left: Duration::from_millis(uint(left)) })
}

async fn pass(session: &Session, (chain, owner): &(ChainId, Arc<str>)) -> Result<(), Failed> {
    session.execute(PASS, &[&chain.as_str(), &&**owner]).await?;
    Ok(())
}

#[async_trait]
impl Sharing for PgStore {
    async fn changes_since(&self, chain: &ChainId, version: StateVersion) -> Result<Option<Vec<ChangeSet>>, StoreError> {
        let hold = self.inner.chain_gate(chain).read_owned().await;
        let args = (chain.clone(), version.0);
        self.inner.worker.run("catching up with other instances", Read, hold, args, work!(since)).await
    }

    async fn turn(&self, chain: &ChainId, hold: Duration) -> Result<Turn, StoreError> {
        let hold = f64::from(u32::try_from(hold.as_millis()).unwrap_or(u32::MAX));
        let args = (chain.clone(), Arc::clone(&self.inner.notice.owner), hold);
        self.inner.run("taking a turn", Write, args, work!(take)).await
    }

    async fn pass(&self, chain: &ChainId) -> Result<(), StoreError> {
        let args = (chain.clone(), Arc::clone(&self.inner.notice.owner));
        self.inner.run("passing a turn on", Write, args, work!(pass)).await
    }

    async fn changed(&self, chain: &ChainId) {
        self.inner.ears.of_chain(chain).notified().await;
    }
}
