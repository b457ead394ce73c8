//! `History`: the read model for people.

use crate::deposits::state_number;
use crate::error::{Failed, from_json, int, invalid, limit as rows, position, text, time, uint};
use crate::outbox::work;
use crate::prune;
use crate::session::Session;
use crate::store::PgStore;
use crate::work::Mode::{Read, Write};
use async_trait::async_trait;
use confirmd_core::{
    CURSORS_MAX, ChainId, CursorName, DepositFilter, DepositKey, DepositRecord, EventId, EventRecord, History, KeyDigest,
    LifeStep, Position, PullCursor, ReorgRecord, StoreError, Timestamp,
};
use futures::future::BoxFuture;

/// Records in one page, whatever was asked for.
const PAGE_MAX: usize = 1_000;

const EVENT: &str = "select position, record, body from event where id = $1";
const EVENTS: &str = "select position, record, body from event where position > $1 order by position limit $2";
const LIFE: &str = "select step from life where digest = $1 order by version, number limit 1000";
const REORGS: &str =
    "select r.record from reorg r join chain c on c.id = r.chain where c.chain = $1 order by r.version desc limit $2";
const CURSORS: &str = "select name, after, used_at, expired from reader order by name collate \"C\"";
const MOVE_CURSOR: &str = "update reader set after = $2, used_at = $3, expired = $4 where name = $1";
/// New readers come one after the other. A lock of the table would do as well, but not every engine that speaks PostgreSQL's protocol has one.
const LOCK_READERS: &str = "select one from meta for update";
const COUNT_OTHERS: &str = "select count(*) from reader where name <> $1";
const PUT_CURSOR: &str = "insert into reader (name, after, used_at, expired) values ($1, $2, $3, $4)
on conflict (name) do update set after = excluded.after, used_at = excluded.used_at, expired = excluded.expired";
const REMOVE_CURSOR: &str = "delete from reader where name = $1";
const DEPOSITS: &str = "select record from deposit
where ($1::text is null or chain = $1) and ($2::text is null or address = $2) and ($3::text is null or reference = $3)
    and ($4::smallint is null or state = $4) and ($5::text is null or tx_id = $5) and ($6::bigint is null or output_index = $6)
    and ($7::text is null or asset = $7 or symbol = $7) and seen_at >= $8 and ($9::bigint is null or seen_at < $9)
    and ($10::bigint is null or (seen_at, digest) < ($10, $11))
order by seen_at desc, digest desc limit $12";

type DepositPage = (DepositFilter, Option<DepositRecord>, usize);

async fn deposits(session: &Session, (filter, after, limit): &DepositPage) -> Result<Vec<DepositRecord>, Failed> {
    let chain = filter.chain.as_ref().map(ChainId::as_str);
    let address = filter.address.as_deref().map(text);
    let reference = filter.reference.as_deref().map(text);
    let state = filter.state.map(state_number);
    let tx_id = filter.tx_id.as_deref().map(text);
    let output_index = filter.output_index.map(i64::from);
    let asset = filter.asset.as_deref().map(text);
    let from = filter.seen_from.map_or(0, |from| int(from.0));
    let before = filter.seen_before.map(|before| int(before.0));
    let last = after.as_ref().map(|last| int(last.seen_at.0));
    let last_digest = after.as_ref().map(|last| KeyDigest::of(&last.chain, &last.key).0.to_vec());
    let limit = rows((*limit).min(PAGE_MAX));
    let found = session
        .query(
            DEPOSITS,
            &[&chain, &address, &reference, &state, &tx_id, &output_index, &asset, &from, &before, &last, &last_digest, &limit],
        )
        .await?;
    found.iter().map(|row| Ok(from_json(row.get(0), "a deposit")?)).collect()
}

fn record(row: &tokio_postgres::Row) -> Result<EventRecord, Failed> {
    let body = row.get::<_, &[u8]>(2).into();
    Ok(EventRecord { position: position(row.get(0)), event: from_json(row.get(1), "an event")?, body })
}

async fn event(session: &Session, id: &EventId) -> Result<Option<EventRecord>, Failed> {
    session.query_opt(EVENT, &[&id.as_str()]).await?.as_ref().map(record).transpose()
}

async fn events(session: &Session, (after, limit): &(Position, usize)) -> Result<Vec<EventRecord>, Failed> {
    let found = session.query(EVENTS, &[&int(after.0), &rows((*limit).min(PAGE_MAX))]).await?;
    found.iter().map(record).collect()
}

