//! Deliveries are claimed: in a short transaction, for a time, under a token. The send happens outside.

use crate::consumers::{Row, lock};
use crate::error::{Failed, from_json, int, limit as rows, refused, time, uint};
use crate::session::Session;
use confirmd_core::{ConsumerName, Delivery, Event, OPEN_MAX, Position, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Fresh events looked at in one transaction.
const SCAN_MAX: usize = 2_000;

const TAKE_BACK: &str =
    "update delivery set token = null, owner = null, lease_until = null where consumer = $1 and token = any($2)";
const FORGET_GIVEN_UP: &str =
    "delete from delivery where consumer = $1 and given_up and (token is null or lease_until <= clock_timestamp())";
const TOKEN: &str = "select nextval('token')";
/// Under the consumer's lock, so that what is out of a key and what stands before it can't change meanwhile but to its end.
const CLAIM: &str = "with ready as materialized (
    select position from delivery d
    where consumer = $1 and state < 2 and not given_up and due_at <= $2
        and (token is null or lease_until <= clock_timestamp())
        and not exists (
            select from delivery o where o.consumer = d.consumer and o.digest = d.digest and o.position <> d.position
                and (o.position < d.position or (o.token is not null and o.lease_until > clock_timestamp())))
    order by position limit $3 for update skip locked)
update delivery d set token = $4, owner = $5, lease_until = clock_timestamp() + $6 * interval '1 millisecond'
from ready where d.consumer = $1 and d.position = ready.position
returning d.position, d.attempts";
const ROOM: &str = "select count(*) from (select from delivery where consumer = $1 and state < 2 limit $2) as counted";
const FRESH: &str = "select position, chain, asset, digest, notice from event where position >= $1 order by position limit $2";
const TAILS: &str = "select distinct digest from delivery where consumer = $1 and digest = any($2)";
const SKIPPED: &str = "select position from skipped where consumer = $1 and position = any($2)";
const PUT: &str =
    "insert into delivery (consumer, position, digest, state, due_at, attempts, attempts_ever, token, owner, lease_until)
select $1, position, digest, 0, 0, 0, 0, case when out then $5::bigint end, case when out then $6::text end,
    case when out then clock_timestamp() + $7 * interval '1 millisecond' end
from unnest($2::bigint[], $3::bytea[], $4::boolean[]) as i (position, digest, out)";
const CURSOR: &str = "update consumer set cursor = $2 where id = $1";
const EVENTS: &str = "select position, record, body from event where position = any($1)";
const NEXT: &str = "select due_at from delivery d
where consumer = $1 and state < 2 and not given_up and (token is null or lease_until <= clock_timestamp())
    and not exists (
        select from delivery o where o.consumer = d.consumer and o.digest = d.digest and o.position <> d.position
            and (o.position < d.position or (o.token is not null and o.lease_until > clock_timestamp())))
order by due_at limit 1";
const OTHERS: &str = "select (extract(epoch from min(lease_until)) * 1000)::bigint from delivery
where consumer = $1 and owner <> $2 and lease_until > clock_timestamp()";

/// What this handle has out, by the token it was claimed under.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    out: Mutex<HashMap<(ConsumerName, Position), i64>>,
    /// Handed to somebody who went away.
    lost: Mutex<Vec<(ConsumerName, i64)>>,
}

impl Claims {
    pub(crate) fn is_empty(&self) -> bool {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The token of each, where it is ours; it is not from here on.
    pub(crate) fn report(&self, consumer: &ConsumerName, positions: &[Position]) -> Vec<(i64, Option<i64>)> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let positions: BTreeSet<_> = positions.iter().copied().collect();
        positions.into_iter().map(|position| (int(position.0), out.remove(&(consumer.clone(), position)))).collect()
    }

    /// Forgets what is out of a consumer.
    pub(crate) fn forget(&self, consumer: &ConsumerName) {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _), _| of != consumer);
    }

    pub(crate) fn take_lost(&self, consumer: &ConsumerName) -> Vec<i64> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, kept) = std::mem::take(&mut *lost).into_iter().partition(|(of, _)| of == consumer);
        *lost = kept;
        let taken: Vec<(ConsumerName, i64)> = taken;
        taken.into_iter().map(|(_, token)| token).collect()
    }
}

/// Deliveries on their way to whoever asked. If nobody receives them, they go back.
#[derive(Debug)]
pub(crate) struct Handout {
    claims: Arc<Claims>,
    consumer: ConsumerName,
    token: Option<i64>,
    deliveries: Vec<Delivery>,
    /// Whether there may be more behind what was looked at.
    pub(crate) more: bool,
}

impl Handout {
    pub(crate) fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    pub(crate) fn take(mut self) -> Vec<Delivery> {
        if let Some(token) = self.token.take() {
            let mut out = self.claims.out.lock().unwrap_or_else(PoisonError::into_inner);
            out.extend(self.deliveries.iter().map(|delivery| ((self.consumer.clone(), delivery.position), token)));
        }
        std::mem::take(&mut self.deliveries)
    }
}

impl Drop for Handout {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            self.claims.lost.lock().unwrap_or_else(PoisonError::into_inner).push((self.consumer.clone(), token));
        }
    }
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) claims: Arc<Claims>,
    pub(crate) consumer: ConsumerName,
    pub(crate) owner: Arc<str>,
    pub(crate) lease_ms: f64,
    pub(crate) now: Timestamp,
    pub(crate) limit: usize,
}

