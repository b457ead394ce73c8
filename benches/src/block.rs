//! A full block, and a million scripts to look for in it.

use crate::process::workspace;
use anyhow::{Context, Result};
use bitcoin::absolute::LockTime;
use bitcoin::block::{Header, Version};
use bitcoin::consensus::encode::serialize;
use bitcoin::hashes::Hash;
use bitcoin::{
    Amount, BlockHash, CompactTarget, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxMerkleNode, TxOut, Txid, Witness,
    transaction,
};
use confirmd_chain_bitcoin::{Block, Destination, NETWORKS, Network, transfers_in};
use confirmd_core::{Address, AssetId, ChainId, Height, Transfer, WatchEntry, WatchOrigin, WatchSet, WatchState};
use fastrand::Rng;
use std::collections::BTreeSet;
use std::hint::black_box;

/// A mainnet block of 1,381,836 bytes, 2,500 transactions, 6,015 outputs.
const REAL: &str = "bitcoin/block_mainnet_000000000000000000000c835b2adcae.raw";
const HEIGHT: Height = Height(700_000);
/// Watched scripts that the block itself pays, so that payments are found and made.
const PAID: usize = 10;

/// A block's bytes.
#[derive(Debug)]
pub struct Sample {
    /// As the node sends them.
    pub bytes: Vec<u8>,
    /// Where they come from, for the report.
    pub origin: String,
    network: &'static Network,
    coin: AssetId,
}

impl Sample {
    /// The real block from the folder `CONFIRMD_REAL_DATA` (by default `shared/data` beside the checkout); a generated one of
    /// its size where that is absent, and `origin` says so.
    pub fn find() -> Result<Self> {
        let network = NETWORKS.iter().find(|network| network.name == "mainnet").context("no mainnet in the table")?;
        let coin = AssetId::native(&ChainId::new("bip122:000000000019d6689c085ae165831e93")?, network.slip44)?;
        let data = std::env::var_os("CONFIRMD_REAL_DATA").map(Into::into);
        let data = data.unwrap_or_else(|| workspace().join("../shared/data"));
        let (bytes, origin) = match std::fs::read(data.join(REAL)) {
            Ok(bytes) => (bytes, "real mainnet block"),
            Err(_) => (generated(), "GENERATED block, as the real one is absent"),
        };
        Ok(Self { origin: format!("{origin} of {} bytes", bytes.len()), bytes, network, coin })
    }

    /// Decodes the block and checks it, as the adapter does.
    pub fn decode(&self) -> Result<Block<'_>> {
        Ok(Block::decode(black_box(&self.bytes), self.network)?)
    }

    /// Decodes the block and finds what it pays to watched scripts.
    pub fn decode_and_match(&self, watch: &WatchSet) -> Result<Vec<Transfer>> {
        Ok(transfers_in(&self.decode()?, HEIGHT, &self.coin, black_box(watch)))
    }

    /// Finds what a decoded block pays to watched scripts.
    #[must_use]
    pub fn find_in(&self, block: &Block<'_>, watch: &WatchSet) -> Vec<Transfer> {
        transfers_in(black_box(block), HEIGHT, &self.coin, black_box(watch))
    }

    /// Watches this many scripts: a few that the block pays, the others random P2WPKH.
    pub fn watch(&self, count: usize) -> Result<WatchSet> {
        let mut watch = WatchSet::default();
        self.entries(count, |entry| watch.put_address(entry))?;
        Ok(watch)
    }

    /// The same scripts, one after the other.
    pub fn entries(&self, count: usize, mut tell: impl FnMut(WatchEntry)) -> Result<()> {
        let mut random = Rng::with_seed(7);
        let block = self.decode()?;
        let step = (block.outputs.len() / PAID).max(1);
        let paid = block.outputs.iter().step_by(step).filter_map(|output| Destination::of_script(output.script));
        let mut told = BTreeSet::new();
        for destination in paid.take(PAID.min(count)) {
            if told.insert(destination.script()) {
                tell(self.entry(destination, 0));
            }
        }
        let left = count.saturating_sub(told.len());
        // Of 160 bits by chance no two are the same.
        for n in (1..).take(left) {
            let mut hash = [0; 20];
            random.fill(&mut hash);
            tell(self.entry(Destination::P2wpkh(hash), n));
        }
        Ok(())
    }

    fn entry(&self, destination: Destination, n: u32) -> WatchEntry {
        WatchEntry {
            address: Address::new(destination.script(), destination.text(self.network)),
            reference: Some(format!("customer-{n}").into()),
            from: Height(1),
            origin: WatchOrigin::Command,
            state: WatchState::Watching,
            history: None,
        }
    }
}

/// As many transactions, outputs and bytes as the real one has.
fn generated() -> Vec<u8> {
    let mut random = Rng::with_seed(1);
    let coinbase = transaction(&mut random, true, 2);
    let payments = (1..2_500).map(|n| transaction(&mut random, false, 2 + n % 2));
    let txdata: Vec<Transaction> = std::iter::once(coinbase).chain(payments).collect();
    let header = Header {
        version: Version::from_consensus(0x2000_0000),
        prev_blockhash: BlockHash::from_byte_array([3; 32]),
        merkle_root: TxMerkleNode::all_zeros(),
        time: 1_600_000_000,
        bits: CompactTarget::from_consensus(0x1710_0000),
        nonce: 1,
    };
    let mut block = bitcoin::Block { header, txdata };
    block.header.merkle_root = block.compute_merkle_root().expect("invariant: there are transactions");
    serialize(&block)
}

fn transaction(random: &mut Rng, coinbase: bool, outputs: u64) -> Transaction {
    let mut bytes = |count: usize| std::iter::repeat_with(|| random.u8(..)).take(count).collect::<Vec<u8>>();
    let previous_output = match coinbase {
        true => OutPoint::null(),
        false => OutPoint { txid: Txid::from_slice(&bytes(32)).expect("invariant: 32 bytes are a transaction id"), vout: 1 },
    };
    let witness = Witness::from_slice(&[bytes(72), bytes(33)]);
    let script_sig = ScriptBuf::from_bytes(bytes(if coinbase { 50 } else { 180 }));
    let input = vec![TxIn { previous_output, script_sig, sequence: Sequence::MAX, witness }];
    let output = (0..outputs).map(|_| {
        let script_pubkey = ScriptBuf::from_bytes([vec![0, 20], bytes(20)].concat());
        TxOut { value: Amount::from_sat(50_000), script_pubkey }
    });
    let output = output.collect();
    Transaction { version: transaction::Version::TWO, lock_time: LockTime::ZERO, input, output }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_generated_block_decodes_and_its_watched_scripts_are_found() {
        let sample = Sample { bytes: generated(), ..Sample::find().unwrap() };
        let watch = sample.watch(1_000).unwrap();
        assert_eq!(watch.len(), 1_000);
        assert_eq!(sample.decode_and_match(&watch).unwrap().len(), PAID);
    }
}