async fn life(session: &Session, digest: &KeyDigest) -> Result<Vec<LifeStep>, Failed> {
    let found = session.query(LIFE, &[&digest.0.to_vec()]).await?;
    found.iter().map(|row| Ok(from_json(row.get(0), "a step of a deposit's life")?)).collect()
}

async fn reorgs(session: &Session, (chain, limit): &(ChainId, usize)) -> Result<Vec<ReorgRecord>, Failed> {
    let found = session.query(REORGS, &[&chain.as_str(), &rows((*limit).min(PAGE_MAX))]).await?;
    found.iter().map(|row| Ok(from_json(row.get(0), "a reorg")?)).collect()
}

/// Every reader's cursor, by name.
pub(crate) async fn cursors(session: &Session, (): &()) -> Result<Vec<PullCursor>, Failed> {
    let cursor = |row: &tokio_postgres::Row| {
        let name = CursorName::new(row.get::<_, String>(0));
        let name = name.map_err(|_| crate::error::refused("a cursor's name in the database is none; remove the row"))?;
        Ok(PullCursor { name, after: position(row.get(1)), used_at: time(row.get(2)), expired: row.get(3) })
    };
    session.query(CURSORS, &[]).await?.iter().map(cursor).collect()
}

async fn put_cursor(session: &Session, cursor: &PullCursor) -> Result<(), Failed> {
    let (after, used_at) = (int(cursor.after.0), int(cursor.used_at.0));
    let columns: crate::session::Params<'_> = &[&cursor.name.as_str(), &after, &used_at, &cursor.expired];
    if session.execute(MOVE_CURSOR, columns).await? > 0 {
        return Ok(());
    }
    session.query(LOCK_READERS, &[]).await?;
    let known = session.query_opt(COUNT_OTHERS, &[&cursor.name.as_str()]).await?.map_or(0, |row| uint(row.get(0)));
    if known >= u64::try_from(CURSORS_MAX).unwrap_or(u64::MAX) {
        return Err(invalid(format!("there are {CURSORS_MAX} cursors already; remove one first")));
    }
    session.execute(PUT_CURSOR, columns).await?;
    Ok(())
}

async fn remove_cursor(session: &Session, name: &CursorName) -> Result<bool, Failed> {
    Ok(session.execute(REMOVE_CURSOR, &[&name.as_str()]).await? > 0)
}

#[async_trait]
impl History for PgStore {
    async fn deposits(
        &self,
        filter: &DepositFilter,
        after: Option<&DepositRecord>,
        limit: usize,
    ) -> Result<Vec<DepositRecord>, StoreError> {
        let args = (filter.clone(), after.cloned(), limit);
        self.inner.run("listing deposits", Read, args, work!(deposits)).await
    }

    async fn event(&self, id: &EventId) -> Result<Option<EventRecord>, StoreError> {
        self.inner.run("reading an event", Read, id.clone(), work!(event)).await
    }

    async fn events(&self, after: Position, limit: usize) -> Result<Vec<EventRecord>, StoreError> {
        self.inner.run("reading events", Read, (after, limit), work!(events)).await
    }

    async fn life(&self, chain: &ChainId, key: &DepositKey) -> Result<Vec<LifeStep>, StoreError> {
        self.inner.run("reading a deposit's life", Read, KeyDigest::of(chain, key), work!(life)).await
    }

    async fn reorgs(&self, chain: &ChainId, limit: usize) -> Result<Vec<ReorgRecord>, StoreError> {
        self.inner.run("reading reorgs", Read, (chain.clone(), limit), work!(reorgs)).await
    }

    async fn cursors(&self) -> Result<Vec<PullCursor>, StoreError> {
        self.inner.run("reading cursors", Read, (), work!(cursors)).await
    }

    async fn put_cursor(&self, cursor: &PullCursor) -> Result<(), StoreError> {
        self.inner.run("writing a cursor down", Write, cursor.clone(), work!(put_cursor)).await
    }

    async fn remove_cursor(&self, name: &CursorName) -> Result<bool, StoreError> {
        self.inner.run("removing a cursor", Write, name.clone(), work!(remove_cursor)).await
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        let before = int(before.0);
        let mut events = 0_u64;
        self.inner.run("expiring cursors", Write, before, work!(prune::expire)).await?;
        // A little at a time, from the oldest on; what stays is passed over.
        let mut from = Some(-1);
        while let Some(after) = from {
            let (removed, next) = self.inner.run("forgetting old events", Write, (before, after), work!(prune::events)).await?;
            events = events.saturating_add(removed);
            from = next;
        }
        while self.inner.run("forgetting old deposits", Write, before, work!(prune::deposits)).await? {}
        Ok(events)
    }
}
