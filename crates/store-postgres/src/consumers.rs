//! Consumers: rows that own delivery records. A consumer's row is its lock.

use crate::error::{Failed, invalid, position};
use crate::listen::Notice;
use crate::session::Session;
use confirmd_core::{ConsumerName, ConsumerSpec, ConsumerStart, ConsumerStatus, StoreError};
use std::sync::Arc;

/// Unread events counted for a status.
const UNREAD_COUNT_MAX: i64 = 10_000;

const LOCK: &str = "select id, chains, assets, began, cursor, paused, notices from consumer where name = $1 for no key update";
const FIND: &str = "select id, chains, assets, began, cursor, paused, notices from consumer where name = $1";
const ALL: &str = "select id, chains, assets, began, cursor, paused, notices, name from consumer order by name collate \"C\"";
const TAKE_BACK: &str = "update delivery set token = null, owner = null, lease_until = null where consumer = $1 and owner = $2";
const FILTER: &str = "update consumer set chains = $2, assets = $3, notices = $4 where id = $1";
const END: &str = "select m.next_position, coalesce((select min(position) from event), m.next_position) from meta m";
const CREATE: &str = "insert into consumer (name, chains, assets, began, cursor, notices) values ($1, $2, $3, $4, $4, $5)
on conflict (name) do nothing";
const COUNTS: &str =
    "select count(*) filter (where not given_up and state < 2), count(*) filter (where not given_up and state = 1),
    count(*) filter (where not given_up and state = 2), count(*) filter (where head = 2)
from (select state, given_up, first_value(state) over (partition by digest order by position) as head
    from delivery where consumer = $1) d";
const UNREAD: &str = "select count(*) from (select from event where position >= $1
    and (cardinality($2::text[]) = 0 or chain = any($2)) and (cardinality($3::text[]) = 0 or asset = any($3))
    and (notice is null or notice = any($5)) limit $4) as counted";
const PAUSE: &str = "update consumer set paused = $2 where id = $1";
const RENAME: &str = "update consumer set name = $2 where id = $1";
const DELETE: &str = "delete from consumer where id = $1";

/// A consumer's row.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: i32,
    pub(crate) chains: Vec<String>,
    pub(crate) assets: Vec<String>,
    pub(crate) began: i64,
    pub(crate) cursor: i64,
    pub(crate) paused: Option<String>,
    pub(crate) notices: Vec<String>,
}

impl Row {
    pub(crate) fn of(row: &tokio_postgres::Row) -> Self {
        Self {
            id: row.get(0),
            chains: row.get(1),
            assets: row.get(2),
            began: row.get(3),
            cursor: row.get(4),
            paused: row.get(5),
            notices: row.get(6),
        }
    }

    /// Whether an event is this consumer's.
    pub(crate) fn takes(&self, chain: &str, asset: &str, notice: Option<&str>) -> bool {
        (self.chains.is_empty() || self.chains.iter().any(|one| one == chain))
            && (self.assets.is_empty() || self.assets.iter().any(|one| one == asset))
            && notice.is_none_or(|notice| self.notices.iter().any(|one| one == notice))
    }
}

fn unknown(name: &ConsumerName) -> Failed {
    invalid(format!("there is no consumer {name} in this state; `confirmd status` shows those there are"))
}

/// The consumer's row, held until the transaction ends: nobody else claims or queues for it meanwhile.
pub(crate) async fn lock(session: &Session, name: &ConsumerName) -> Result<Row, Failed> {
    let row = session.query_opt(LOCK, &[&name.as_str()]).await?;
    row.as_ref().map(Row::of).ok_or_else(|| unknown(name))
}

/// The consumer's row, as it is.
pub(crate) async fn find(session: &Session, name: &ConsumerName) -> Result<Row, Failed> {
    let row = session.query_opt(FIND, &[&name.as_str()]).await?;
    row.as_ref().map(Row::of).ok_or_else(|| unknown(name))
}

/// Every consumer, by name.
pub(crate) async fn all(session: &Session) -> Result<Vec<(ConsumerName, Row)>, Failed> {
    let named = |row: &tokio_postgres::Row| {
        let name = ConsumerName::new(row.get::<_, String>(7));
        Ok((
            name.map_err(|_| crate::error::refused("a consumer's name in the database is none; put a backup back"))?,
            Row::of(row),
        ))
    };
    session.query(ALL, &[]).await?.iter().map(named).collect()
}