/// Gives back what was handed to nobody. If the transaction fails, the lease does it.
async fn take_back(session: &Session, due: &Due, consumer: i32) -> Result<(), Failed> {
    let lost = due.claims.take_lost(&due.consumer);
    if !lost.is_empty() {
        session.execute(TAKE_BACK, &[&consumer, &lost]).await?;
    }
    Ok(())
}

/// Claims what may be tried now.
pub(crate) async fn due(session: &Session, due: &Due) -> Result<Handout, Failed> {
    let row = lock(session, &due.consumer).await?;
    take_back(session, due, row.id).await?;
    session.execute(FORGET_GIVEN_UP, &[&row.id]).await?;
    let mut handout = Handout {
        claims: Arc::clone(&due.claims),
        consumer: due.consumer.clone(),
        token: None,
        deliveries: Vec::new(),
        more: false,
    };
    if row.paused.is_some() || due.limit == 0 {
        return Ok(handout);
    }
    let token: i64 = session.query_opt(TOKEN, &[]).await?.map(|row| row.get(0)).unwrap_or_default();
    let (now, most) = (int(due.now.0), rows(due.limit));
    let claimed = session.query(CLAIM, &[&row.id, &now, &most, &token, &&*due.owner, &due.lease_ms]).await?;
    let mut out: BTreeMap<i64, u32> =
        claimed.iter().map(|row| (row.get(0), number(row.get::<_, i32>(1)).saturating_add(1))).collect();
    if out.len() < due.limit {
        handout.more = fresh(session, due, &row, token, &mut out).await?;
    }
    handout.deliveries = deliveries(session, &out).await?;
    handout.token = (!out.is_empty()).then_some(token);
    Ok(handout)
}

fn number(count: i32) -> u32 {
    u32::try_from(count).unwrap_or_default()
}

/// Reads on from the cursor. Whether there may be more than was looked at.
async fn fresh(session: &Session, due: &Due, row: &Row, token: i64, out: &mut BTreeMap<i64, u32>) -> Result<bool, Failed> {
    let events = session.query(FRESH, &[&row.cursor, &rows(SCAN_MAX)]).await?;
    if events.is_empty() || !has_room(session, row.id).await? {
        return Ok(false);
    }
    let positions: Vec<i64> = events.iter().map(|event| event.get(0)).collect();
    let skipped: BTreeSet<i64> = session.query(SKIPPED, &[&row.id, &positions]).await?.iter().map(|row| row.get(0)).collect();
    let digests: Vec<&[u8]> = events.iter().map(|event| event.get(3)).collect();
    let mut tails: BTreeSet<Vec<u8>> = session.query(TAILS, &[&row.id, &digests]).await?.iter().map(|row| row.get(0)).collect();
    let (mut put, mut put_digests, mut put_out) = (Vec::new(), Vec::new(), Vec::new());
    let mut cursor = row.cursor;
    for event in &events {
        if out.len() >= due.limit {
            break;
        }
        let position: i64 = event.get(0);
        cursor = position.saturating_add(1);
        if skipped.contains(&position) || !row.takes(event.get(1), event.get(2), event.get(4)) {
            continue;
        }
        let digest: Vec<u8> = event.get(3);
        let first = tails.insert(digest.clone());
        put.push(position);
        put_digests.push(digest);
        put_out.push(first);
        if first {
            out.insert(position, 1);
        }
    }
    if !put.is_empty() {
        session.execute(PUT, &[&row.id, &put, &put_digests, &put_out, &token, &&*due.owner, &due.lease_ms]).await?;
    }
    session.execute(CURSOR, &[&row.id, &cursor]).await?;
    Ok(events.len() == SCAN_MAX)
}

async fn has_room(session: &Session, consumer: i32) -> Result<bool, Failed> {
    let count = session.query_opt(ROOM, &[&consumer, &rows(OPEN_MAX)]).await?;
    Ok(count.is_none_or(|row| uint(row.get(0)) < u64::try_from(OPEN_MAX).unwrap_or(u64::MAX)))
}

async fn deliveries(session: &Session, out: &BTreeMap<i64, u32>) -> Result<Vec<Delivery>, Failed> {
    if out.is_empty() {
        return Ok(Vec::new());
    }
    let positions: Vec<i64> = out.keys().copied().collect();
    let mut events = BTreeMap::new();
    for row in session.query(EVENTS, &[&positions]).await? {
        let event: Event = from_json(row.get(1), "an event")?;
        events.insert(row.get::<_, i64>(0), (event, row.get::<_, &[u8]>(2).into()));
    }
    let delivery = |(position, attempt): (&i64, &u32)| {
        let (event, body) = events.remove(position).ok_or_else(|| {
            refused(format!("the event at position {position} is undelivered but missing in the database; put a backup back"))
        })?;
        Ok(Delivery::new(Position(uint(*position)), event, body, *attempt))
    };
    out.iter().map(delivery).collect()
}

/// When to look again.
pub(crate) async fn next_due(session: &Session, due: &Due) -> Result<Option<Timestamp>, Failed> {
    let row = lock(session, &due.consumer).await?;
    take_back(session, due, row.id).await?;
    if row.paused.is_some() {
        return Ok(None);
    }
    let ours = session.query_opt(NEXT, &[&row.id]).await?.map(|row| row.get::<_, i64>(0));
    // What another instance has out may come back to us when its lease ends.
    let theirs = session.query_opt(OTHERS, &[&row.id, &&*due.owner]).await?.and_then(|row| row.get::<_, Option<i64>>(0));
    Ok([ours, theirs].into_iter().flatten().min().map(time))
}
