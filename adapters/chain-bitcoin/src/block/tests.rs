#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use bitcoin::consensus::encode::serialize;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction as Tx, TxIn, TxOut, Witness, absolute, transaction};
use proptest::prelude::*;

fn network(name: &str) -> &'static Network {
    Network::by_name(name).unwrap()
}

fn tx(previous: OutPoint, witness: bool, outputs: Vec<(u64, Vec<u8>)>) -> Tx {
    let witness = if witness { Witness::from_slice(&[[7u8; 71].as_slice(), [2u8; 33].as_slice()]) } else { Witness::new() };
    Tx {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: previous,
            script_sig: ScriptBuf::from_bytes(vec![0x51, 0xff, 0x00]),
            sequence: Sequence::MAX,
            witness,
        }],
        output: outputs
            .into_iter()
            .map(|(value, script)| TxOut { value: Amount::from_sat(value), script_pubkey: ScriptBuf::from_bytes(script) })
            .collect(),
    }
}

fn block(payments: usize) -> bitcoin::Block {
    let mut txdata = vec![tx(OutPoint::null(), true, vec![(50, vec![0x51])])];
    for n in 0..payments {
        let byte = u8::try_from(n).unwrap();
        let previous = OutPoint { txid: Txid::from_byte_array([byte.wrapping_add(1); 32]), vout: 0 };
        txdata.push(tx(previous, n % 2 == 0, vec![(u64::try_from(n).unwrap(), vec![byte; n]), (1, vec![])]));
    }
    let mut block = bitcoin::Block { header: deserialize(&[0u8; 80]).unwrap(), txdata };
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    block
}

/// A block whose last transaction is a HogEx, with an extension block of one kernel that pegs out.
fn litecoin_block(flag: u8, mweb_part: u8, hogaddr: u8) -> Vec<u8> {
    let mut plain = block(3);
    let previous = OutPoint { txid: Txid::from_byte_array([0xaa; 32]), vout: 0 };
    let holder = [vec![hogaddr, 0x20], vec![0x11; 32]].concat();
    plain.txdata.push(tx(previous, false, vec![(900, holder), (77, vec![0x52])]));
    plain.header.merkle_root = plain.compute_merkle_root().unwrap();
    let mut bytes = serialize(&plain.header);
    bytes.push(u8::try_from(plain.txdata.len()).unwrap());
    for tx in &plain.txdata[..plain.txdata.len() - 1] {
        bytes.extend(serialize(tx));
    }
    let hogex = serialize(plain.txdata.last().unwrap());
    bytes.extend(&hogex[..4]);
    bytes.extend([0x00, flag]);
    bytes.extend(&hogex[4..hogex.len() - 4]);
    bytes.push(mweb_part);
    bytes.extend(&hogex[hogex.len() - 4..]);
    bytes.push(1);
    bytes.push(5);
    bytes.extend([0u8; 5 * 32]);
    bytes.extend([2, 1, 0, 0, 1]);
    bytes.extend([0x01 | 0x04, 10, 1, 77, 1, 0x52]);
    bytes.extend([0u8; 33 + 64]);
    bytes
}

