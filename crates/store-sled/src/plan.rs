//! From a change set to the records of one commit.

use crate::deposits::DepositPlan;
use crate::keys::{self, ChainNumber};
use crate::lives;
use crate::reader::{Reader, Rows};
use crate::record::Kind;
use crate::rows::{ArchiveRow, EventRow, HeldRow};
use crate::smalls::Smalls;
use crate::steps::Step;
use crate::writer::Core;
use confirmd_core::{
    Archived, Change, ChangeSet, CommitReceipt, DepositKey, Held, KeyDigest, LifePlan, Orphaned, Pending, Position, Reported,
    Sequence, StateVersion, StoreError,
};
use serde::Serialize;
use std::collections::HashMap;

impl Core {
    /// Writes a change set as one commit. `Conflict` if the chain has moved on; then nothing was written.
    pub(crate) fn commit(&mut self, set: &ChangeSet) -> Result<CommitReceipt, StoreError> {
        let found = self.heads.version(&set.chain);
        if found != set.base {
            return Err(StoreError::Conflict { chain: set.chain.clone(), expected: set.base, found });
        }
        let mut rows = Rows::default();
        let first = self.disk.progress.next_position;
        let reader = self.disk.reader.clone();
        // Everything that reads comes first: it may fail and must leave nothing half done.
        let events = EventPlan::new(&reader, set, first)?;
        let head = self.heads.entry(&set.chain, &mut self.disk.progress.next_chain);
        let mut held = HeldPlan { reader: &reader, chain: head.number, set, events: &events, known: HashMap::new() };
        held.write(&mut rows)?;
        let smalls = Smalls::of(&reader, set)?;
        DepositPlan::new(&reader, &self.disk.watched, head, set, &smalls, &events, self.clock.now()).write(&mut rows)?;
        let told = LifePlan::new(&head.small, set, smalls.before(), self.clock.now());
        lives::write(&told, (&set.chain, head.number), self.disk.progress.commits, &mut rows)?;
        events.write(set, &mut rows)?;
        head.take(set, &mut rows)?;
        let listed = self.disk.watched.take(head.number, &set.changes, &mut rows);
        if listed.map_err(|error| self.fail(error))? {
            self.reached(Step::Listed);
        }
        self.disk.progress.next_position = events.end;
        self.disk.progress.last_notice = events.last_notice.or(self.disk.progress.last_notice);
        self.write(rows)?;
        let first_event = (!set.events.is_empty()).then_some(first);
        Ok(CommitReceipt { version: StateVersion(set.base.0.saturating_add(1)), first_event })
    }
}

/// The positions of a change set's events; by key those of its decisions alone.
pub(crate) struct EventPlan {
    first: Position,
    end: Position,
    last_notice: Option<Position>,
    by_key: HashMap<(KeyDigest, Sequence), Position>,
}

impl EventPlan {
    /// The last line of defence for G1: an event that was decided before, as far as history goes back, is not written again.
    fn new(reader: &Reader, set: &ChangeSet, first: Position) -> Result<Self, StoreError> {
        let (mut end, mut last_notice, mut by_key) = (first, None, HashMap::new());
        for (event, _) in &set.events {
            let name = event.decides().then(|| (KeyDigest::of(&set.chain, &event.transfer.key), event.sequence));
            let earlier = name.and_then(|name| by_key.insert(name, end));
            if let Some(position) = earlier.map_or_else(|| reader.event_position(&event.id), |position| Ok(Some(position)))? {
                return Err(StoreError::Invalid(format!(
                    "the event {} (deposit {} of {}, sequence {}) was decided before, at position {position}; nothing was written",
                    event.id, event.transfer.key, set.chain, event.sequence
                )));
            }
            last_notice = if event.decides() { last_notice } else { Some(end) };
            end = end.next();
        }
        Ok(Self { first, end, last_notice, by_key })
    }

    /// Where the key's event of this sequence is, if it is of this change set.
    pub(crate) fn position(&self, digest: &KeyDigest, sequence: Sequence) -> Option<Position> {
        self.by_key.get(&(*digest, sequence)).copied()
    }

