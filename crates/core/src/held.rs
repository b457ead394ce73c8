//! Held deposits by key, with an index by height: what a rollback or a rising floor touches is found without a scan.

pub use crate::deposit::Held;
use crate::{DepositKey, Height};
use std::collections::{BTreeSet, HashMap};

/// Deposits by key, and by the height of their block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByHeight<T> {
    by_key: HashMap<DepositKey, T>,
    by_height: BTreeSet<(Height, DepositKey)>,
}

impl<T> Default for ByHeight<T> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), by_height: BTreeSet::new() }
    }
}

impl<T: Held> ByHeight<T> {
    /// Adds or replaces the key's entry.
    pub fn put(&mut self, value: T) {
        let key = value.key().clone();
        self.remove(&key);
        self.by_height.insert((value.block().height, key.clone()));
        self.by_key.insert(key, value);
    }

    /// Takes the key's entry out.
    pub fn remove(&mut self, key: &DepositKey) -> Option<T> {
        let value = self.by_key.remove(key)?;
        self.by_height.remove(&(value.block().height, key.clone()));
        Some(value)
    }

    /// The key's entry.
    pub fn get(&self, key: &DepositKey) -> Option<&T> {
        self.by_key.get(key)
    }

    /// Entries in blocks above `height`, lowest first.
    pub fn above(&self, height: Height) -> impl DoubleEndedIterator<Item = &T> {
        let from = self.by_height.iter().rev().take_while(move |(h, _)| *h > height);
        let mut keys: Vec<_> = from.map(|(_, key)| key).collect();
        keys.reverse();
        keys.into_iter().filter_map(|key| self.by_key.get(key))
    }

    /// Entries in blocks at or below `height`, lowest first.
    pub fn at_or_below(&self, height: Height) -> impl Iterator<Item = &T> {
        self.by_height.iter().take_while(move |(h, _)| *h <= height).filter_map(|(_, key)| self.by_key.get(key))
    }

    /// Every entry, by height.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.by_height.iter().filter_map(|(_, key)| self.by_key.get(key))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
