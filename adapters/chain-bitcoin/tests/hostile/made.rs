//! Blocks made here: small enough for thousands of cases, and lies that no recorded block tells.

use crate::data::network;
use crate::subject::Subject;
use bitcoin::consensus::encode::{deserialize, serialize};
use bitcoin::hashes::Hash;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness, absolute, transaction};
use confirmd_chain_bitcoin::{Block, DecodeError, NETWORKS};
use confirmd_hostile::{Alteration, assert_bounded, config};
use fastrand::Rng;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

pub(crate) fn tx(previous: OutPoint, witness: bool, outputs: &[(u64, Vec<u8>)]) -> Transaction {
    let witness = if witness { Witness::from_slice(&[[7u8; 71].as_slice(), [2u8; 33].as_slice()]) } else { Witness::new() };
    Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: previous,
            script_sig: ScriptBuf::from_bytes(vec![0x51; 2]),
            sequence: Sequence::MAX,
            witness,
        }],
        output: outputs
            .iter()
            .map(|(value, script)| TxOut {
                value: Amount::from_sat(*value),
                script_pubkey: ScriptBuf::from_bytes(script.clone()),
            })
            .collect(),
    }
}

/// A coinbase and `payments` more, each to a key hash of its own; every second one with a witness.
pub(crate) fn block(payments: u8) -> bitcoin::Block {
    let script = |n: u8| [vec![0x00, 20], vec![n; 20]].concat();
    let mut txdata = vec![tx(OutPoint::null(), true, &[(50, script(0xcb))])];
    for n in 1..=payments {
        let previous = OutPoint { txid: Txid::from_byte_array([n; 32]), vout: 0 };
        txdata.push(tx(previous, n % 2 == 0, &[(u64::from(n), script(n)), (1, vec![])]));
    }
    let mut block = bitcoin::Block { header: deserialize(&[0u8; 80]).unwrap(), txdata };
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    block
}

pub(crate) fn any_bytes() {
    let mut runner = TestRunner::new(config(3_000));
    let judged = runner.run(&proptest::collection::vec(any::<u8>(), 0..600), |bytes| {
        for network in NETWORKS {
            prop_assert!(assert_bounded(bytes.len(), 16, 4_096, || Block::decode(&bytes, network).is_err()));
        }
        Ok(())
    });
    judged.unwrap();
}

pub(crate) fn altered() {
    let strategy = (0u8..8, any::<u64>());
    let subjects: Vec<Subject> = (0..8).map(|payments| Subject::new(serialize(&block(payments)), network("litecoin"))).collect();
    let mut runner = TestRunner::new(config(6_000));
    let judged = runner.run(&strategy, |(which, seed)| {
        let subject = &subjects[usize::from(which)];
        subject.survives(Alteration::random(&mut Rng::with_seed(seed), subject.bytes.len()));
        Ok(())
    });
    judged.unwrap();
    for subject in &subjects {
        subject.refuses_cuts(0..subject.bytes.len());
        subject.refuses_what_follows();
    }
}

/// Every place where a length could stand says that it is as large as can be said, in each of the three long forms.
pub(crate) fn claims() {
    for payments in [0, 3] {
        let whole = serialize(&block(payments));
        for at in 80..whole.len() {
            for claim in [&[0xffu8; 9][..], &[0xfe, 0xff, 0xff, 0xff, 0x7f], &[0xfd, 0xff, 0xff]] {
                let claimed = [&whole[..at], claim, &whole[at + 1..]].concat();
                for network in NETWORKS {
                    let read = assert_bounded(claimed.len(), 16, 4_096, || Block::decode(&claimed, network).is_ok());
                    assert!(!read, "{claim:02x?} at byte {at}");
                }
            }
        }
    }
    // As many of the smallest transactions and outputs as a block can hold.
    let smallest = [&[1u8, 0, 0, 0][..], &[1], &[0; 41], &[0], &[0; 4]].concat();
    let many = smallest.repeat(20_000);
    let count = [&[0xfe][..], &20_000u32.to_le_bytes()].concat();
    let outputs = [&[1u8, 0, 0, 0][..], &[1], &[0; 32], &[0xff; 4], &[0], &[0; 4], &[0xfe], &100_000u32.to_le_bytes()].concat();
    let outputs = [&outputs[..], &[0u8; 9].repeat(100_000), &[0; 4]].concat();
    for body in [[count, many].concat(), [&[1u8][..], &outputs].concat()] {
        let bytes = [&[0u8; 80][..], &body].concat();
        assert!(assert_bounded(bytes.len(), 16, 4_096, || Block::decode(&bytes, network("mainnet")).is_err()));
    }
}

/// An inner node of the merkle tree is the hash of 64 bytes: two ids. The same 64 bytes can be a transaction's, so that a list
/// one level up has the same root. Its first entry must be a coinbase, which two hashes are not.
pub(crate) fn ids_as_a_transaction() {
    let honest = block(3);
    let ids: Vec<[u8; 32]> = honest.txdata.iter().map(|tx| tx.compute_txid().to_byte_array()).collect();
    let pairs: Vec<Vec<u8>> = ids.chunks(2).map(|pair| pair.concat()).collect();
    let lie = [serialize(&honest.header), vec![u8::try_from(pairs.len()).unwrap()], pairs.concat()].concat();
    assert!(Block::decode_as(&honest.block_hash(), &lie, network("mainnet")).is_err());
    // Words that read as a transaction, by chance or by work: the root is right, the place is not a coinbase's.
    let words = [&[1u8, 0, 0, 0][..], &[1], &[9; 36], &[4], &[0; 4], &[0xff; 4], &[1], &[9; 8], &[0], &[0; 4]].concat();
    assert_eq!(words.len(), 64);
    let mut header = honest.header;
    header.merkle_root = bitcoin::TxMerkleNode::from_raw_hash(bitcoin::hashes::sha256d::Hash::hash(&words));
    let lie = [serialize(&header), vec![1], words].concat();
    let error = Block::decode_as(&header.block_hash(), &lie, network("mainnet")).unwrap_err();
    assert!(matches!(error, DecodeError::Transaction { position: 0, .. }), "{error}");
}

/// The mark is a flag outside the merkle root: without it the peg-outs would lose their maturity.
pub(crate) fn unmarked_hogex() {
    let holder = [vec![0x58, 0x20], vec![0x11; 32]].concat();
    let mut plain = block(2);
    plain.txdata.push(tx(
        OutPoint { txid: Txid::from_byte_array([0xaa; 32]), vout: 0 },
        false,
        &[(900, holder), (77, vec![0x52])],
    ));
    plain.header.merkle_root = plain.compute_merkle_root().unwrap();
    let bytes = serialize(&plain);
    let error = Block::decode(&bytes, network("litecoin")).unwrap_err();
    assert!(matches!(error, DecodeError::Transaction { position: 3, .. }), "{error}");
    assert!(Block::decode(&bytes, network("mainnet")).is_ok(), "Bitcoin has no such mark");
}