    fn write(&self, set: &ChangeSet, rows: &mut Rows) -> Result<(), StoreError> {
        let mut position = self.first;
        for (event, body) in &set.events {
            rows.put(keys::event_id(&event.id), &position)?;
            rows.put(keys::event(position), &EventRow { event: event.clone(), body: body.clone() })?;
            position = position.next();
        }
        Ok(())
    }
}

/// Pending, reported, orphaned and archived deposits.
struct HeldPlan<'a> {
    reader: &'a Reader,
    chain: ChainNumber,
    set: &'a ChangeSet,
    events: &'a EventPlan,
    /// Last events of keys as this change set leaves them.
    known: HashMap<KeyDigest, Option<Position>>,
}

impl HeldPlan<'_> {
    fn write(&mut self, rows: &mut Rows) -> Result<(), StoreError> {
        let set = self.set;
        for change in &set.changes {
            match change {
                Change::PendingPut(pending) => self.put(Kind::Pending, pending, pending.last_sequence, rows)?,
                Change::PendingDropped(key) => self.drop(Kind::Pending, key, rows),
                Change::ReportedPut(reported) => self.put(Kind::Reported, reported, reported.sequence, rows)?,
                Change::ReportedDropped(key) => self.drop(Kind::Reported, key, rows),
                Change::OrphanedPut(orphaned) => self.put(Kind::Orphaned, orphaned, orphaned.last_sequence, rows)?,
                Change::OrphanedDropped(key) => self.drop(Kind::Orphaned, key, rows),
                Change::Archived(key, archived) => self.archive(key, *archived, rows)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn put<T: Held + Serialize + Clone>(
        &mut self,
        kind: Kind,
        held: &T,
        last: Sequence,
        rows: &mut Rows,
    ) -> Result<(), StoreError> {
        let digest = KeyDigest::of(&self.set.chain, held.key());
        let event = self.last_event(&digest, last)?;
        rows.put(keys::held(kind, self.chain, &digest), &HeldRow { deposit: held.clone(), event })
    }

    fn drop(&self, kind: Kind, key: &DepositKey, rows: &mut Rows) {
        rows.remove(keys::held(kind, self.chain, &KeyDigest::of(&self.set.chain, key)));
    }

    fn archive(&mut self, key: &DepositKey, archived: Archived, rows: &mut Rows) -> Result<(), StoreError> {
        let digest = KeyDigest::of(&self.set.chain, key);
        let event = self.last_event(&digest, archived.sequence)?;
        rows.put(keys::archive(&digest), &ArchiveRow { chain: self.chain, archived, event })
    }

    /// The position of the key's last event: of this change set, or as some record of the key has it.
    fn last_event(&mut self, digest: &KeyDigest, sequence: Sequence) -> Result<Option<Position>, StoreError> {
        if sequence == Sequence::NONE {
            return Ok(None);
        }
        if let Some(position) = self.events.position(digest, sequence) {
            return Ok(Some(position));
        }
        if let Some(known) = self.known.get(digest) {
            return Ok(*known);
        }
        let found = self.stored_event(digest)?;
        self.known.insert(*digest, found);
        Ok(found)
    }

    fn stored_event(&self, digest: &KeyDigest) -> Result<Option<Position>, StoreError> {
        let (reader, chain) = (self.reader, self.chain);
        if let Some(row) = reader.get::<HeldRow<Reported>>(&keys::held(Kind::Reported, chain, digest))? {
            return Ok(row.event);
        }
        if let Some(row) = reader.get::<HeldRow<Pending>>(&keys::held(Kind::Pending, chain, digest))? {
            return Ok(row.event);
        }
        if let Some(row) = reader.get::<HeldRow<Orphaned>>(&keys::held(Kind::Orphaned, chain, digest))? {
            return Ok(row.event);
        }
        Ok(reader.get::<ArchiveRow>(&keys::archive(digest))?.and_then(|row| row.event))
    }
}
