//! When payments were read from their nodes.

use super::span::Nanos;
use confirmd_core::{BlockHash, ChainId, DepositKey};
use std::collections::{HashMap, VecDeque};

/// Of what was read before so many others it is no longer known.
const KEPT: usize = 10_000;

/// From asked to answered.
pub(super) type Read = (Nanos, Nanos);

type Key = (ChainId, DepositKey);

/// The newest readings.
#[derive(Debug, Default)]
pub(super) struct Reads {
    by_key: HashMap<Key, (BlockHash, Read)>,
    order: VecDeque<Key>,
}

impl Reads {
    /// The first reading of a block counts, and the newest block.
    pub(super) fn note(&mut self, chain: &ChainId, key: &DepositKey, block: &BlockHash, read: Read) {
        let key = (chain.clone(), key.clone());
        match self.by_key.get_mut(&key) {
            Some((known, _)) if known == block => {}
            Some(other) => *other = (block.clone(), read),
            None => {
                self.order.push_back(key.clone());
                self.by_key.insert(key, (block.clone(), read));
            }
        }
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_key.remove(&oldest);
        }
    }

    /// Of a payment in this block.
    pub(super) fn of(&self, chain: &ChainId, key: &DepositKey, block: &BlockHash) -> Option<Read> {
        let (known, read) = self.by_key.get(&(chain.clone(), key.clone()))?;
        (known == block).then_some(*read)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use confirmd_core::TxId;

    #[test]
    fn the_first_reading_of_the_newest_block_is_kept_and_the_oldest_payments_are_forgotten() {
        let mut reads = Reads::default();
        let chain = ChainId::new("eip155:1").unwrap();
        let key = |n: usize| DepositKey { tx_id: TxId::new(format!("0x{n:x}")).unwrap(), output_index: 0 };
        let (old, new) = (BlockHash::new("0xaa").unwrap(), BlockHash::new("0xbb").unwrap());
        let read = |at| (Nanos(at), Nanos(at + 1));
        reads.note(&chain, &key(0), &old, read(1));
        reads.note(&chain, &key(0), &old, read(5));
        assert_eq!(reads.of(&chain, &key(0), &old), Some(read(1)));
        reads.note(&chain, &key(0), &new, read(9));
        assert_eq!((reads.of(&chain, &key(0), &old), reads.of(&chain, &key(0), &new)), (None, Some(read(9))));
        (1..=KEPT).for_each(|n| reads.note(&chain, &key(n), &new, read(9)));
        assert_eq!((reads.of(&chain, &key(0), &new), reads.by_key.len(), reads.order.len()), (None, KEPT, KEPT));
    }
}
