//! Retention: forgets what ended long ago and nobody waits for, a little at a time. Sequences and settled keys are never touched.

use crate::keys::{self, Key};
use crate::reader::Rows;
use crate::record::Kind;
use crate::rows::{DepositRow, EventRow};
use crate::writer::Core;
use confirmd_core::{KeyDigest, Position, ReorgRecord, StoreError, Timestamp};

/// Records looked at in one turn of the writer.
const TURN: usize = 500;
/// Steps of one deposit's life that are forgotten with it; more happen to none.
const LIFE_MAX: usize = 10_000;
/// Younger events in a row after which the rest is taken to be younger too: a clock may have jumped back and forth.
const YOUNGER_MAX: u32 = 1_000;

/// What is pruned next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    Events { from: Position },
    Deposits { from: Key },
    Done,
}

/// One pruning, turn by turn.
#[derive(Debug, Clone)]
pub(crate) struct Pruning {
    before: Timestamp,
    pub(crate) stage: Stage,
    younger: u32,
    pub(crate) events: u64,
    /// Events from here on are held by readers' cursors.
    held_from: Option<Position>,
}

impl Pruning {
    pub(crate) fn new(before: Timestamp) -> Self {
        Self { before, stage: Stage::Events { from: Position(0) }, younger: 0, events: 0, held_from: None }
    }
}

impl Core {
    /// One turn; the answer says where the next one goes on.
    pub(crate) fn prune(&mut self, mut pruning: Pruning) -> Result<Pruning, StoreError> {
        let mut rows = Rows::default();
        let removed = match pruning.stage.clone() {
            Stage::Events { from } => {
                if from == Position(0) {
                    self.save_consumers()?;
                    pruning.held_from = self.expire_cursors(pruning.before, &mut rows)?;
                    self.prune_reorgs(pruning.before, &mut rows)?;
                }
                self.prune_events(from, &mut pruning, &mut rows)?
            }
            Stage::Deposits { from } => self.prune_deposits(&from, &mut pruning, &mut rows)?,
            Stage::Done => 0,
        };
        if removed > 0 || !rows.is_empty() {
            self.write(rows)?;
        }
        Ok(pruning)
    }

    fn prune_events(&self, from: Position, pruning: &mut Pruning, rows: &mut Rows) -> Result<u64, StoreError> {
        let mut removed = 0;
        let mut last = None;
        for row in self.disk.reader.events(from, self.disk.progress.next_position).take(TURN) {
            let (position, event) = row?;
            last = Some(position);
            if event.event.decided_at >= pruning.before {
                pruning.younger += 1;
                if pruning.younger >= YOUNGER_MAX {
                    last = None;
                    break;
                }
                continue;
            }
            pruning.younger = 0;
            let held = pruning.held_from.is_some_and(|from| position >= from);
            if !held && !self.event_is_needed(position, &event)? {
                self.forget_event(position, &event, rows)?;
                removed += 1;
            }
        }
        pruning.events = pruning.events.saturating_add(removed);
        pruning.stage = match last {
            Some(position) => Stage::Events { from: position.next() },
            None => Stage::Deposits { from: keys::all(Kind::ByTime) },
        };
        Ok(removed)
    }

    /// Cursors that were not used for long expire; the lowest position that the others still wait for.
    fn expire_cursors(&self, before: Timestamp, rows: &mut Rows) -> Result<Option<Position>, StoreError> {
        let mut held_from: Option<Position> = None;
        for mut cursor in self.cursors()? {
            if cursor.used_at < before && !cursor.expired {
                cursor.expired = true;
                tracing::warn!(cursor = %cursor.name, "a reader's cursor was idle for longer than history and has expired");
                rows.put(keys::cursor(&cursor.name), &cursor)?;
            }
            if !cursor.expired {
                let next = cursor.after.next();
                held_from = Some(held_from.map_or(next, |from| from.min(next)));
            }
        }
        Ok(held_from)
    }

    fn prune_reorgs(&self, before: Timestamp, rows: &mut Rows) -> Result<(), StoreError> {
        for row in self.disk.reader.scan::<ReorgRecord>(&keys::all(Kind::Reorg)).take(TURN) {
            let (key, reorg) = row?;
            if reorg.at < before {
                rows.remove(key);
            }
        }
        Ok(())
    }

    fn event_is_needed(&self, position: Position, row: &EventRow) -> Result<bool, StoreError> {
        Ok(self.consumers.iter().any(|consumer| consumer.queue.needs(position)) || self.is_live(row.chain(), &row.digest())?)
    }

    fn is_live(&self, chain: &confirmd_core::ChainId, digest: &KeyDigest) -> Result<bool, StoreError> {
        self.heads.get(chain).map_or(Ok(false), |head| self.disk.reader.is_held(head.number, digest))
    }

    fn forget_event(&self, position: Position, row: &EventRow, rows: &mut Rows) -> Result<(), StoreError> {
        rows.remove(keys::event(position));
        rows.remove(keys::event_id(&row.event.id));
        for consumer in self.consumers.iter() {
            rows.remove(keys::delivery(Kind::Skipped, consumer.number, position));
            let attempts = keys::delivery(Kind::Attempt, consumer.number, position);
            self.disk.reader.keys(&attempts, TURN)?.into_iter().for_each(|key| rows.remove(key));
            let excerpts = keys::delivery(Kind::Excerpt, consumer.number, position);
            self.disk.reader.keys(&excerpts, TURN)?.into_iter().for_each(|key| rows.remove(key));
        }
        Ok(())
    }

    fn prune_deposits(&self, from: &Key, pruning: &mut Pruning, rows: &mut Rows) -> Result<u64, StoreError> {
        let to = keys::index_entry(Kind::ByTime, &[], pruning.before, &KeyDigest([0; 16]));
        let mut removed = 0;
        let mut last = None;
        for entry in self.disk.reader.range::<()>(from, &to).take(TURN) {
            let (key, ()) = entry?;
            last = Some(Key::behind(&key));
            let Some(digest) = keys::digest_of(&key) else { continue };
            let Some(row) = self.disk.reader.get::<DepositRow>(&keys::deposit(&digest))? else { continue };
            if self.deposit_ended(&digest, &row, pruning.before)? {
                crate::deposit_index::index_keys(&digest, &row).into_iter().for_each(|entry| rows.remove(entry));
                rows.remove(keys::deposit(&digest));
                self.disk.reader.keys(&keys::life(&digest), LIFE_MAX)?.into_iter().for_each(|key| rows.remove(key));
                removed += 1;
            }
        }
        pruning.stage = last.map_or(Stage::Done, |from| Stage::Deposits { from });
        Ok(removed)
    }

    fn deposit_ended(&self, digest: &KeyDigest, row: &DepositRow, before: Timestamp) -> Result<bool, StoreError> {
        if !row.state.has_ended() || row.changed_at >= before || self.is_live(&row.chain, digest)? {
            return Ok(false);
        }
        Ok(!row.event.is_some_and(|position| self.consumers.iter().any(|consumer| consumer.queue.needs(position))))
    }
}
