//! Pending, reported, orphaned and archived deposits and watched addresses, from a change set to rows.

use crate::chain::ChainNumber;
use crate::error::{Failed, int, position, to_json};
use crate::session::Session;
use confirmd_core::{Archived, Change, ChangeSet, Held, KeyDigest, Position, Sequence, StoreError, WatchEntry};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

pub(crate) const PENDING: i16 = 1;
pub(crate) const REPORTED: i16 = 2;
pub(crate) const ORPHANED: i16 = 3;

const LAST_EVENTS: &str = "select digest, event from (
    select digest, event, case kind when 2 then 1 when 1 then 2 else 3 end as rank from held where digest = any($1)
    union all select digest, event, 4 from archive where digest = any($1)
) known order by rank desc";
pub(crate) const PUT: &str = "insert into held (chain, kind, digest, event, deposit)
select $1, * from unnest($2::smallint[], $3::bytea[], $4::bigint[], $5::text[])
on conflict (chain, kind, digest) do update set event = excluded.event, deposit = excluded.deposit";
const DROP: &str = "delete from held using unnest($2::smallint[], $3::bytea[]) as gone (kind, digest)
where held.chain = $1 and held.kind = gone.kind and held.digest = gone.digest";
const ARCHIVE: &str = "insert into archive (digest, chain, height, sequence, event)
select digest, $1, height, sequence, event from unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[])
    as i (digest, height, sequence, event)
on conflict (digest) do update set height = excluded.height, sequence = excluded.sequence, event = excluded.event";
pub(crate) const WATCH: &str = "insert into watch (chain, address, entry) select $1, * from unnest($2::bytea[], $3::text[])
on conflict (chain, address) do update set entry = excluded.entry";
const UNWATCH: &str = "delete from watch where chain = $1 and address = any($2)";

/// Positions of a change set's decisions.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) first: Position,
    by_key: HashMap<(KeyDigest, Sequence), Position>,
}

impl Places {
    /// `first` is the place of the first event.
    pub(crate) fn of(set: &ChangeSet, first: Position) -> Self {
        let places = (first.0..).map(Position);
        let by_key = set
            .events
            .iter()
            .zip(places)
            .filter(|((event, _), _)| event.decides())
            .map(|((event, _), place)| ((KeyDigest::of(&set.chain, &event.transfer.key), event.sequence), place));
        Self { first, by_key: by_key.collect() }
    }

    pub(crate) fn position(&self, digest: &KeyDigest, sequence: Sequence) -> Option<Position> {
        self.by_key.get(&(*digest, sequence)).copied()
    }
}

/// Where the last events of keys are, as some record of the key has it.
pub(crate) async fn last_events(session: &Session, set: &ChangeSet) -> Result<HashMap<KeyDigest, Position>, Failed> {
    let keys = set.changes.iter().filter_map(|change| match change {
        Change::PendingPut(held) => Some(&held.transfer.key),
        Change::ReportedPut(held) => Some(&held.transfer.key),
        Change::OrphanedPut(held) => Some(&held.transfer.key),
        Change::Archived(key, _) => Some(key),
        _ => None,
    });
    let digests: Vec<Vec<u8>> = keys.map(|key| KeyDigest::of(&set.chain, key).0.to_vec()).collect();
    if digests.is_empty() {
        return Ok(HashMap::new());
    }
    let mut known = HashMap::new();
    // The best source comes last and stays.
    for row in session.query(LAST_EVENTS, &[&digests]).await? {
        if let (Some(digest), Some(event)) = (digest(row.get(0)), row.get::<_, Option<i64>>(1)) {
            known.insert(digest, position(event));
        }
    }
    Ok(known)
}

pub(crate) fn digest(bytes: &[u8]) -> Option<KeyDigest> {
    bytes.try_into().ok().map(KeyDigest)
}

/// Height and value.
type HeldRow = (Option<i64>, String);

/// What is there after a change set: a row, or none.
#[derive(Debug, Default)]
pub(crate) struct HeldRows {
    held: BTreeMap<(i16, KeyDigest), Option<HeldRow>>,
    archived: BTreeMap<KeyDigest, (Archived, Option<i64>)>,
    watch: BTreeMap<Vec<u8>, Option<String>>,
}

struct Plan<'a> {
    set: &'a ChangeSet,
    places: &'a Places,
    known: HashMap<KeyDigest, Position>,
    rows: HeldRows,
}

