//! Deliveries as an operator sees them.

use crate::consumers::{all, find};
use crate::error::{Failed, from_json, int, limit as rows, position, time};
use crate::session::Session;
use confirmd_core::{
    Attempt, ConsumerName, DELIVERED_LOOK_MAX, DeliveredPage, DeliveryFilter, DeliveryRecord, DeliveryState, Event, EventId,
    Position,
};

/// Records in one page, whatever was asked for.
const PAGE_MAX: usize = 1_000;
/// Unread events looked at for one page.
const UNREAD_SCAN_MAX: i64 = 10_000;

/// `$1` consumer, `$2` above this position, `$3` cursor, `$4` began, `$5` chains, `$6` assets, `$7` event id or none,
/// `$8` state or none, `$9` limit, `$10` unread events looked at, `$11` informative events it asks for.
const LIST: &str = "with open as materialized (
    select * from (select position, state, due_at, attempts, given_up,
            first_value(position) over key as head, first_value(state) over key as head_state
        from delivery where consumer = $1 window key as (partition by digest order by position)) d
    where not given_up and position > $2
), candidates as (
    select position from open where $7::text is null
    union select position from skipped where consumer = $1 and position > $2 and $7::text is null
    union (select position from event where position >= greatest($3, $2 + 1) and $7::text is null
        and (cardinality($5::text[]) = 0 or chain = any($5)) and (cardinality($6::text[]) = 0 or asset = any($6))
        and (notice is null or notice = any($11)) order by position limit $10)
    union select position from event where id = $7 and position > $2
), seen as (
    select e.position, e.record, o.position is not null as is_open, o.due_at, o.attempts, s.attempts as skipped_attempts,
        case when o.state = 2 then 4
            when o.position is not null and o.head <> o.position and o.head_state = 2 then 5
            when o.state = 1 then 2 when o.state = 0 then 1
            when s.position is not null then 6
            when e.position < $4 or not ((cardinality($5::text[]) = 0 or e.chain = any($5))
                and (cardinality($6::text[]) = 0 or e.asset = any($6))
                and (e.notice is null or e.notice = any($11))) then 0
            when e.position >= $3 then 1 else 3 end as shown,
        case when o.head <> o.position and o.head_state = 2 then o.head end as blocked_by
    from candidates c join event e on e.position = c.position
    left join open o on o.position = e.position
    left join skipped s on s.consumer = $1 and s.position = e.position
)
select seen.position, seen.record, seen.is_open, seen.due_at, seen.attempts, seen.skipped_attempts, seen.shown, b.id,
    (select attempt from attempt a where a.consumer = $1 and a.position = seen.position order by ever desc limit 1)
from seen left join event b on b.position = seen.blocked_by
where seen.shown > 0 and ($8::integer is null or seen.shown = $8)
order by seen.position limit $9";
/// `$1` from, `$2` below, `$3` at most: how many events lie there, and where the lowest of them is.
const SPAN: &str = "select count(*), min(position) from (select position from event where position >= $1 and position < $2
    order by position desc limit $3) as looked_at";
/// `$1` consumer, `$2` from, `$3` below, `$4` chains, `$5` assets, `$6` limit, `$7` informative events it asks for.
const DELIVERED: &str = "select position, record,
    (select attempt from attempt a where a.consumer = $1 and a.position = event.position order by ever desc limit 1)
from event where position >= $2 and position < $3
    and (cardinality($4::text[]) = 0 or chain = any($4)) and (cardinality($5::text[]) = 0 or asset = any($5))
    and (notice is null or notice = any($7))
    and not exists (select from delivery d where d.consumer = $1 and d.position = event.position and not d.given_up)
    and not exists (select from skipped s where s.consumer = $1 and s.position = event.position)
order by position desc limit $6";
const ATTEMPTS: &str = "select attempt from attempt where consumer = $1 and position = $2 order by ever";

/// What is asked for: filter, behind which record, how many.
pub(crate) type Page = (DeliveryFilter, Option<(ConsumerName, Position)>, usize);

fn number(state: DeliveryState) -> i32 {
    match state {
        DeliveryState::Queued => 1,
        DeliveryState::Retrying => 2,
        DeliveryState::Delivered => 3,
        DeliveryState::Dead => 4,
        DeliveryState::Blocked => 5,
        DeliveryState::Skipped => 6,
    }
}

fn state(number: i32) -> DeliveryState {
    match number {
        2 => DeliveryState::Retrying,
        3 => DeliveryState::Delivered,
        4 => DeliveryState::Dead,
        5 => DeliveryState::Blocked,
        6 => DeliveryState::Skipped,
        _ => DeliveryState::Queued,
    }
}

