//! The consumer's side: the documented rule, and nothing else.

use confirmd_core::{ChainId, DepositKey, Payment};
use std::collections::BTreeMap;

/// What is kept of a key, also after it was reverted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Epoch and sequence of the last event that counted.
    pub last: (u64, u64),
    /// Whether the deposit is credited.
    pub stands: bool,
    /// What was credited, or taken back.
    pub payment: Payment,
}

/// What the rule says of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Not greater than what is stored: nothing happens.
    Ignored,
    /// Stored; the standing is as before and no money moves.
    Stored,
    /// Stored, and money moves.
    Moved,
}

/// A consumer's rows, by chain and key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    rows: BTreeMap<(ChainId, DepositKey), Row>,
}

impl Ledger {
    /// Every row.
    pub fn rows(&self) -> &BTreeMap<(ChainId, DepositKey), Row> {
        &self.rows
    }

    /// Rows that are credited.
    pub fn standing(&self) -> impl Iterator<Item = (&(ChainId, DepositKey), &Row)> {
        self.rows.iter().filter(|(_, row)| row.stands)
    }

    /// Ignore what is not greater than the stored (epoch, sequence); otherwise store it, and move money only if the standing
    /// changes.
    pub fn take(&mut self, chain: &ChainId, key: &DepositKey, last: (u64, u64), stands: bool, payment: &Payment) -> Rule {
        let place = (chain.clone(), key.clone());
        let stored = self.rows.get(&place);
        if stored.is_some_and(|row| last <= row.last) {
            return Rule::Ignored;
        }
        let stood = stored.filter(|row| row.stands);
        let moved = stood.is_some() != stands;
        // A credited row keeps what was credited for it.
        let payment = stood.map_or_else(|| payment.clone(), |row| row.payment.clone());
        self.rows.insert(place, Row { last, stands, payment });
        if moved { Rule::Moved } else { Rule::Stored }
    }
}
