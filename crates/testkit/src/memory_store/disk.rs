//! The medium: what a store finds again.

use confirmd_core::{
    Archived, Attempt, ChainId, ChainState, ConsumerFilter, ConsumerName, CursorName, DepositKey, DepositRecord, Epoch, EventId,
    EventRecord, LifeStep, OpenDelivery, Position, PullCursor, ReorgRecord, StoreError,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The format this store reads and writes.
const FORMAT: u32 = 1;
/// The epoch of every new store, in Unix seconds.
const EPOCH: Epoch = Epoch(1_790_000_000);

/// What a [`super::MemoryStore`] stands on. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<Image>>);

/// A disk's content and condition.
#[derive(Debug, Clone, Default)]
pub(super) struct Image {
    initialised: bool,
    format: u32,
    damaged: bool,
    owned: bool,
    /// The next commit fails; whether it is written nevertheless.
    pub(super) fault: Option<bool>,
    pub(super) books: Books,
}

/// Everything that was committed.
#[derive(Debug, Clone)]
pub(super) struct Books {
    pub(super) epoch: Epoch,
    pub(super) chains: BTreeMap<ChainId, ChainBooks>,
    pub(super) events: BTreeMap<Position, EventRecord>,
    pub(super) positions: HashMap<EventId, Position>,
    pub(super) next: Position,
    pub(super) consumers: BTreeMap<ConsumerName, Consumer>,
    pub(super) deposits: BTreeMap<(ChainId, DepositKey), DepositRecord>,
    pub(super) lives: BTreeMap<(ChainId, DepositKey), Vec<LifeStep>>,
    pub(super) reorgs: Vec<(ChainId, ReorgRecord)>,
    pub(super) cursors: BTreeMap<CursorName, PullCursor>,
    /// Grows with every commit; stands in for the time in the read model.
    pub(super) commits: u64,
}

/// One chain.
#[derive(Debug, Clone, Default)]
pub(super) struct ChainBooks {
    pub(super) state: ChainState,
    pub(super) archived: BTreeMap<DepositKey, (Archived, Option<Position>)>,
}

/// One consumer, as far as it is written down.
#[derive(Debug, Clone)]
pub(super) struct Consumer {
    pub(super) filter: ConsumerFilter,
    pub(super) began: Position,
    pub(super) cursor: Position,
    pub(super) paused: Option<String>,
    pub(super) open: BTreeMap<Position, OpenDelivery>,
    /// Given up, with the attempts made until then.
    pub(super) skipped: BTreeMap<Position, u32>,
    pub(super) attempts: BTreeMap<Position, Vec<Attempt>>,
}

impl Default for Books {
    fn default() -> Self {
        Self {
            epoch: EPOCH,
            chains: BTreeMap::new(),
            events: BTreeMap::new(),
            positions: HashMap::new(),
            next: Position(1),
            consumers: BTreeMap::new(),
            deposits: BTreeMap::new(),
            lives: BTreeMap::new(),
            reorgs: Vec::new(),
            cursors: BTreeMap::new(),
            commits: 0,
        }
    }
}

impl MemoryDisk {
    /// An empty disk whose store will have this epoch: a state that is begun again.
    #[must_use]
    pub fn of_epoch(epoch: Epoch) -> Self {
        let disk = Self::default();
        disk.image().books.epoch = epoch;
        disk
    }

    /// What a machine that died this moment would leave; nobody owns it.
    #[must_use]
    pub fn copy(&self) -> Self {
        let image = Image { owned: false, fault: None, ..self.image().clone() };
        Self(Arc::new(Mutex::new(image)))
    }

    /// The next commit fails with `StoreError::Unknown`; `written` says what opening the store again will find.
    pub fn fail_next_commit(&self, written: bool) {
        self.image().fault = Some(written);
    }

    /// Its checksums fail from now on.
    pub fn damage(&self) {
        self.image().damaged = true;
    }

    /// It was written by a version that is not known here.
    pub fn age(&self) {
        self.image().format = FORMAT + 1;
    }

    pub(super) fn image(&self) -> MutexGuard<'_, Image> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Image {
    /// Becomes somebody's, after what a start depends on was checked.
    pub(super) fn take(&mut self, init: bool) -> Result<(), StoreError> {
        let refused = |context: &str| Err(StoreError::Refused { context: context.to_owned(), source: None });
        if !self.initialised && !init {
            return refused("the disk holds no store; ask for a new one with init, or correct which disk is opened");
        }
        if self.owned {
            return refused("the disk is in use by another store; close that one first");
        }
        if self.initialised && self.format != FORMAT {
            return refused("the disk was written in another format; open it with the version that wrote it");
        }
        if self.damaged {
            return refused("the disk is damaged, a checksum fails; put a copy back or begin anew");
        }
        (self.initialised, self.format, self.owned) = (true, FORMAT, true);
        Ok(())
    }

    pub(super) fn let_go(&mut self) {
        self.owned = false;
    }
}
