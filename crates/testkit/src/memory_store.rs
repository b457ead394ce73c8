//! A store in memory, small enough to be obviously right: what other stores are measured by.
//!
//! A [`MemoryDisk`] is the medium. It outlives the [`MemoryStore`] that is open on it, can be copied at any moment like the disk
//! of a machine that just died, and can be made to fail. What is on it changes in whole commits only.

mod deposits;
mod disk;
mod history;
mod listing;
mod lives;
mod outbox;
mod state;

pub use disk::MemoryDisk;

use confirmd_core::{ConsumerName, DeliveryQueue, Epoch, Position, StoreError, Timestamp};
use disk::{Books, Image};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// No retry is brought forward when a store is opened: there is no clock here that may have jumped.
const RETRY_LATEST: Timestamp = Timestamp(u64::MAX);

/// `StateStore`, `Outbox` and `History` over a [`MemoryDisk`], with one owner at a time. Dropping it lets the disk go.
#[derive(Debug)]
pub struct MemoryStore {
    disk: MemoryDisk,
    epoch: Epoch,
    queues: Mutex<BTreeMap<ConsumerName, DeliveryQueue>>,
    poisoned: AtomicBool,
}

/// What one call works on: the medium, and what is out.
struct Work<'a> {
    image: MutexGuard<'a, Image>,
    queues: MutexGuard<'a, BTreeMap<ConsumerName, DeliveryQueue>>,
}

impl MemoryStore {
    /// Opens what is on the disk; with `init` an empty disk becomes an empty store. `Refused` if the disk is in use, damaged,
    /// of another format, or empty without `init`.
    pub fn open(disk: &MemoryDisk, init: bool) -> Result<Self, StoreError> {
        let mut image = disk.image();
        image.take(init)?;
        let queue = |consumer: &disk::Consumer| {
            let skipped = consumer.skipped.keys().copied();
            DeliveryQueue::restore(consumer.cursor, consumer.open.clone(), skipped, RETRY_LATEST)
        };
        let queues = image.books.consumers.iter().map(|(name, consumer)| (name.clone(), queue(consumer))).collect();
        let epoch = image.books.epoch;
        drop(image);
        Ok(Self { disk: disk.clone(), epoch, queues: Mutex::new(queues), poisoned: AtomicBool::new(false) })
    }

    fn work(&self) -> Result<Work<'_>, StoreError> {
        if self.poisoned.load(Ordering::SeqCst) {
            return Err(unknown());
        }
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Work { image: self.disk.image(), queues })
    }

    /// Changes the books in one commit: whole, or not at all where `change` fails.
    fn commit_with<T>(&self, change: impl FnOnce(&mut Books, &mut Queues<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut work = self.work()?;
        let Work { image, queues } = &mut work;
        let fault = image.fault.take();
        let mut books = image.books.clone();
        let answer = change(&mut books, &mut Queues(queues))?;
        match fault {
            None => {
                image.books = books;
                Ok(answer)
            }
            Some(written) => {
                if written {
                    image.books = books;
                }
                self.poisoned.store(true, Ordering::SeqCst);
                Err(unknown())
            }
        }
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.disk.image().let_go();
    }
}

/// The delivery queues beside the books.
struct Queues<'a>(&'a mut BTreeMap<ConsumerName, DeliveryQueue>);

impl Queues<'_> {
    /// Both sides of a consumer.
    fn both<'b>(
        &'b mut self,
        books: &'b mut Books,
        name: &ConsumerName,
    ) -> Result<(&'b mut DeliveryQueue, &'b mut disk::Consumer), StoreError> {
        match (self.0.get_mut(name), books.consumers.get_mut(name)) {
            (Some(queue), Some(consumer)) => Ok((queue, consumer)),
            _ => Err(no_consumer(name)),
        }
    }

    /// Writes down what changed in a consumer's queue.
    fn save(&mut self, books: &mut Books, name: &ConsumerName) -> Result<(), StoreError> {
        let (queue, consumer) = self.both(books, name)?;
        let changes = queue.take_changes();
        consumer.cursor = changes.cursor;
        consumer.open.extend(changes.put);
        consumer.open.retain(|position, _| !changes.gone.contains(position));
        Ok(())
    }
}

fn unknown() -> StoreError {
    StoreError::Unknown { context: "the disk failed in a write".to_owned(), source: None }
}

fn no_consumer(name: &ConsumerName) -> StoreError {
    StoreError::Invalid(format!("there is no consumer {name} in this store; register it first"))
}

fn no_event(name: &ConsumerName, position: Position) -> StoreError {
    StoreError::Invalid(format!("there is no event at position {position} for the consumer {name}; list shows those there are"))
}
