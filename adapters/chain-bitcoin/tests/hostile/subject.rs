//! One block that is right, and what may happen to it.

use crate::data::watching_all;
use bitcoin::BlockHash;
use confirmd_chain_bitcoin::{Block, DecodeError, Network, transfers_in};
use confirmd_core::{Height, Transfer, WatchSet};
use confirmd_hostile::{Alteration, assert_bounded};
use fastrand::Rng;

/// Ids take 32 bytes where a transaction has at least 10, outputs 32 where one has at least 9, and lists grow by doubling.
const FACTOR: u64 = 16;
const BASE: u64 = 64 * 1024;

pub(crate) struct Subject {
    pub(crate) bytes: Vec<u8>,
    network: &'static Network,
    hash: BlockHash,
    watch: WatchSet,
    paid: Vec<Transfer>,
}

impl Subject {
    /// Everything that can be watched is.
    pub(crate) fn new(bytes: Vec<u8>, network: &'static Network) -> Self {
        let block = Block::decode(&bytes, network).unwrap();
        let watch = watching_all(&block, network);
        let (hash, paid) = (block.hash, transfers_in(&block, Height(7), &network.coin(), &watch));
        Self { bytes, network, hash, watch, paid }
    }

    fn read(&self, bytes: &[u8]) -> Result<Vec<Transfer>, DecodeError> {
        let block = assert_bounded(bytes.len(), FACTOR, BASE, || Block::decode_as(&self.hash, bytes, self.network))?;
        Ok(transfers_in(&block, Height(7), &self.network.coin(), &self.watch))
    }

    /// True if the alteration was refused; panics if it was taken and pays anything else.
    pub(crate) fn survives(&self, change: Alteration) -> bool {
        let altered = change.apply(&self.bytes);
        match self.read(&altered) {
            Err(_) if altered == self.bytes => panic!("{change:?} changes nothing, and was refused"),
            Err(_) => true,
            Ok(paid) => {
                assert!(paid == self.paid, "{change:?} of {} bytes pays something else", self.bytes.len());
                false
            }
        }
    }

    /// `count` random alterations; how many were taken, all of which pay the same.
    pub(crate) fn alter(&self, seed: u64, count: u32) -> u32 {
        let mut rng = Rng::with_seed(seed);
        (0..count).map(|_| u32::from(!self.survives(Alteration::random(&mut rng, self.bytes.len())))).sum()
    }

    pub(crate) fn refuses_cuts(&self, ends: impl IntoIterator<Item = usize>) {
        for end in ends {
            assert!(self.read(&self.bytes[..end]).is_err(), "cut to {end} of {} bytes", self.bytes.len());
        }
    }

    pub(crate) fn refuses_what_follows(&self) {
        for behind in [&[0u8][..], &[1], &[0xff; 80], &self.bytes] {
            let padded = [self.bytes.as_slice(), behind].concat();
            assert_eq!(self.read(&padded).unwrap_err(), DecodeError::Trailing { bytes: behind.len() });
        }
    }
}
