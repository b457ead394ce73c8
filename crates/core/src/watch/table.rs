//! Watched addresses by their bytes: records in chunks of memory, and a table of where they are.
//!
//! An address costs its record (a script, its spelling at 6 bits a character, its reference, some 7 bytes more) and 5 to 10
//! bytes of the table. Nothing but a look-up that finds, or that shares 7 bits of hash with a watched address, leaves the
//! table's control bytes.

use super::WatchEntry;
use super::record::{self, Record};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

const CHUNK_BYTES: usize = 1 << 20;
/// Records begin at multiples of this, so that 32 bits name a place in 16 GiB.
const GRAIN: usize = 4;
/// Replaced and forgotten records are swept out once they are this much and more than half of all.
const SWEEP_BYTES: usize = 1 << 20;

/// Seeded per table, since outsiders choose what is looked up.
#[derive(Clone, Default)]
pub(super) struct Table {
    hasher: RandomState,
    places: HashTable<u32>,
    chunks: Vec<Vec<u8>>,
    garbage: usize,
}

impl Table {
    /// How many addresses.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether an address has these bytes.
    pub(super) fn contains(&self, bytes: &[u8]) -> bool {
        self.find(bytes).is_some()
    }

    /// The entry whose address has these bytes.
    pub(super) fn get(&self, bytes: &[u8]) -> Option<WatchEntry> {
        self.find(bytes).map(|record| record.entry())
    }

    /// Every entry, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = WatchEntry> {
        self.places.iter().filter_map(|place| record_at(&self.chunks, *place)).map(|record| record.entry())
    }

    /// Adds or replaces an entry.
    pub(super) fn put(&mut self, entry: &WatchEntry) {
        self.remove(entry.address.bytes());
        let mut memory = Vec::new();
        record::write(entry, &mut memory);
        self.insert(entry.address.bytes(), &memory);
    }

    /// Forgets an entry.
    pub(super) fn remove(&mut self, bytes: &[u8]) {
        let hash = self.hasher.hash_one(bytes);
        let Ok(found) = self.places.find_entry(hash, |place| is_at(&self.chunks, *place, bytes)) else { return };
        let (place, _) = found.remove();
        self.garbage += record_at(&self.chunks, place).map_or(0, |record| record.len());
        if self.garbage > SWEEP_BYTES && self.garbage > self.chunks.len() * CHUNK_BYTES / 2 {
            self.sweep();
        }
    }

    fn find(&self, bytes: &[u8]) -> Option<Record<'_>> {
        let hash = self.hasher.hash_one(bytes);
        let place = self.places.find(hash, |place| is_at(&self.chunks, *place, bytes))?;
        record_at(&self.chunks, *place)
    }

    fn insert(&mut self, bytes: &[u8], memory: &[u8]) {
        let place = append(&mut self.chunks, memory);
        let (hasher, chunks) = (&self.hasher, &self.chunks);
        let hash_at = |place: &u32| record_at(chunks, *place).map_or(0, |record| hasher.hash_one(record.bytes()));
        self.places.insert_unique(hasher.hash_one(bytes), place, hash_at);
    }

    /// Copies what is alive into new chunks, one old chunk's worth at a time in no order.
    fn sweep(&mut self) {
        let old = std::mem::take(self);
        self.hasher = old.hasher.clone();
        self.places.reserve(old.places.len(), |_| 0);
        for record in old.places.iter().filter_map(|place| record_at(&old.chunks, *place).map(|r| (*place, r))) {
            let (place, read) = record;
            self.insert(read.bytes(), memory_at(&old.chunks, place).and_then(|m| m.get(..read.len())).unwrap_or_default());
        }
    }
}

