//! Retention: forgets what ended long ago and nobody waits for, a little at a time. Sequences and settled keys are never touched.

use crate::error::Failed;
use crate::session::Session;

/// Events and deposits looked at in one transaction.
const TURN: i64 = 5_000;

/// Cursors first: whoever moves one meanwhile waits, and finds it expired.
const EXPIRE: &str = "update reader set expired = true where used_at < $1 and not expired returning name";
const REORGS: &str = "delete from reorg where at < $1";
/// Consumers are locked against claims: none reads past an event that goes.
const CONSUMERS: &str = "select id from consumer order by id for share";
const EVENTS: &str = "with old as materialized (
    select position, digest from event where position > $2 and decided_at < $1 order by position limit $3
), gone as (
    delete from event e using old where e.position = old.position
        and not exists (select from reader r where not r.expired and r.after < e.position)
        and not exists (select from consumer c where c.cursor <= e.position)
        and not exists (select from delivery d where d.position = e.position)
        and not exists (select from held h where h.digest = e.digest)
    returning e.position
), attempts as (
    delete from attempt a using gone where a.position = gone.position returning 1
), skipped as (
    delete from skipped s using gone where s.position = gone.position returning 1
)
select (select count(*) from gone), (select max(position) from old), (select count(*) from attempts), (select count(*) from skipped)";
const DEPOSITS: &str = "with gone as (
    delete from deposit where digest in (
        select digest from deposit d where d.changed_at < $1 and d.state in (3, 4, 5, 6)
            and not exists (select from held h where h.digest = d.digest)
            and not exists (select from reader r where not r.expired and r.after < d.event)
            and not exists (select from consumer c where c.cursor <= d.event)
            and not exists (select from delivery o where o.position = d.event)
        limit $2)
    returning digest
), steps as (
    delete from life l using gone where l.digest = gone.digest returning 1
)
select (select count(*) from gone), (select count(*) from steps)";

/// Expires what was not used for long, and forgets old reorgs.
pub(crate) async fn expire(session: &Session, before: &i64) -> Result<(), Failed> {
    for row in session.query(EXPIRE, &[before]).await? {
        let cursor: String = row.get(0);
        tracing::warn!(cursor, "a reader's cursor was idle for longer than history and has expired");
    }
    session.execute(REORGS, &[before]).await?;
    Ok(())
}

/// One turn behind a position: how many went, and where the next turn begins, if there is one.
pub(crate) async fn events(session: &Session, (before, after): &(i64, i64)) -> Result<(u64, Option<i64>), Failed> {
    session.query(CONSUMERS, &[]).await?;
    let Some(row) = session.query_opt(EVENTS, &[before, after, &TURN]).await? else { return Ok((0, None)) };
    Ok((crate::error::uint(row.get(0)), row.get(1)))
}

/// One turn; whether there may be more.
pub(crate) async fn deposits(session: &Session, before: &i64) -> Result<bool, Failed> {
    let gone = session.query_opt(DEPOSITS, &[before, &TURN]).await?;
    Ok(gone.is_some_and(|row| row.get::<_, i64>(0) >= TURN))
}
