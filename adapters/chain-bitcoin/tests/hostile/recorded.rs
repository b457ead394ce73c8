//! Blocks of real networks, and of regtest chains of our own.

use crate::data::{block, linked_blocks, network, network_of};
use crate::subject::Subject;
use confirmd_hostile::cases;
use fastrand::Rng;
use serde_json::Value;

/// A litecoind of our own.
const OWN: &str = include_str!("../../fixtures/litecoin_mweb.jsonl");
/// Blocks up to this size are cut at every byte; larger ones in a sample.
const CUT_EVERYWHERE_MAX: usize = 20_000;

fn own_blocks() -> Vec<Subject> {
    let raw = |line: &str| const_hex::decode(serde_json::from_str::<Value>(line).unwrap()["raw"].as_str().unwrap()).unwrap();
    OWN.lines().map(|line| Subject::new(raw(line), network("litecoin-regtest"))).collect()
}

pub(crate) fn own_fixtures() {
    for (seed, subject) in (0u64..).zip(own_blocks()) {
        subject.refuses_cuts(0..subject.bytes.len());
        subject.refuses_what_follows();
        subject.alter(seed, cases(1_500));
    }
}

pub(crate) fn file(name: &str) {
    let subject = Subject::new(block(name), network_of(name));
    let length = subject.bytes.len();
    let mut rng = Rng::with_seed(u64::try_from(length).unwrap());
    if length <= CUT_EVERYWHERE_MAX {
        subject.refuses_cuts(0..length);
    } else {
        subject.refuses_cuts((0..cases(30)).map(|_| rng.usize(..length)));
        subject.refuses_cuts((0..1_000).chain([length - 2, length - 1]));
    }
    subject.refuses_what_follows();
    let count = cases(60);
    let taken = subject.alter(rng.u64(..), count);
    println!("{name}: {count} alterations, {taken} in bytes that no payment depends on");
}

pub(crate) fn early_blocks() {
    for (seed, bytes) in (0u64..).zip(linked_blocks()) {
        let subject = Subject::new(bytes, network("mainnet"));
        subject.refuses_cuts(0..subject.bytes.len());
        // No witness anywhere: every alteration is refused.
        assert!(subject.alter(seed, cases(20)) <= cases(20) / 4);
    }
}
