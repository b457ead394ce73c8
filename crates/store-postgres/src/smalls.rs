//! Payments below their minimum: nothing holds them, so what a commit means for them is found in the read model.

use crate::deposits::Stored;
use confirmd_core::{Change, ChangeSet, DepositKey, DepositRecord, DepositState, KeyDigest, SmallsBefore};
use std::collections::HashSet;

/// What one change set says about them.
#[derive(Debug, Default)]
pub(crate) struct Smalls {
    /// Their blocks leave the best chain.
    pub(crate) left: Vec<DepositRecord>,
    /// Seen again where they were.
    known: HashSet<DepositKey>,
}

impl Smalls {
    /// `left` are those that the read model has in blocks above [`ChangeSet::lowest_cut`].
    pub(crate) fn of(set: &ChangeSet, stored: &Stored, left: Vec<DepositRecord>) -> Self {
        let gone: HashSet<&DepositKey> = left.iter().map(|row| &row.key).collect();
        let known = set.changes.iter().filter_map(|change| match change {
            Change::SmallSeen(small) => {
                let (key, block) = (&small.transfer.key, &small.transfer.block);
                let row = stored.deposit(&KeyDigest::of(&set.chain, key));
                let there = row.is_some_and(|row| row.state == DepositState::BelowMinimum && row.block == *block);
                (there && !gone.contains(key)).then(|| key.clone())
            }
            _ => None,
        });
        let known = known.collect();
        Self { left, known }
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
