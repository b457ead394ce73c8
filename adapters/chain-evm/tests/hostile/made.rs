//! Targets over one small block, which are cheap enough for thousands of cases.

use crate::subject::{made, source};
use confirmd_hostile::{Alteration, assert_bounded, cases, config};
use fastrand::Rng;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;
use std::path::Path;

/// Base of what a reading may hold: the watched addresses' tables and messages.
const BASE: u64 = 256 * 1024;
/// A list's item may be larger in memory than as text, and lists grow by doubling.
const FACTOR: u64 = 32;

pub(crate) fn any_bytes(_: &Path) {
    let subject = made();
    let (receipts, traces) = (subject.receipts.to_string(), subject.traces.to_string());
    let mut rng = Rng::with_seed(1);
    for _ in 0..cases(2_000) {
        let alphabet = b"{}[]\",:0x1fnulltruehashnumber \\u";
        let text: String = (0..rng.usize(..300)).map(|_| char::from(alphabet[rng.usize(..alphabet.len())])).collect();
        assert!(subject.read_texts(&text, &receipts, &traces).is_err());
        assert!(subject.read_texts(&subject.block.to_string(), &text, &traces).is_err());
    }
}

/// Every prefix of every answer.
pub(crate) fn cut_anywhere(_: &Path) {
    let subject = made();
    let whole = [subject.block.to_string(), subject.receipts.to_string(), subject.traces.to_string()];
    for part in 0..3 {
        for end in 0..whole[part].len() {
            let mut texts = whole.clone();
            texts[part].truncate(end);
            assert!(subject.read_texts(&texts[0], &texts[1], &texts[2]).is_err(), "part {part} cut to {end} bytes");
        }
        for behind in ["x", "{}", "[]", "0"] {
            let mut texts = whole.clone();
            texts[part].push_str(behind);
            assert!(subject.read_texts(&texts[0], &texts[1], &texts[2]).is_err(), "part {part} with {behind} behind it");
        }
    }
}

pub(crate) fn structure(_: &Path) {
    let mut subject = made();
    let count = u64::from(cases(10_000));
    let refused = (0..count).filter(|seed| subject.try_structural_change(*seed)).count();
    assert!(u64::try_from(refused).unwrap() > count / 4, "only {refused} of {count} were refused");
}

pub(crate) fn altered_bytes(_: &Path) {
    let subject = made();
    let whole = [subject.block.to_string(), subject.receipts.to_string(), subject.traces.to_string()];
    let length: usize = whole.iter().map(String::len).sum();
    let strategy = (0usize..3, any::<u64>(), 1usize..4);
    let mut runner = TestRunner::new(config(3_000));
    let judged = runner.run(&strategy, |(part, seed, changes)| {
        let mut rng = Rng::with_seed(seed);
        let mut bytes = whole[part].clone().into_bytes();
        for _ in 0..changes {
            bytes = Alteration::random(&mut rng, bytes.len()).apply(&bytes);
        }
        let mut texts = whole.clone();
        texts[part] = String::from_utf8_lossy(&bytes).into_owned();
        let _ = assert_bounded(length, FACTOR, BASE, || subject.read_texts(&texts[0], &texts[1], &texts[2]));
        Ok(())
    });
    judged.unwrap();
}

pub(crate) fn twice(_: &Path) {
    let subject = made();
    assert_eq!(subject.read().unwrap(), subject.paid);
    // In another order of keys, with more space, and with fields of other networks.
    let mut block = subject.block.clone();
    block["l1BlockNumber"] = json!("0x1");
    let spaced = serde_json::to_string_pretty(&block).unwrap();
    let (receipts, traces) = (subject.receipts.to_string(), subject.traces.to_string());
    assert_eq!(subject.read_texts(&spaced, &receipts, &traces).unwrap(), subject.paid);
}

/// A library's usual reader takes an empty text for zero, and digits without `0x` for another number.
pub(crate) fn other_bases(_: &Path) {
    for text in ["", "0x", "10", "0b101", "0o7", "5 ", "0x5g", "-0x5"] {
        let mut subject = made();
        subject.block["transactions"][0]["value"] = json!(text);
        assert!(subject.read().is_err(), "a value of {text:?}");
        let mut subject = made();
        subject.traces[2]["result"]["calls"][0]["value"] = json!(text);
        assert!(subject.read().is_err(), "an internal value of {text:?}");
    }
}

pub(crate) fn addresses(_: &Path) {
    let source = source(&[]);
    let mut runner = TestRunner::new(config(2_000));
    let strategy = prop_oneof![any::<String>(), proptest::collection::vec(any::<char>(), 0..60).prop_map(String::from_iter)];
    let judged = runner.run(&strategy, |text| {
        if let Ok(address) = source.parse_address(&text) {
            prop_assert_eq!(&source.parse_address(address.as_str()).unwrap(), &address);
        }
        Ok(())
    });
    judged.unwrap();
    // One digit of a checksummed address mistyped: noticed, or it was a digit's case alone.
    let good = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
    for at in 2..good.len() {
        for digit in b"0123456789abcdefABCDEF" {
            let mut text = good.as_bytes().to_vec();
            text[at] = *digit;
            let text = String::from_utf8(text).unwrap();
            if let Ok(address) = source.parse_address(&text) {
                assert_eq!(address.as_str(), text, "{text} was taken for another spelling");
            }
        }
    }
}
