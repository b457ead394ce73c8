//! One consumer's deliveries in memory: what may be handed out, what waits, and what a store has to write down about it.
//! Pure: no clock, no I/O. A store feeds it events in outbox order and writes its changes.

mod open;

pub use open::{OpenDelivery, OpenState, QueueChanges, QueueCounts};

use crate::{DeliveryState, KeyDigest, Position, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Events held in memory that wait or are being retried, per consumer; fresh events beyond it stay in the outbox.
/// Dead ones, and those behind a dead one, do not count: they wait for an operator.
pub const OPEN_MAX: usize = 100_000;

#[derive(Debug, Clone, Copy)]
struct Entry {
    open: OpenDelivery,
    in_flight: bool,
    /// Given up while it was out: nothing of its key may go out before its attempt has ended.
    given_up: bool,
    /// The store has a record of it.
    stored: bool,
}

/// The undelivered events of one consumer below its read position, in outbox order and by key.
#[derive(Debug, Default)]
pub struct DeliveryQueue {
    read: Position,
    saved: Position,
    entries: BTreeMap<Position, Entry>,
    tails: HashMap<KeyDigest, BTreeSet<Position>>,
    ready: BTreeSet<Position>,
    timed: BTreeSet<(Timestamp, Position)>,
    skipped_ahead: BTreeSet<Position>,
    dirty: BTreeSet<Position>,
    gone: BTreeSet<Position>,
    retrying: usize,
    dead: usize,
    given_up: usize,
    parked: usize,
}

impl DeliveryQueue {
    /// A consumer that has seen nothing from `start` on.
    pub fn new(start: Position) -> Self {
        Self { read: start, saved: start, ..Self::default() }
    }

    /// The queue as a store holds it. `skipped` are events at or above the cursor that were given up before they were read.
    /// A retry later than `retry_latest` is brought forward to it: a clock that jumped must not park an event for years.
    pub fn restore(
        cursor: Position,
        open: impl IntoIterator<Item = (Position, OpenDelivery)>,
        skipped: impl IntoIterator<Item = Position>,
        retry_latest: Timestamp,
    ) -> Self {
        let mut queue = Self::new(cursor);
        queue.skipped_ahead = skipped.into_iter().filter(|position| *position >= cursor).collect();
        for (position, mut delivery) in open {
            if let OpenState::Retrying { at } = &mut delivery.state {
                *at = (*at).min(retry_latest);
            }
            queue.insert(position, Entry { open: delivery, in_flight: false, given_up: false, stored: true });
        }
        queue.dirty.clear();
        queue
    }

    /// Fresh events are read from here.
    pub fn read(&self) -> Position {
        self.read
    }

    /// How far the read position has run ahead of what is written down.
    pub fn unsaved(&self) -> u64 {
        self.read.0.saturating_sub(self.saved.0)
    }

    /// Whether fresh events may be taken.
    pub fn has_room(&self) -> bool {
        self.entries.len().saturating_sub(self.parked) < OPEN_MAX
    }

    /// How many are where; unread ones not included.
    pub fn counts(&self) -> QueueCounts {
        let blocked = self.parked.saturating_sub(self.dead);
        let waiting = self.entries.len().saturating_sub(self.dead).saturating_sub(self.given_up);
        QueueCounts { waiting, retrying: self.retrying, dead: self.dead, blocked }
    }

    /// When the earliest retry is due; the beginning of time if something can go out at once.
    pub fn next_due(&self) -> Option<Timestamp> {
        if !self.ready.is_empty() {
            return Some(Timestamp::default());
        }
        self.timed.first().map(|(at, _)| *at)
    }

    /// Takes what is known and may be tried now, lowest position first, with the number of the attempt. They are out from here on.
    pub fn take_due(&mut self, now: Timestamp, limit: usize) -> Vec<(Position, u32)> {
        while let Some((at, position)) = self.timed.first().copied().filter(|(at, _)| *at <= now) {
            self.timed.remove(&(at, position));
            self.ready.insert(position);
        }
        let mut out = Vec::new();
        while out.len() < limit
            && let Some(position) = self.ready.pop_first()
        {
            if let Some(entry) = self.entries.get_mut(&position) {
                entry.in_flight = true;
                out.push((position, entry.open.attempts.saturating_add(1)));
            }
        }
        out
    }

    /// The next event of the outbox, at or above the read position; `None` if it is not for this consumer.
    /// Whether it goes out at once (its first attempt); otherwise it waits behind its key, or was given up before.
    pub fn offer(&mut self, position: Position, key: Option<KeyDigest>) -> bool {
        debug_assert!(position >= self.read, "an event was offered twice");
        self.read = position.next();
        let given_up = self.skipped_ahead.remove(&position);
        let Some(key) = key.filter(|_| !given_up) else { return false };
        let first = !self.tails.contains_key(&key);
        let open = OpenDelivery { key, state: OpenState::Queued, attempts: 0, attempts_ever: 0 };
        self.insert(position, Entry { open, in_flight: first, given_up: false, stored: false });
        first
    }

    /// There is no event below `end` that was not offered.
    pub fn pass_to(&mut self, end: Position) {
        self.read = self.read.max(end);
    }

    /// These were delivered. Unknown ones are ignored.
    pub fn acknowledge(&mut self, positions: &[Position]) {
        positions.iter().for_each(|position| self.remove(*position));
    }

    /// An attempt failed; the next one is due at `at`. Returns the attempts ever made; `None` if it is not undelivered any more,
    /// or dead.
    pub fn retry_later(&mut self, position: Position, at: Timestamp) -> Option<u32> {
        self.failed(position, OpenState::Retrying { at })
    }

    /// The last attempt failed. Returns the attempts ever made; `None` if it is not undelivered any more, or dead already.
    pub fn bury(&mut self, position: Position) -> Option<u32> {
        self.failed(position, OpenState::Dead)
    }

    /// Handed out but not tried, or tried without spending an attempt: due again at once.
    pub fn release(&mut self, position: Position) {
        let Some(entry) = self.entries.get_mut(&position).filter(|entry| entry.in_flight) else { return };
        entry.in_flight = false;
        let (key, given_up, state) = (entry.open.key, entry.given_up, entry.open.state);
        if given_up {
            self.remove(position);
        } else if self.head(&key) != Some(position) {
            // One of its key was put before it meanwhile.
            self.settle_ready(&key);
        } else if state != OpenState::Dead {
            self.ready.insert(position);
        }
    }

    /// Takes back whatever was handed out and never reported.
    pub fn release_all(&mut self) {
        let out: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.in_flight).map(|(position, _)| *position).collect();
        out.into_iter().for_each(|position| self.release(position));
    }

    /// Queues the whole undelivered tail of each named event's key again, with fresh attempts. Returns how many events.
    pub fn requeue(&mut self, positions: &[Position]) -> u64 {
        let keys: BTreeSet<_> =
            positions.iter().filter_map(|position| self.entries.get(position)).map(|entry| entry.open.key).collect();
        keys.into_iter().map(|key| self.requeue_key(&key)).sum()
    }

    /// Queues an event again with fresh attempts, not before `at` if given: an undelivered one with its key's whole tail, a delivered
    /// one of `key` alone. `attempts_ever` counts those made for a delivered one. Returns how many events.
    pub fn replay(&mut self, position: Position, key: KeyDigest, attempts_ever: u32, at: Option<Timestamp>) -> u64 {
        if position >= self.read {
            return 0;
        }
        let state = at.map_or(OpenState::Queued, |at| OpenState::Retrying { at });
        if !self.entries.contains_key(&position) {
            let open = OpenDelivery { key, state, attempts: 0, attempts_ever };
            self.insert(position, Entry { open, in_flight: false, given_up: false, stored: false });
            return 1;
        }
        let count = self.requeue_key(&key);
        let head = self.head(&key).and_then(|head| Some((head, *self.entries.get(&head)?)));
        if let (Some(_), Some((head, entry))) = (at, head.filter(|(_, entry)| !entry.in_flight && !entry.given_up)) {
            self.remove(head);
            self.insert(head, Entry { open: OpenDelivery { state, ..entry.open }, ..entry });
        }
        count
    }

    /// Every dead letter, in outbox order.
    pub fn dead(&self) -> Vec<Position> {
        let dead = self.entries.iter().filter(|(_, entry)| entry.open.state == OpenState::Dead && !entry.given_up);
        dead.map(|(position, _)| *position).collect()
    }

    /// Gives one event up. Whether that changed anything: it was undelivered or not yet read.
    pub fn skip(&mut self, position: Position) -> bool {
        if position >= self.read {
            return self.skipped_ahead.insert(position);
        }
        match self.entries.get(&position) {
            None => false,
            Some(entry) if entry.given_up => false,
            Some(entry) if entry.in_flight => {
                let mut entry = *entry;
                self.remove(position);
                entry.given_up = true;
                self.insert(position, entry);
                true
            }
            Some(_) => {
                self.remove(position);
                true
            }
        }
    }

    /// An undelivered event below the read position: its state as people see it, its record, and the dead one it waits behind.
    pub fn get(&self, position: Position) -> Option<(DeliveryState, OpenDelivery, Option<Position>)> {
        let entry = self.entries.get(&position).filter(|entry| !entry.given_up)?;
        let head = self.head(&entry.open.key);
        let blocked_by = head.filter(|head| *head != position && self.is_dead(*head));
        let state = match entry.open.state {
            OpenState::Dead => DeliveryState::Dead,
            _ if blocked_by.is_some() => DeliveryState::Blocked,
            OpenState::Retrying { .. } => DeliveryState::Retrying,
            OpenState::Queued => DeliveryState::Queued,
        };
        Some((state, entry.open, blocked_by))
    }

    /// Positions of undelivered events from `from` on, in outbox order.
    pub fn positions_from(&self, from: Position) -> impl Iterator<Item = Position> + '_ {
        self.entries.range(from..).filter(|(_, entry)| !entry.given_up).map(|(position, _)| *position)
    }

    /// Whether the consumer still needs this event: it is undelivered, or not yet read.
    pub fn needs(&self, position: Position) -> bool {
        position >= self.read || self.entries.contains_key(&position)
    }

    /// What changed since the last call. The caller writes it in one commit.
    pub fn take_changes(&mut self) -> QueueChanges {
        let mut put = Vec::new();
        for position in std::mem::take(&mut self.dirty) {
            if let Some(entry) = self.entries.get_mut(&position).filter(|entry| !entry.given_up) {
                entry.stored = true;
                put.push((position, entry.open));
            }
        }
        self.saved = self.read;
        QueueChanges { cursor: self.read, put, gone: std::mem::take(&mut self.gone).into_iter().collect() }
    }

    fn head(&self, key: &KeyDigest) -> Option<Position> {
        self.tails.get(key).and_then(|tail| tail.first().copied())
    }

    fn is_dead(&self, position: Position) -> bool {
        self.entries.get(&position).is_some_and(|entry| entry.open.state == OpenState::Dead)
    }

    /// How many events a dead head keeps from counting, itself included.
    fn parked_of(&self, key: &KeyDigest) -> usize {
        self.tails.get(key).filter(|tail| tail.first().is_some_and(|head| self.is_dead(*head))).map_or(0, BTreeSet::len)
    }

    fn failed(&mut self, position: Position, state: OpenState) -> Option<u32> {
        let entry = *self.entries.get(&position).filter(|entry| entry.open.state != OpenState::Dead)?;
        self.remove(position);
        if entry.given_up {
            return None;
        }
        let mut open = OpenDelivery { state, ..entry.open };
        open.attempts = open.attempts.saturating_add(1);
        open.attempts_ever = open.attempts_ever.saturating_add(1);
        self.insert(position, Entry { open, in_flight: false, ..entry });
        Some(open.attempts_ever)
    }

    fn requeue_key(&mut self, key: &KeyDigest) -> u64 {
        let tail: Vec<_> = self.tails.get(key).into_iter().flatten().copied().collect();
        let mut count = 0;
        for position in tail {
            let Some(entry) = self.entries.get(&position).copied().filter(|entry| !entry.given_up) else { continue };
            self.remove(position);
            let open = OpenDelivery { state: OpenState::Queued, attempts: 0, ..entry.open };
            self.insert(position, Entry { open, ..entry });
            count += 1;
        }
        count
    }

    fn insert(&mut self, position: Position, entry: Entry) {
        let key = entry.open.key;
        let parked_before = self.parked_of(&key);
        self.entries.insert(position, entry);
        self.tails.entry(key).or_default().insert(position);
        if entry.given_up {
            self.given_up += 1;
            self.gone_if_stored(position, entry);
        } else {
            self.count(entry.open.state, 1);
            self.dirty.insert(position);
            self.gone.remove(&position);
        }
        self.park(&key, parked_before);
        self.settle_ready(&key);
    }

    fn remove(&mut self, position: Position) {
        let Some(entry) = self.entries.get(&position).copied() else { return };
        let key = entry.open.key;
        let parked_before = self.parked_of(&key);
        self.entries.remove(&position);
        self.unready(position, entry.open.state);
        if let Some(tail) = self.tails.get_mut(&key) {
            tail.remove(&position);
            if tail.is_empty() {
                self.tails.remove(&key);
            }
        }
        match entry.given_up {
            true => self.given_up -= 1,
            false => self.count(entry.open.state, -1),
        }
        self.dirty.remove(&position);
        self.gone_if_stored(position, entry);
        self.park(&key, parked_before);
        self.settle_ready(&key);
    }

    fn gone_if_stored(&mut self, position: Position, entry: Entry) {
        self.dirty.remove(&position);
        if entry.stored {
            self.gone.insert(position);
        }
    }

    fn count(&mut self, state: OpenState, by: isize) {
        let counter = match state {
            OpenState::Queued => return,
            OpenState::Retrying { .. } => &mut self.retrying,
            OpenState::Dead => &mut self.dead,
        };
        *counter = counter.saturating_add_signed(by);
    }

    fn park(&mut self, key: &KeyDigest, before: usize) {
        self.parked = self.parked.saturating_sub(before).saturating_add(self.parked_of(key));
    }

    fn unready(&mut self, position: Position, state: OpenState) {
        self.ready.remove(&position);
        if let OpenState::Retrying { at } = state {
            self.timed.remove(&(at, position));
        }
    }

    /// Only the lowest undelivered event of a key can go out (G8).
    fn settle_ready(&mut self, key: &KeyDigest) {
        let Some(tail) = self.tails.get(key) else { return };
        // Also one behind the head may be out, if the head was put before it meanwhile.
        let one_is_out = tail.iter().any(|position| self.entries.get(position).is_some_and(|entry| entry.in_flight));
        let mut positions = tail.iter().copied();
        let Some(head) = positions.next() else { return };
        // Only the next one can have been ready: it was the head before.
        let second = positions.next();
        if let Some((second, entry)) = second.and_then(|at| Some((at, *self.entries.get(&at)?))) {
            self.unready(second, entry.open.state);
        }
        let Some(entry) = self.entries.get(&head).copied() else { return };
        if one_is_out {
            self.unready(head, entry.open.state);
            return;
        }
        match entry.open.state {
            _ if entry.given_up => {}
            OpenState::Dead => {}
            OpenState::Queued => drop(self.ready.insert(head)),
            OpenState::Retrying { at } if !self.ready.contains(&head) => drop(self.timed.insert((at, head))),
            OpenState::Retrying { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
