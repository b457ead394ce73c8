#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use crate::destination::Destination;
use crate::network::Network;
use crate::transaction::Output;
use bitcoin::hashes::Hash;
use confirmd_core::{Address, WatchEntry, WatchOrigin, WatchState};

const HASH: [u8; 20] = [0x33; 20];

fn network() -> &'static Network {
    Network::by_name("litecoin").unwrap()
}

fn watch(destinations: &[Destination]) -> WatchSet {
    let mut watch = WatchSet::default();
    for destination in destinations {
        let address = Address::new(destination.script(), destination.text(network()));
        watch.put_address(WatchEntry {
            address,
            reference: None,
            from: Height(0),
            origin: WatchOrigin::Command,
            state: WatchState::Watching,
            history: None,
        });
    }
    watch
}

fn block<'a>(outputs: &[(u32, u32, u64, &'a [u8])], hogex: Option<u32>) -> Block<'a> {
    let header: bitcoin::block::Header = bitcoin::consensus::deserialize(&[1u8; 80]).unwrap();
    Block {
        hash: header.block_hash(),
        header,
        txids: (1u8..=9).map(|n| bitcoin::Txid::from_byte_array([n; 32])).collect(),
        outputs: outputs.iter().map(|&(position, vout, value, script)| Output { position, vout, value, script }).collect(),
        hogex,
        extension: None,
    }
}

fn matched(outputs: &[(u32, u32, u64, &[u8])], hogex: Option<u32>) -> Vec<Transfer> {
    let watch = watch(&[Destination::P2pkh(HASH), Destination::P2sh(HASH), Destination::P2wpkh(HASH)]);
    transfers_in(&block(outputs, hogex), Height(9), &network().coin(), &watch)
}

#[test]
fn a14_every_output_of_a_transaction_is_its_own_deposit() {
    let script = Destination::P2pkh(HASH).script();
    let outputs: Vec<_> = (0..10).map(|vout| (1, vout, 230_000, script.as_slice())).collect();
    let transfers = matched(&outputs, None);
    let keys: std::collections::HashSet<_> = transfers.iter().map(|t| t.key.clone()).collect();
    assert_eq!((transfers.len(), keys.len()), (10, 10));
    assert!((0u32..).zip(&transfers).all(|(vout, t)| t.key.output_index == vout && t.position == 1));
    assert_eq!(transfers[0].payment.amount, Amount::from(230_000));
    assert_eq!(transfers[0].key.tx_id.as_str(), "02".repeat(32));
}

#[test]
fn a19_bare_multisig_that_names_a_watched_key_is_no_deposit() {
    // 1 of 2 public keys; what is watched is a hash of one of them.
    let key = [0x02; 33];
    let script = [&[0x51, 33][..], &key, &[33], &[0x03; 33], &[0x52, 0xae]].concat();
    let hash = bitcoin::hashes::hash160::Hash::hash(&key).to_byte_array();
    let watch = watch(&[Destination::P2pkh(hash), Destination::P2wpkh(hash)]);
    assert_eq!(transfers_in(&block(&[(1, 0, 5, &script)], None), Height(9), &network().coin(), &watch), []);
}

#[test]
fn a21_zero_values_data_and_odd_scripts_are_no_deposits_and_no_errors() {
    let watched = Destination::P2pkh(HASH).script();
    let data = [&[0x6a, 20][..], &HASH].concat();
    let padded = [watched.clone(), vec![0x61]].concat();
    let outputs: [(u32, u32, u64, &[u8]); 6] =
        [(1, 0, 0, &watched), (1, 1, 9, &data), (1, 2, 9, &[]), (1, 3, 9, &padded), (1, 4, 9, &[0xff; 10_000]), (1, 5, 9, &HASH)];
    assert_eq!(matched(&outputs, None), []);
}

#[test]
fn a10_coinbase_outputs_wait_for_100_confirmations_and_peg_outs_for_6() {
    let script = Destination::P2sh(HASH).script();
    let outputs = [(0, 0, 1, script.as_slice()), (1, 0, 2, &script), (3, 1, 3, &script)];
    let maturities: Vec<_> = matched(&outputs, Some(3)).iter().map(|t| t.maturity.map(NonZeroU32::get)).collect();
    assert_eq!(maturities, [Some(100), None, Some(6)]);
}

#[test]
fn s16_amounts_are_exact_from_one_to_the_largest() {
    let script = Destination::P2wpkh(HASH).script();
    let outputs = [(1, 0, 1, script.as_slice()), (1, 1, 8_400_000_000_000_000, &script), (2, 0, u64::MAX, &script)];
    let amounts: Vec<_> = matched(&outputs, None).iter().map(|t| t.payment.amount.to_string()).collect();
    assert_eq!(amounts, ["1", "8400000000000000", "18446744073709551615"]);
}

#[test]
fn hashes_of_blocks_are_shown_as_nodes_print_them() {
    let script = Destination::P2sh(HASH).script();
    let transfers = matched(&[(1, 0, 1, &script)], None);
    let header: bitcoin::block::Header = bitcoin::consensus::deserialize(&[1u8; 80]).unwrap();
    assert_eq!(transfers[0].block.hash.as_str(), header.block_hash().to_string());
    assert_eq!(transfers[0].block_time, Some(Timestamp::from_seconds(0x0101_0101)));
    assert!(transfers[0].payment.address.as_str().starts_with('M'));
}

#[test]
fn a39_bytes_that_are_no_text_are_never_read_as_text() {
    let script = Destination::P2wpkh([0xff; 20]).script();
    let watch = watch(&[Destination::P2wpkh([0xff; 20])]);
    let outputs = [(0, 0, 7, script.as_slice()), (0, 1, 7, &[0x6a, 0x04, 0xff, 0xfe, 0x00, 0x0a])];
    let transfers = transfers_in(&block(&outputs, None), Height(9), &network().coin(), &watch);
    let texts = transfers.iter().flat_map(|t| [t.key.tx_id.as_str(), t.payment.address.as_str(), t.block.hash.as_str()]);
    assert!(texts.into_iter().all(|text| text.bytes().all(|b| b.is_ascii_alphanumeric())));
    assert_eq!((transfers.len(), &transfers[0].from, &transfers[0].payment.memo), (1, &None, &None));
}