/// Where the appended record begins, in grains over all chunks. A chunk never grows beyond its first capacity, unless it holds one
/// oversized record alone.
fn append(chunks: &mut Vec<Vec<u8>>, memory: &[u8]) -> u32 {
    let fits = chunks.last().is_some_and(|chunk| chunk.len() + memory.len() <= CHUNK_BYTES);
    if !fits {
        chunks.push(Vec::with_capacity(CHUNK_BYTES.max(memory.len().next_multiple_of(GRAIN))));
    }
    let index = chunks.len() - 1;
    let chunk = chunks.last_mut().expect("invariant: one was pushed");
    let within = chunk.len();
    chunk.extend_from_slice(memory);
    // Whatever the capacity: a copy of a table has less, and the next record must begin at a grain all the same.
    chunk.resize(chunk.len().next_multiple_of(GRAIN), 0);
    u32::try_from(index * (CHUNK_BYTES / GRAIN) + within / GRAIN).expect("invariant: watched addresses fit 16 GiB")
}

fn memory_at(chunks: &[Vec<u8>], place: u32) -> Option<&[u8]> {
    let place = usize::try_from(place).ok()?;
    let grains = CHUNK_BYTES / GRAIN;
    chunks.get(place / grains)?.get(place % grains * GRAIN..)
}

fn record_at(chunks: &[Vec<u8>], place: u32) -> Option<Record<'_>> {
    memory_at(chunks, place).and_then(Record::read)
}

fn is_at(chunks: &[Vec<u8>], place: u32, bytes: &[u8]) -> bool {
    record_at(chunks, place).is_some_and(|record| record.bytes() == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Height, WatchOrigin, WatchState};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry(number: u16, reference: &str) -> WatchEntry {
        WatchEntry {
            address: Address::new(number.to_be_bytes(), format!("address{number}")),
            reference: (!reference.is_empty()).then(|| reference.into()),
            from: Height(u64::from(number)),
            origin: WatchOrigin::Command,
            state: WatchState::Watching,
            history: None,
        }
    }

    proptest! {
        #[test]
        fn the_table_holds_what_a_map_would_hold(steps in prop::collection::vec((0_u16..40, prop::option::of("[a-z]{0,20}")), 0..200)) {
            let mut table = Table::default();
            let mut map = BTreeMap::new();
            for (number, put) in steps {
                match put {
                    Some(reference) => {
                        table.put(&entry(number, &reference));
                        map.insert(number, entry(number, &reference));
                    }
                    None => {
                        table.remove(&number.to_be_bytes());
                        map.remove(&number);
                    }
                }
            }
            prop_assert_eq!(table.len(), map.len());
            for number in 0..40_u16 {
                prop_assert_eq!(table.get(&number.to_be_bytes()), map.get(&number).cloned());
                prop_assert_eq!(table.contains(&number.to_be_bytes()), map.contains_key(&number));
            }
            let mut all: Vec<_> = table.iter().collect();
            all.sort_by(|a, b| a.address.cmp(&b.address));
            prop_assert_eq!(all, map.into_values().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_copy_takes_more_addresses_and_finds_them() {
        for length in 0..40 {
            let mut table = Table::default();
            table.put(&entry(0, ""));
            let mut copy = table.clone();
            for number in 1..40 {
                copy.put(&entry(number, &"r".repeat(length)));
            }
            let found = (0..40).filter(|number: &u16| copy.contains(&number.to_be_bytes())).count();
            assert_eq!(found, 40, "references of {length} bytes");
        }
    }

    #[test]
    fn labels_that_change_for_ever_take_no_more_memory() {
        let mut table = Table::default();
        let reference = "r".repeat(10_000);
        for round in 0..1_000_u16 {
            table.put(&entry(round % 7, &reference));
        }
        assert_eq!(table.len(), 7);
        assert!(table.chunks.len() <= 4, "{} chunks", table.chunks.len());
        assert_eq!(table.get(&3_u16.to_be_bytes()), Some(entry(3, &reference)));
    }

    #[test]
    fn an_entry_larger_than_a_chunk_is_held() {
        let mut table = Table::default();
        let reference = "r".repeat(3 * CHUNK_BYTES);
        for number in 0..4 {
            table.put(&entry(number, if number % 2 == 0 { "small" } else { &reference }));
        }
        assert_eq!(table.get(&1_u16.to_be_bytes()), Some(entry(1, &reference)));
        assert_eq!(table.get(&2_u16.to_be_bytes()), Some(entry(2, "small")));
    }
}
