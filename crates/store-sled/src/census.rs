//! What the database must hold: how many records, and a sum over them, kept in the record that moves with every commit.
//!
//! sled can lose records without a word: a damaged message in the middle of its log is passed over together with the rest of its
//! segment, and the pages written there stay as they were before. The newest commits may be there all the same. Each record's hash is
//! added when it is written and taken away when it is replaced or removed; at the start the sum over what is found must be the same.

use crate::damage::{REMEDY, refused};
use crate::reader::{Reader, Rows};
use crate::record::{Kind, check, stored_checksum};
use confirmd_core::StoreError;
use serde::{Deserialize, Serialize};

/// Up to so many records, each one is looked at when the store is opened; beyond, those that are loaded anyway.
const COUNTED_MAX: u64 = 5_000_000;

/// A number of records and the sum of their hashes. The order does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    records: u64,
    sum: u64,
}

/// Every record but the store's own two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Census {
    /// What is loaded at every start: chains, trails, held deposits, addresses, consumers, undelivered events.
    live: Tally,
    /// What grows: archived keys, events, history.
    kept: Tally,
}

impl Tally {
    fn add(&mut self, hash: u64) {
        self.records = self.records.wrapping_add(1);
        self.sum = self.sum.wrapping_add(hash);
    }

    fn take_away(&mut self, hash: u64) {
        self.records = self.records.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(hash);
    }
}

impl Census {
    /// As it will be after a commit.
    pub(crate) fn after(mut self, rows: &Rows, reader: &Reader) -> Result<Self, StoreError> {
        #[cfg(test)]
        let _spent = Spent(std::time::Instant::now());
        for (key, value) in rows.iter() {
            let Some(tally) = self.of(Kind::of(key)) else { continue };
            if let Some(old) = reader.raw(key)? {
                tally.take_away(hash(key, &old));
            }
            if let Some(value) = value {
                tally.add(hash(key, value));
            }
        }
        Ok(self)
    }

    /// Compares the database with what it must hold.
    pub(crate) fn verify(&self, reader: &Reader) -> Result<(), StoreError> {
        #[cfg(test)]
        let _spent = Spent(std::time::Instant::now());
        let mut found = Self::default();
        let every = self.live.records.saturating_add(self.kept.records) <= COUNTED_MAX;
        let kinds = Kind::ALL.into_iter().filter(|kind| every || is_live(*kind));
        for kind in kinds {
            for row in reader.raw_scan(kind) {
                let (key, value) = row?;
                check(&key, &value)?;
                if let Some(tally) = found.of(Some(kind)) {
                    tally.add(hash(&key, &value));
                }
            }
        }
        if !every {
            tracing::info!(records = self.kept.records, "the state is too large to count all of it at the start");
            found.kept = self.kept;
        }
        if found == *self {
            return Ok(());
        }
        let records = |census: &Self| census.live.records.saturating_add(census.kept.records);
        Err(refused(format!(
            "the state in {} is damaged: records that were committed are missing or are older ones ({} of {} are there); {REMEDY}",
            reader.path().display(),
            records(&found),
            records(self)
        )))
    }

    fn of(&mut self, kind: Option<Kind>) -> Option<&mut Tally> {
        match kind? {
            Kind::Meta | Kind::Progress => None,
            kind if is_live(kind) => Some(&mut self.live),
            _ => Some(&mut self.kept),
        }
    }
}

/// Time spent on the census by this process.
#[cfg(test)]
pub(crate) static SPENT_NS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[cfg(test)]
struct Spent(std::time::Instant);

#[cfg(test)]
impl Drop for Spent {
    fn drop(&mut self) {
        let spent = u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        SPENT_NS.fetch_add(spent, std::sync::atomic::Ordering::Relaxed);
    }
}

fn is_live(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Head
            | Kind::Trail
            | Kind::Pending
            | Kind::Reported
            | Kind::Orphaned
            | Kind::Watch
            | Kind::Asset
            | Kind::Rescan
            | Kind::Consumer
            | Kind::Open
            | Kind::Skipped
    )
}

/// From the checksums of the key and of the record, mixed so that sums don't cancel out.
fn hash(key: &[u8], value: &[u8]) -> u64 {
    let mixed = (u64::from(crc32fast::hash(key)) << 32 | u64::from(stored_checksum(value))).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