fn agrees(block: &bitcoin::Block, decoded: &Block<'_>) {
    assert_eq!(decoded.hash, block.block_hash());
    assert_eq!(decoded.header, block.header);
    assert_eq!(decoded.txids, block.txdata.iter().map(|tx| tx.compute_txid()).collect::<Vec<_>>());
    let theirs: Vec<_> = (0u32..)
        .zip(&block.txdata)
        .flat_map(|(position, tx)| {
            (0u32..).zip(&tx.output).map(move |(vout, out)| (position, vout, out.value.to_sat(), out.script_pubkey.as_bytes()))
        })
        .collect();
    let ours: Vec<_> = decoded.outputs.iter().map(|o| (o.position, o.vout, o.value, o.script)).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn s14_a_block_decodes_as_the_bitcoin_crate_decodes_it() {
    for payments in [0, 1, 2, 3, 7, 100] {
        let block = block(payments);
        let bytes = serialize(&block);
        for name in ["mainnet", "litecoin"] {
            agrees(&block, &Block::decode_as(&block.block_hash(), &bytes, network(name)).unwrap());
        }
    }
    for known in [bitcoin::Network::Bitcoin, bitcoin::Network::Testnet4, bitcoin::Network::Signet, bitcoin::Network::Regtest] {
        let genesis = bitcoin::constants::genesis_block(known);
        agrees(&genesis, &Block::decode(&serialize(&genesis), network("mainnet")).unwrap());
    }
}

#[test]
fn a13_the_id_is_the_txid_which_witnesses_do_not_change() {
    let block = block(3);
    let mut other = block.clone();
    other.txdata[1].input[0].witness = Witness::from_slice(&[[9u8; 5]]);
    assert_ne!(block.txdata[1].compute_wtxid(), other.txdata[1].compute_wtxid());
    let (one, two) = (serialize(&block), serialize(&other));
    let network = network("mainnet");
    assert_eq!(Block::decode(&one, network).unwrap().txids, Block::decode(&two, network).unwrap().txids);
}

#[test]
fn s14_another_block_than_the_one_asked_for_is_refused() {
    let (asked, sent) = (block(1), block(2));
    let error = Block::decode_as(&asked.block_hash(), &serialize(&sent), network("mainnet")).unwrap_err();
    assert_eq!(error, DecodeError::OtherBlock { found: sent.block_hash() });
}

#[test]
fn s14_transactions_that_are_not_the_headers_are_refused() {
    let mut forged = block(3);
    forged.txdata[2].output[0].value = Amount::from_sat(1_000_000);
    assert_eq!(Block::decode(&serialize(&forged), network("mainnet")).unwrap_err(), DecodeError::MerkleRoot);
    forged.txdata.clear();
    assert!(Block::decode(&serialize(&forged), network("mainnet")).is_err());
}

#[test]
fn s7_a_list_of_transactions_that_repeats_its_end_is_refused_though_its_root_is_right() {
    let honest = block(2);
    let mut padded = honest.clone();
    padded.txdata.push(honest.txdata[2].clone());
    assert_eq!(padded.compute_merkle_root(), honest.compute_merkle_root());
    assert_eq!(Block::decode(&serialize(&padded), network("mainnet")).unwrap_err(), DecodeError::Repeated);
}

#[test]
fn a37_corrupt_lengths_are_errors_and_allocate_nothing() {
    let bytes = serialize(&block(0));
    for length in [&[0xffu8; 9][..], &[0xfe, 0xff, 0xff, 0xff, 0x7f]] {
        let corrupt = [&bytes[..80], length, &bytes[81..]].concat();
        assert!(matches!(Block::decode(&corrupt, network("mainnet")), Err(DecodeError::Count { at: 80, .. })));
    }
}

#[test]
fn a_hogex_and_its_extension_block_are_read_on_litecoin_and_refused_on_bitcoin() {
    let bytes = litecoin_block(0x08, 0, 0x58);
    let decoded = Block::decode(&bytes, network("litecoin-regtest")).unwrap();
    assert_eq!(decoded.hogex, Some(4));
    let extension = decoded.extension.as_ref().unwrap();
    assert_eq!((extension.height, extension.kernels, extension.outputs), (5, 1, 0));
    assert_eq!(extension.peg_outs, [(77, vec![0x52])]);
    let peg_out = decoded.outputs.last().unwrap();
    assert_eq!((peg_out.position, peg_out.vout, peg_out.value, peg_out.script), (4, 1, 77, &[0x52][..]));
    assert_eq!(Block::decode(&bytes, network("mainnet")).unwrap_err(), DecodeError::Flags { position: 4, flags: 8 });
}

#[test]
fn what_only_looks_like_a_hogex_is_refused() {
    let litecoin = network("litecoin");
    assert!(matches!(Block::decode(&litecoin_block(0x10, 0, 0x58), litecoin), Err(DecodeError::Flags { .. })));
    assert!(matches!(Block::decode(&litecoin_block(0x08, 1, 0x58), litecoin), Err(DecodeError::Transaction { .. })));
    assert!(matches!(Block::decode(&litecoin_block(0x08, 0, 0x59), litecoin), Err(DecodeError::Transaction { .. })));
    let whole = litecoin_block(0x08, 0, 0x58);
    for end in 0..whole.len() {
        assert!(Block::decode(&whole[..end], litecoin).is_err(), "{end} of {} bytes", whole.len());
    }
}

proptest! {
    #[test]
    fn s14_a_truncated_or_padded_block_is_refused(payments in 0usize..6, cut in any::<prop::sample::Index>(), pad in 1usize..50) {
        let whole = serialize(&block(payments));
        let network = network("litecoin");
        prop_assert!(Block::decode(&whole[..cut.index(whole.len())], network).is_err());
        let padded = [whole.clone(), vec![0; pad]].concat();
        prop_assert_eq!(Block::decode(&padded, network).unwrap_err(), DecodeError::Trailing { bytes: pad });
    }

    /// Witnesses are not covered by the merkle root: a flip there may pass, and changes no output and no id.
    #[test]
    fn s14_a_flipped_bit_is_refused_or_changes_no_payment(payments in 0usize..6, at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let block = block(payments);
        let whole = serialize(&block);
        let mut flipped = whole.clone();
        flipped[at.index(whole.len())] ^= 1 << bit;
        if let Ok(decoded) = Block::decode_as(&block.block_hash(), &flipped, network("litecoin")) {
            agrees(&block, &decoded);
        }
    }

    #[test]
    fn any_bytes_are_judged_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Block::decode(&bytes, network("litecoin"));
    }
}
