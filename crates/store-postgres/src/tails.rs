//! What an operator does to queued events: queue again, replay, give up. Under the consumer's lock, with whole keys at hand.

use crate::consumers::{Row, lock};
use crate::error::{Failed, int, invalid, uint};
use crate::listen::Notice;
use crate::session::Session;
use confirmd_core::{ConsumerName, Pace, Position, Timestamp};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

const EVENTS: &str = "select position, chain, asset, digest, notice from event where position = any($1)";
const DEAD: &str = "select distinct digest from delivery where consumer = $1 and state = 2 and not given_up";
const DIGESTS: &str = "select distinct digest from delivery where consumer = $1 and position = any($2)";
const REQUEUE: &str = "update delivery set state = 0, due_at = 0, attempts = 0
where consumer = $1 and digest = any($2) and not given_up";
const TAILS: &str = "select digest, position, state, due_at, attempts, attempts_ever, given_up,
    token is not null and lease_until > clock_timestamp()
from delivery where consumer = $1 and digest = any($2)";
const SKIPPED: &str = "select position from skipped where consumer = $1 and position = any($2)";
const EVER: &str = "select position, max(ever) from attempt where consumer = $1 and position = any($2) group by position";
const PUT: &str = "insert into delivery (consumer, position, digest, state, due_at, attempts, attempts_ever)
select $1, * from unnest($2::bigint[], $3::bytea[], $4::smallint[], $5::bigint[], $6::integer[], $7::integer[])
on conflict (consumer, position) do update set state = excluded.state, due_at = excluded.due_at, attempts = excluded.attempts";
const SKIP: &str = "insert into skipped (consumer, position, at, attempts) values ($1, $2, $3, $4)";
const GIVE_UP: &str = "update delivery set given_up = true where consumer = $1 and position = $2";
const DROP: &str = "delete from delivery where consumer = $1 and position = $2";

/// One queued event.
#[derive(Debug, Clone, Copy)]
struct Open {
    state: i16,
    due_at: i64,
    attempts: i32,
    ever: i32,
    given_up: bool,
    out: bool,
}

type Tails = BTreeMap<Vec<u8>, BTreeMap<i64, Open>>;

async fn tails(session: &Session, consumer: i32, digests: &[&[u8]]) -> Result<Tails, Failed> {
    let mut tails = Tails::new();
    for row in session.query(TAILS, &[&consumer, &digests]).await? {
        let open = Open {
            state: row.get(2),
            due_at: row.get(3),
            attempts: row.get(4),
            ever: row.get(5),
            given_up: row.get(6),
            out: row.get(7),
        };
        tails.entry(row.get(0)).or_default().insert(row.get(1), open);
    }
    Ok(tails)
}

/// Chain, asset, digest, and what an informative one says.
type Named = (String, String, Vec<u8>, Option<String>);

/// The events named, by position. `Invalid` if one is not there.
async fn events(session: &Session, name: &ConsumerName, positions: &BTreeSet<Position>) -> Result<BTreeMap<i64, Named>, Failed> {
    let asked: Vec<i64> = positions.iter().map(|position| int(position.0)).collect();
    let rows = session.query(EVENTS, &[&asked]).await?;
    let found: BTreeMap<_, _> = rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2), row.get(3), row.get(4)))).collect();
    match asked.iter().find(|position| !found.contains_key(*position)) {
        None => Ok(found),
        Some(missing) => Err(invalid(format!(
            "there is no event at position {missing} for the consumer {name}; `confirmd deliveries list` shows those there are"
        ))),
    }
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) consumer: ConsumerName,
    pub(crate) positions: BTreeSet<Position>,
    pub(crate) notice: Notice,
}

/// Queues the undelivered tails of keys again; of every dead one without a position.
pub(crate) async fn requeue(session: &Session, asked: &Asked) -> Result<u64, Failed> {
    let row = lock(session, &asked.consumer).await?;
    events(session, &asked.consumer, &asked.positions).await?;
    let positions: Vec<i64> = asked.positions.iter().map(|position| int(position.0)).collect();
    let found = match positions.is_empty() {
        true => session.query(DEAD, &[&row.id]).await?,
        false => session.query(DIGESTS, &[&row.id, &positions]).await?,
    };
    let digests: Vec<Vec<u8>> = found.iter().map(|row| row.get(0)).collect();
    let count = session.execute(REQUEUE, &[&row.id, &digests]).await?;
    asked.notice.deliveries(session).await?;
    Ok(count)
}