/// Makes a consumer known, or updates its filter; takes back what this instance had out.
pub(crate) async fn register(session: &Session, (spec, owner): &(ConsumerSpec, Arc<str>)) -> Result<(), Failed> {
    let chains: Vec<_> = spec.filter.chains.iter().map(|chain| chain.as_str().to_owned()).collect();
    let assets: Vec<_> = spec.filter.assets.iter().map(|asset| asset.as_str().to_owned()).collect();
    let notices: Vec<_> = spec.filter.notices.iter().map(|notice| notice.word().to_owned()).collect();
    let known = session.query_opt(LOCK, &[&spec.name.as_str()]).await?;
    if let Some(row) = known.as_ref().map(Row::of) {
        session.execute(TAKE_BACK, &[&row.id, &&**owner]).await?;
        if row.chains != chains || row.assets != assets || row.notices != notices {
            session.execute(FILTER, &[&row.id, &chains, &assets, &notices]).await?;
        }
        return Ok(());
    }
    let Some(ends) = session.query_opt(END, &[]).await? else {
        return Err(Failed::Told(crate::error::refused("the row of the table meta is gone; put a backup back")));
    };
    let (end, first): (i64, i64) = (ends.get(0), ends.get(1));
    let began = match spec.start {
        _ if end == 1 => end,
        Some(ConsumerStart::Now) => end,
        Some(ConsumerStart::Beginning) => first,
        None => {
            let name = &spec.name;
            return Err(invalid(format!(
                "the consumer {name} is new, and this state already holds events: set `start = \"now\"` (only what is decided from here on) \
                 or `start = \"beginning\"` (everything history holds) in [sinks.{name}]; if it is an old consumer under a new name, \
                 `confirmd consumer rename OLD {name}`"
            )));
        }
    };
    session.execute(CREATE, &[&spec.name.as_str(), &chains, &assets, &began, &notices]).await?;
    Ok(())
}

pub(crate) async fn statuses(session: &Session, (): &()) -> Result<Vec<ConsumerStatus>, Failed> {
    let mut statuses = Vec::new();
    for (name, row) in all(session).await? {
        statuses.push(status(session, name, row).await?);
    }
    Ok(statuses)
}

async fn status(session: &Session, name: ConsumerName, row: Row) -> Result<ConsumerStatus, Failed> {
    let counts = session.query_opt(COUNTS, &[&row.id]).await?;
    let count = |at: usize| counts.as_ref().map_or(0, |counts| crate::error::uint(counts.get(at)));
    let unread = session.query_opt(UNREAD, &[&row.cursor, &row.chains, &row.assets, &UNREAD_COUNT_MAX, &row.notices]).await?;
    let unread = unread.map_or(0, |row| crate::error::uint(row.get(0)));
    Ok(ConsumerStatus {
        name,
        paused: row.paused,
        cursor: position(row.cursor),
        waiting: count(0).saturating_add(unread),
        retrying: count(1),
        dead: count(2),
        blocked: count(3).saturating_sub(count(2)),
    })
}

pub(crate) async fn pause(session: &Session, (name, why, notice): &(ConsumerName, Option<String>, Notice)) -> Result<(), Failed> {
    let row = lock(session, name).await?;
    let why = why.as_deref().map(crate::error::text);
    if row.paused != why {
        session.execute(PAUSE, &[&row.id, &why]).await?;
        notice.deliveries(session).await?;
    }
    Ok(())
}

pub(crate) async fn rename(session: &Session, (from, to): &(ConsumerName, ConsumerName)) -> Result<(), Failed> {
    let row = lock(session, from).await?;
    if session.query_opt(LOCK, &[&to.as_str()]).await?.is_some() {
        return Err(Failed::Told(StoreError::Invalid(format!(
            "the consumer {to} has records of its own; purge them first (`confirmd consumer purge {to}`), or choose another name"
        ))));
    }
    session.execute(RENAME, &[&row.id, &to.as_str()]).await?;
    Ok(())
}

pub(crate) async fn purge(session: &Session, name: &ConsumerName) -> Result<u64, Failed> {
    let row = lock(session, name).await?;
    let id = row.id;
    let status = status(session, name.clone(), row).await?;
    session.execute(DELETE, &[&id]).await?;
    Ok(status.waiting.saturating_add(status.dead))
}