pub(crate) async fn list(session: &Session, (filter, after, limit): &Page) -> Result<Vec<DeliveryRecord>, Failed> {
    let limit = (*limit).min(PAGE_MAX);
    let mut records = Vec::new();
    for (name, row) in all(session).await? {
        let above = match after {
            Some((last, _)) if name < *last => continue,
            Some((last, position)) if name == *last => int(position.0),
            _ => -1,
        };
        if filter.consumer.as_ref().is_some_and(|wanted| *wanted != name) || records.len() >= limit {
            continue;
        }
        let left = rows(limit - records.len());
        let (event, wanted) = (filter.event.as_ref().map(EventId::as_str), filter.state.map(number));
        let found = session
            .query(
                LIST,
                &[
                    &row.id,
                    &above,
                    &row.cursor,
                    &row.began,
                    &row.chains,
                    &row.assets,
                    &event,
                    &wanted,
                    &left,
                    &UNREAD_SCAN_MAX,
                    &row.notices,
                ],
            )
            .await?;
        for found in &found {
            records.push(record(&name, found)?);
        }
    }
    Ok(records)
}

/// What is asked for: whose, below which place, how many.
pub(crate) type DeliveredAsked = (ConsumerName, Option<Position>, usize);

pub(crate) async fn delivered(session: &Session, (name, below, limit): &DeliveredAsked) -> Result<DeliveredPage, Failed> {
    let row = find(session, name).await?;
    let limit = (*limit).clamp(1, PAGE_MAX);
    let end = below.map_or(row.cursor, |below| int(below.0).min(row.cursor));
    let span = session.query(SPAN, &[&row.began, &end, &rows(DELIVERED_LOOK_MAX)]).await?;
    let lowest = span.first().and_then(|span| Some((span.get::<_, i64>(0), span.get::<_, Option<i64>>(1)?)));
    let Some((looked_at, lowest)) = lowest else { return Ok(DeliveredPage::default()) };
    let asked: crate::session::Params<'_> = &[&row.id, &lowest, &end, &row.chains, &row.assets, &rows(limit), &row.notices];
    let found = session.query(DELIVERED, asked).await?;
    let records: Vec<DeliveryRecord> = found.iter().map(|row| of_delivered(name, row)).collect::<Result<_, _>>()?;
    let below = match records.last() {
        Some(last) if records.len() == limit => Some(last.position),
        _ => (looked_at == rows(DELIVERED_LOOK_MAX)).then(|| position(lowest)),
    };
    Ok(DeliveredPage { records, below })
}

fn of_delivered(name: &ConsumerName, found: &tokio_postgres::Row) -> Result<DeliveryRecord, Failed> {
    let event: Event = from_json(found.get(1), "an event")?;
    let last: Option<&str> = found.get(2);
    let last_attempt: Option<Attempt> = last.map(|text| from_json(text, "a failed attempt")).transpose()?;
    let attempts = Attempt::until_delivered(last_attempt.as_ref());
    let record = DeliveryRecord::new(name.clone(), position(found.get(0)), event, DeliveryState::Delivered);
    Ok(DeliveryRecord { attempts, last_attempt, ..record })
}

fn record(name: &ConsumerName, found: &tokio_postgres::Row) -> Result<DeliveryRecord, Failed> {
    let event: Event = from_json(found.get(1), "an event")?;
    let state = state(found.get(6));
    let last: Option<&str> = found.get(8);
    let last_attempt: Option<Attempt> = last.map(|text| from_json(text, "a failed attempt")).transpose()?;
    let open = found.get::<_, bool>(2).then(|| (found.get::<_, i64>(3), found.get::<_, i32>(4)));
    let attempts = match (open, state) {
        (Some((_, attempts)), _) => u32::try_from(attempts).unwrap_or_default(),
        (None, DeliveryState::Skipped) => u32::try_from(found.get::<_, i32>(5)).unwrap_or_default(),
        (None, DeliveryState::Delivered) => Attempt::until_delivered(last_attempt.as_ref()),
        (None, _) => 0,
    };
    let next_attempt_at = open.filter(|_| state == DeliveryState::Retrying).map(|(at, _)| time(at));
    let blocked_by = found.get::<_, Option<String>>(7).map(EventId::new).transpose();
    let blocked_by = blocked_by.map_err(|_| crate::error::refused("an event's id in the database is none; put a backup back"))?;
    let record = DeliveryRecord::new(name.clone(), position(found.get(0)), event, state);
    Ok(DeliveryRecord { attempts, last_attempt, next_attempt_at, blocked_by, ..record })
}

pub(crate) async fn attempts(session: &Session, (name, position): &(ConsumerName, Position)) -> Result<Vec<Attempt>, Failed> {
    let row = find(session, name).await?;
    let found = session.query(ATTEMPTS, &[&row.id, &int(position.0)]).await?;
    found.iter().map(|row| Ok(from_json(row.get(0), "a failed attempt")?)).collect()
}
