//! Payments below their minimum: nothing holds them, so what a commit means for them is found in the read model.

use crate::deposit_index::below_minimum_above;
use crate::keys;
use crate::reader::Reader;
use crate::rows::DepositRow;
use confirmd_core::{Change, ChangeSet, DepositKey, DepositState, KeyDigest, SmallsBefore, StoreError};
use std::collections::HashSet;

/// What one change set says about them.
#[derive(Debug, Default)]
pub(crate) struct Smalls {
    /// Their blocks leave the best chain.
    pub(crate) left: Vec<DepositRow>,
    /// Seen again where they were.
    known: HashSet<DepositKey>,
}

impl Smalls {
    pub(crate) fn of(reader: &Reader, set: &ChangeSet) -> Result<Self, StoreError> {
        let mut smalls = Self::default();
        if let Some(ancestor) = set.lowest_cut() {
            let (from, to) = below_minimum_above(&set.chain, ancestor);
            for entry in reader.range::<()>(&from, &to) {
                let (key, ()) = entry?;
                let Some(digest) = keys::digest_of(&key) else { continue };
                smalls.left.extend(reader.get::<DepositRow>(&keys::deposit(&digest))?);
            }
        }
        let left: HashSet<DepositKey> = smalls.left.iter().map(|row| row.key.clone()).collect();
        for change in &set.changes {
            let Change::SmallSeen(small) = change else { continue };
            let (key, block) = (&small.transfer.key, &small.transfer.block);
            let row: Option<DepositRow> = reader.get(&keys::deposit(&KeyDigest::of(&set.chain, key)))?;
            let there = |row: &DepositRow| row.state == DepositState::BelowMinimum && row.block == *block;
            if row.as_ref().is_some_and(there) && !left.contains(key) {
                smalls.known.insert(key.clone());
            }
        }
        Ok(smalls)
    }

    /// Whether a payment that is seen says nothing new.
    pub(crate) fn knows(&self, key: &DepositKey) -> bool {
        self.known.contains(key)
    }

    /// As the lives of deposits are told by it.
    pub(crate) fn before(&self) -> SmallsBefore<'_> {
        SmallsBefore { left: self.left.iter().map(|row| (&row.key, &row.block)).collect(), known: &self.known }
    }
}
