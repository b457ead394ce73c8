//! Informative events: told to the consumers that ask for them, part of no ledger.

use crate::{ChainId, ConsumerFilter, DepositKey, Epoch, Sequence, StateVersion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

/// What an event says that decides nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Notice {
    /// Seen in a block that is not deep enough yet.
    Detected,
    /// Final: its confirmed event will not be followed by a reverted one, unless an operator says so.
    Settled,
}

impl Notice {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Detected, Self::Settled];

    /// As a configuration and a store write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Detected => "detected",
            Self::Settled => "settled",
        }
    }

    /// The one with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|notice| notice.word() == word)
    }
}

/// What names an informative event: the deposit, its last decision, and the one commit of its chain that says so. No commit says the same of
/// a deposit twice, and no version comes twice within an epoch.
#[derive(Debug, Clone, Copy)]
pub struct NoticeName<'a> {
    /// Which chain.
    pub chain: &'a ChainId,
    /// Which deposit.
    pub key: &'a DepositKey,
    /// The state's epoch.
    pub epoch: Epoch,
    /// The deposit's last decision; [`Sequence::NONE`] if there was none.
    pub sequence: Sequence,
    /// What it says.
    pub notice: Notice,
    /// The chain's state that it was decided from.
    pub base: StateVersion,
}

/// Which informative events anybody asks for; changes while watchers run. By default none.
#[derive(Debug, Default)]
pub struct NoticesWanted(RwLock<Vec<ConsumerFilter>>);

impl NoticesWanted {
    /// What these consumers ask for, from the next decision on.
    pub fn set<'a>(&self, filters: impl IntoIterator<Item = &'a ConsumerFilter>) {
        let asking = filters.into_iter().filter(|filter| !filter.notices.is_empty()).cloned().collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = asking;
    }

    /// What is asked for of a chain.
    pub fn of(&self, chain: &ChainId) -> BTreeSet<Notice> {
        let filters = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let asking = filters.iter().filter(|filter| filter.chains.is_empty() || filter.chains.contains(chain));
        asking.flat_map(|filter| filter.notices.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_wanted_of_a_chain_is_what_its_consumers_ask_for() {
        let (one, two) = (ChainId::new("scripted:one").unwrap(), ChainId::new("scripted:two").unwrap());
        let filter = |chains: &[&ChainId], notices: &[Notice]| ConsumerFilter {
            chains: chains.iter().map(|chain| (*chain).clone()).collect(),
            notices: notices.iter().copied().collect(),
            ..ConsumerFilter::default()
        };
        let wanted = NoticesWanted::default();
        assert!(wanted.of(&one).is_empty());
        wanted.set(&[filter(&[&one], &[Notice::Detected]), filter(&[], &[Notice::Settled]), filter(&[], &[])]);
        assert_eq!(wanted.of(&one), Notice::ALL.into());
        assert_eq!(wanted.of(&two), [Notice::Settled].into());
    }
}
