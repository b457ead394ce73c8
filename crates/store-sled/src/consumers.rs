//! Consumers in the writer's memory, and how they are written down.

use crate::keys::{self, ConsumerNumber};
use crate::reader::{Reader, Rows};
use crate::record::Kind;
use crate::rows::{ConsumerRow, OpenRow, SkippedRow};
use crate::writer::Core;
use confirmd_core::{
    ConsumerName, ConsumerSpec, ConsumerStart, DeliveryQueue, OpenDelivery, Position, QueueCounts, StoreError, Timestamp,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest wait of the shipped schedule and its jitter: no persisted retry lies further ahead after a start.
const RETRY_AHEAD_MAX: Duration = Duration::from_secs(24 * 3600 * 12 / 10);
/// Records removed in one batch when a consumer is purged.
const PURGE_BATCH: usize = 10_000;

/// One consumer.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) number: ConsumerNumber,
    pub(crate) row: ConsumerRow,
    pub(crate) queue: DeliveryQueue,
}

/// Every consumer with records, configured or not.
#[derive(Debug, Default)]
pub(crate) struct Consumers(BTreeMap<ConsumerName, Consumer>);

/// What a status is made from.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) row: ConsumerRow,
    pub(crate) read: Position,
    pub(crate) end: Position,
    pub(crate) counts: QueueCounts,
    last_notice: Option<Position>,
}

fn unknown(name: &ConsumerName) -> StoreError {
    StoreError::Invalid(format!("there is no consumer {name} in this state; `confirmd status` shows those there are"))
}

impl Consumers {
    /// Reads every consumer and what it has not delivered.
    pub(crate) fn load(reader: &Reader, now: Timestamp) -> Result<Self, StoreError> {
        let mut consumers = BTreeMap::new();
        for row in reader.scan::<ConsumerRow>(&keys::all(Kind::Consumer)) {
            let (key, row) = row?;
            let number = keys::number_of(&key).unwrap_or_default();
            let mut open = Vec::new();
            for entry in reader.scan::<OpenRow>(&keys::of_consumer(Kind::Open, number)) {
                let (key, entry) = entry?;
                open.extend(keys::position_at(&key, 5).map(|position| (position, OpenDelivery::from(entry))));
            }
            let mut skipped = Vec::new();
            let from = keys::delivery(Kind::Skipped, number, row.cursor);
            let to = keys::delivery(Kind::Skipped, number, Position(u64::MAX));
            for entry in reader.range::<SkippedRow>(&from, &to) {
                skipped.extend(keys::position_at(&entry?.0, 5));
            }
            let queue = DeliveryQueue::restore(row.cursor, open, skipped, now.plus(RETRY_AHEAD_MAX));
            consumers.insert(row.name.clone(), Consumer { number, row, queue });
        }
        Ok(Self(consumers))
    }

    pub(crate) fn get(&self, name: &ConsumerName) -> Result<&Consumer, StoreError> {
        self.0.get(name).ok_or_else(|| unknown(name))
    }

    pub(crate) fn get_mut(&mut self, name: &ConsumerName) -> Result<&mut Consumer, StoreError> {
        self.0.get_mut(name).ok_or_else(|| unknown(name))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Consumer> {
        self.0.values()
    }

    pub(crate) fn release(&mut self, name: &ConsumerName, position: Position) {
        if let Some(consumer) = self.0.get_mut(name) {
            consumer.queue.release(position);
        }
    }
}

impl Consumer {
    /// Writes down what changed in its queue, with its row.
    pub(crate) fn save(&mut self, rows: &mut Rows) -> Result<(), StoreError> {
        let changes = self.queue.take_changes();
        self.row.cursor = changes.cursor;
        for (position, open) in changes.put {
            rows.put(keys::delivery(Kind::Open, self.number, position), &OpenRow::from(open))?;
        }
        for position in changes.gone {
            rows.remove(keys::delivery(Kind::Open, self.number, position));
        }
        rows.put(keys::consumer(self.number), &self.row)
    }
}

impl Core {
    /// Saves one consumer in a commit of its own, together with `rows`.
    pub(crate) fn save_consumer(&mut self, name: &ConsumerName, mut rows: Rows) -> Result<(), StoreError> {
        self.consumers.get_mut(name)?.save(&mut rows)?;
        self.write(rows)
    }

    /// Saves how far every consumer has read.
    pub(crate) fn save_consumers(&mut self) -> Result<(), StoreError> {
        let mut rows = Rows::default();
        let mut any = false;
        for consumer in self.consumers.0.values_mut().filter(|consumer| consumer.queue.unsaved() > 0) {
            consumer.save(&mut rows)?;
            any = true;
        }
        if any { self.write(rows) } else { Ok(()) }
    }