/// Queues events again, delivered ones too.
pub(crate) async fn replay(session: &Session, (asked, pace): &(Asked, Option<Pace>)) -> Result<u64, Failed> {
    let row = lock(session, &asked.consumer).await?;
    let events = events(session, &asked.consumer, &asked.positions).await?;
    let positions: Vec<i64> = events.keys().copied().collect();
    let skipped = session.query(SKIPPED, &[&row.id, &positions]).await?;
    let skipped: BTreeSet<i64> = skipped.iter().map(|row| row.get(0)).collect();
    let ever = session.query(EVER, &[&row.id, &positions]).await?;
    let ever: BTreeMap<i64, i32> = ever.iter().map(|row| (row.get(0), row.get(1))).collect();
    let digests: Vec<&[u8]> = events.values().map(|(_, _, digest, _)| digest.as_slice()).collect();
    let mut replay = Replay { tails: tails(session, row.id, &digests).await?, changed: BTreeSet::new(), count: 0 };
    let mut keys = BTreeSet::new();
    for (position, (chain, asset, digest, notice)) in &events {
        if *position < row.began || !row.takes(chain, asset, notice.as_deref()) || skipped.contains(position) {
            continue;
        }
        let at = pace.map(|pace| pace.at(u64::try_from(keys.len()).unwrap_or(u64::MAX)));
        keys.insert(digest);
        if *position < row.cursor {
            replay.queue(digest, *position, ever.get(position).copied().unwrap_or_default(), at);
        }
    }
    replay.write(session, &row).await?;
    asked.notice.deliveries(session).await?;
    Ok(replay.count)
}

/// A replay under way: whole keys, and which of their events it changed.
struct Replay {
    tails: Tails,
    changed: BTreeSet<(Vec<u8>, i64)>,
    count: u64,
}

impl Replay {
    /// Queues one event: an undelivered one with its key's whole tail, a delivered one alone.
    fn queue(&mut self, digest: &[u8], position: i64, ever: i32, at: Option<Timestamp>) {
        let tail = self.tails.entry(digest.to_vec()).or_default();
        let (state, due_at) = at.map_or((0, 0), |at| (1, int(at.0)));
        if let Entry::Vacant(place) = tail.entry(position) {
            place.insert(Open { state, due_at, attempts: 0, ever, given_up: false, out: false });
            self.changed.insert((digest.to_vec(), position));
            self.count += 1;
            return;
        }
        for (place, open) in tail.iter_mut().filter(|(_, open)| !open.given_up) {
            (open.state, open.due_at, open.attempts) = (0, 0, 0);
            self.changed.insert((digest.to_vec(), *place));
            self.count += 1;
        }
        if at.is_some()
            && let Some((place, head)) = tail.iter_mut().next().filter(|(_, head)| !head.out && !head.given_up)
        {
            (head.state, head.due_at) = (state, due_at);
            self.changed.insert((digest.to_vec(), *place));
        }
    }

    async fn write(&self, session: &Session, row: &Row) -> Result<(), Failed> {
        let changed: Vec<_> = self
            .changed
            .iter()
            .filter_map(|(digest, position)| Some((digest.as_slice(), *position, *self.tails.get(digest)?.get(position)?)))
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        let positions: Vec<_> = changed.iter().map(|(_, position, _)| *position).collect();
        let digests: Vec<_> = changed.iter().map(|(digest, ..)| *digest).collect();
        let states: Vec<_> = changed.iter().map(|(.., open)| open.state).collect();
        let due: Vec<_> = changed.iter().map(|(.., open)| open.due_at).collect();
        let attempts: Vec<_> = changed.iter().map(|(.., open)| open.attempts).collect();
        let ever: Vec<_> = changed.iter().map(|(.., open)| open.ever).collect();
        session.execute(PUT, &[&row.id, &positions, &digests, &states, &due, &attempts, &ever]).await?;
        Ok(())
    }
}

/// Gives one event up, on record.
pub(crate) async fn skip(session: &Session, (asked, now): &(Asked, Timestamp)) -> Result<(), Failed> {
    let row = lock(session, &asked.consumer).await?;
    let events = events(session, &asked.consumer, &asked.positions).await?;
    for (position, (chain, asset, digest, notice)) in &events {
        if !session.query(SKIPPED, &[&row.id, &vec![*position]]).await?.is_empty() {
            continue;
        }
        let tails = tails(session, row.id, &[digest.as_slice()]).await?;
        let open = tails.get(digest).and_then(|tail| tail.get(position)).filter(|open| !open.given_up);
        let waits = *position >= row.cursor || open.is_some();
        if *position < row.began || !row.takes(chain, asset, notice.as_deref()) || !waits {
            return Err(invalid(format!(
                "the event at position {} is not waiting for the consumer {}: it was delivered, or never meant for it",
                uint(*position),
                asked.consumer
            )));
        }
        match open {
            // Nothing of its key goes out before its attempt has ended.
            Some(open) if open.out => session.execute(GIVE_UP, &[&row.id, position]).await?,
            Some(_) => session.execute(DROP, &[&row.id, position]).await?,
            None => 0,
        };
        let attempts = open.map_or(0, |open| open.attempts);
        session.execute(SKIP, &[&row.id, position, &int(now.0), &attempts]).await?;
    }
    asked.notice.deliveries(session).await?;
    Ok(())
}