impl HeldRows {
    pub(crate) fn of(set: &ChangeSet, places: &Places, known: HashMap<KeyDigest, Position>) -> Result<Self, StoreError> {
        let mut plan = Plan { set, places, known, rows: Self::default() };
        for change in &set.changes {
            plan.take(change)?;
        }
        Ok(plan.rows)
    }

    pub(crate) async fn write(&self, session: &Session, chain: ChainNumber) -> Result<(), Failed> {
        let (mut kinds, mut digests, mut events, mut deposits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut gone_kinds, mut gone) = (Vec::new(), Vec::new());
        for ((kind, digest), row) in &self.held {
            match row {
                Some((event, deposit)) => {
                    kinds.push(*kind);
                    digests.push(digest.0.to_vec());
                    events.push(*event);
                    deposits.push(deposit.as_str());
                }
                None => {
                    gone_kinds.push(*kind);
                    gone.push(digest.0.to_vec());
                }
            }
        }
        if !gone.is_empty() {
            session.execute(DROP, &[&chain, &gone_kinds, &gone]).await?;
        }
        if !kinds.is_empty() {
            session.execute(PUT, &[&chain, &kinds, &digests, &events, &deposits]).await?;
        }
        if !self.archived.is_empty() {
            let digests: Vec<_> = self.archived.keys().map(|digest| digest.0.to_vec()).collect();
            let heights: Vec<_> = self.archived.values().map(|(archived, _)| int(archived.height.0)).collect();
            let sequences: Vec<_> = self.archived.values().map(|(archived, _)| int(archived.sequence.0)).collect();
            let events: Vec<_> = self.archived.values().map(|(_, event)| *event).collect();
            session.execute(ARCHIVE, &[&chain, &digests, &heights, &sequences, &events]).await?;
        }
        let unwatched: Vec<_> =
            self.watch.iter().filter(|(_, entry)| entry.is_none()).map(|(bytes, _)| bytes.as_slice()).collect();
        if !unwatched.is_empty() {
            session.execute(UNWATCH, &[&chain, &unwatched]).await?;
        }
        let watched = || self.watch.iter().filter_map(|(bytes, entry)| Some((bytes.as_slice(), entry.as_deref()?)));
        let (bytes, entries): (Vec<_>, Vec<_>) = watched().unzip();
        if !bytes.is_empty() {
            session.execute(WATCH, &[&chain, &bytes, &entries]).await?;
        }
        Ok(())
    }
}

impl Plan<'_> {
    fn take(&mut self, change: &Change) -> Result<(), StoreError> {
        match change {
            Change::PendingPut(held) => self.put(PENDING, held, held.last_sequence)?,
            Change::PendingDropped(key) => self.drop(PENDING, key),
            Change::ReportedPut(held) => self.put(REPORTED, held, held.sequence)?,
            Change::ReportedDropped(key) => self.drop(REPORTED, key),
            Change::OrphanedPut(held) => self.put(ORPHANED, held, held.last_sequence)?,
            Change::OrphanedDropped(key) => self.drop(ORPHANED, key),
            Change::Archived(key, archived) => {
                let digest = KeyDigest::of(&self.set.chain, key);
                let event = self.last_event(&digest, archived.sequence);
                self.rows.archived.insert(digest, (*archived, event));
            }
            Change::WatchPut(entry) => self.watch(entry.address.bytes(), Some(entry))?,
            Change::WatchForgotten(bytes) => self.watch(bytes, None)?,
            _ => {}
        }
        Ok(())
    }

    fn watch(&mut self, bytes: &[u8], entry: Option<&WatchEntry>) -> Result<(), StoreError> {
        self.rows.watch.insert(bytes.to_vec(), entry.map(to_json).transpose()?);
        Ok(())
    }

    fn put<T: Held + Serialize>(&mut self, kind: i16, held: &T, last: Sequence) -> Result<(), StoreError> {
        let digest = KeyDigest::of(&self.set.chain, held.key());
        let event = self.last_event(&digest, last);
        self.rows.held.insert((kind, digest), Some((event, to_json(held)?)));
        Ok(())
    }

    fn drop(&mut self, kind: i16, key: &confirmd_core::DepositKey) {
        self.rows.held.insert((kind, KeyDigest::of(&self.set.chain, key)), None);
    }

    fn last_event(&self, digest: &KeyDigest, sequence: Sequence) -> Option<i64> {
        if sequence == Sequence::NONE {
            return None;
        }
        let place = self.places.position(digest, sequence).or_else(|| self.known.get(digest).copied());
        place.map(|place| int(place.0))
    }
}