    /// Makes a consumer known, or updates its filter.
    pub(crate) fn register(&mut self, spec: &ConsumerSpec) -> Result<(), StoreError> {
        if let Ok(consumer) = self.consumers.get_mut(&spec.name) {
            consumer.queue.release_all();
            if consumer.row.filter == spec.filter {
                return Ok(());
            }
            consumer.row.filter = spec.filter.clone();
            return self.save_consumer(&spec.name, Rows::default());
        }
        let end = self.disk.progress.next_position;
        let began = match spec.start {
            _ if end == Position(1) => end,
            Some(ConsumerStart::Now) => end,
            Some(ConsumerStart::Beginning) => self.disk.reader.first_event(end)?,
            None => {
                let name = &spec.name;
                return Err(StoreError::Invalid(format!(
                    "the consumer {name} is new, and this state already holds events: set `start = \"now\"` (only what is decided from here on) \
                     or `start = \"beginning\"` (everything history holds) in [sinks.{name}]; if it is an old consumer under a new name, \
                     `confirmd consumer rename OLD {name}`"
                )));
            }
        };
        let number = self.disk.progress.next_consumer;
        self.disk.progress.next_consumer = number.saturating_add(1);
        let row = ConsumerRow { name: spec.name.clone(), filter: spec.filter.clone(), began, cursor: began, paused: None };
        self.consumers.0.insert(spec.name.clone(), Consumer { number, row, queue: DeliveryQueue::new(began) });
        self.save_consumer(&spec.name, Rows::default())
    }

    /// Stops or resumes a consumer's attempts.
    pub(crate) fn pause(&mut self, name: &ConsumerName, why: Option<String>) -> Result<(), StoreError> {
        let consumer = self.consumers.get_mut(name)?;
        if consumer.row.paused == why {
            return Ok(());
        }
        consumer.row.paused = why;
        self.save_consumer(name, Rows::default())
    }

    /// Moves a consumer's records to a new name.
    pub(crate) fn rename(&mut self, from: &ConsumerName, to: &ConsumerName) -> Result<(), StoreError> {
        self.consumers.get(from)?;
        if self.consumers.0.contains_key(to) {
            return Err(StoreError::Invalid(format!(
                "the consumer {to} has records of its own; purge them first (`confirmd consumer purge {to}`), or choose another name"
            )));
        }
        if let Some(mut consumer) = self.consumers.0.remove(from) {
            consumer.row.name = to.clone();
            self.consumers.0.insert(to.clone(), consumer);
        }
        self.save_consumer(to, Rows::default())
    }

    /// Deletes a consumer's records; how many undelivered events that gave up.
    pub(crate) fn purge(&mut self, name: &ConsumerName) -> Result<u64, StoreError> {
        let snapshot = self.snapshot(self.consumers.get(name)?);
        let counts = snapshot.counts;
        let open = u64::try_from(counts.waiting.saturating_add(counts.dead)).unwrap_or(u64::MAX);
        let unread = snapshot.unread(&self.disk.reader, u64::MAX)?;
        let Some(consumer) = self.consumers.0.remove(name) else { return Ok(0) };
        let mut rows = Rows::default();
        rows.remove(keys::consumer(consumer.number));
        // Without its row the rest is out of reach, and its number is never used again: a crash in between loses nothing.
        self.write(rows)?;
        for kind in [Kind::Open, Kind::Attempt, Kind::Excerpt, Kind::Skipped] {
            self.remove_all(&keys::of_consumer(kind, consumer.number))?;
        }
        Ok(open.saturating_add(unread))
    }

    fn remove_all(&mut self, prefix: &keys::Key) -> Result<(), StoreError> {
        loop {
            let found = self.disk.reader.keys(prefix, PURGE_BATCH)?;
            if found.is_empty() {
                return Ok(());
            }
            let mut rows = Rows::default();
            found.into_iter().for_each(|key| rows.remove(key));
            self.write(rows)?;
        }
    }

    pub(crate) fn snapshot(&self, consumer: &Consumer) -> Snapshot {
        Snapshot {
            row: consumer.row.clone(),
            read: consumer.queue.read(),
            end: self.disk.progress.next_position,
            counts: consumer.queue.counts(),
            last_notice: self.disk.progress.last_notice,
        }
    }
}

impl Snapshot {
    /// Whether no unread event is an informative one.
    fn all_decide(&self) -> bool {
        self.last_notice.is_none_or(|last| last < self.read)
    }

    /// How many events it has not read yet, counted up to `most`.
    pub(crate) fn unread(&self, reader: &Reader, most: u64) -> Result<u64, StoreError> {
        let filter = &self.row.filter;
        if filter.chains.is_empty() && filter.assets.is_empty() && self.all_decide() {
            return Ok(self.end.0.saturating_sub(self.read.0).min(most));
        }
        let mut unread = 0;
        for event in reader.events(self.read, self.end) {
            unread += u64::from(filter.takes(&event?.1.event));
            if unread >= most {
                break;
            }
        }
        Ok(unread)
    }
}
