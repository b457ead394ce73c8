//! Stored values as a bad disk, or a forger who knows the checksum, could leave them.
#![allow(clippy::unwrap_used)]

use crate::record::{seal, unseal};
use crate::rows::*;
use confirmd_core::{BlockHash, ListedAsset, Orphaned, Pending, Position, Reported};
use confirmd_hostile::{Alteration, assert_bounded, config};
use fastrand::Rng;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Version and checksum.
const HEADER: usize = 5;
/// Serde reserves up to a megabyte for a list before it sees its items, however long the list says it is.
const BASE: u64 = 4 * 1024 * 1024;

type Judge = fn(&[u8]) -> Option<Vec<u8>>;

/// Reads the value and writes it again.
fn again<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Option<Vec<u8>> {
    unseal::<T>(&[0], bytes).ok().map(|value| seal(&[0], &value).unwrap())
}

/// The kinds of record by their names in the golden file.
fn judge(name: &str) -> Option<Judge> {
    Some(match name {
        "meta" => again::<Meta>,
        "progress" => again::<Progress>,
        "head" => again::<HeadRow>,
        "trail" => again::<BlockHash>,
        "pending" => again::<HeldRow<Pending>>,
        "reported" => again::<HeldRow<Reported>>,
        "orphaned" => again::<HeldRow<Orphaned>>,
        "asset" => again::<ListedAsset>,
        "archive" => again::<ArchiveRow>,
        "event" => again::<EventRow>,
        "event_id" => again::<Position>,
        "consumer" => again::<ConsumerRow>,
        "open" => again::<OpenRow>,
        "attempt" => again::<AttemptRow>,
        "skipped" => again::<SkippedRow>,
        "deposit" => again::<DepositRow>,
        _ => return None,
    })
}

fn samples() -> Vec<(&'static str, Vec<u8>, Judge)> {
    let lines = include_str!("../rows/golden.txt").lines().filter_map(|line| line.split_once(' '));
    let read = |(name, hex)| judge(name).map(|judge| (name, const_hex::decode(hex).unwrap(), judge));
    lines.filter_map(read).collect()
}

/// Any payload under a version and a checksum that fit it.
fn seal_payload(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let sum = crc32fast::hash(&[&[1], key, payload].concat());
    [&[1], &sum.to_le_bytes()[..], payload].concat()
}

#[test]
fn hostile_store_a_checksum_made_here_is_the_stores() {
    assert_eq!(seal_payload(&[0], &[7]), seal(&[0], &7u8).unwrap());
}

#[test]
fn hostile_store_no_record_survives_a_cut_a_flipped_bit_or_a_byte_more() {
    let samples = samples();
    assert!(samples.len() >= 16, "{}", samples.len());
    for (name, whole, judge) in samples {
        assert_eq!(judge(&whole).as_ref(), Some(&whole), "{name}");
        for end in 0..whole.len() {
            assert!(judge(whole.get(..end).unwrap()).is_none(), "{name} cut to {end}");
        }
        for bit in 0..u8::try_from(8).unwrap() {
            for at in 0..whole.len() {
                assert!(judge(&Alteration::Flip { at, bit }.apply(&whole)).is_none(), "{name}: bit {bit} of byte {at}");
            }
        }
        for byte in [0, 1, 0xff] {
            let longer = [whole.as_slice(), &[byte]].concat();
            assert!(judge(&longer).is_none(), "{name} and {byte}");
        }
    }
}

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn hostile_store_an_altered_record_is_refused(which in 0usize..16, seed in any::<u64>()) {
        let (name, whole, judge) = samples().swap_remove(which);
        let altered = Alteration::random(&mut Rng::with_seed(seed), whole.len()).apply(&whole);
        prop_assert!(altered == whole || judge(&altered).is_none(), "{name}");
    }

    /// A checksum is no signature. What passes it must still be a value that is written as it was read, and lengths in it
    /// must not be believed.
    #[test]
    fn hostile_store_a_forged_record_with_a_right_checksum_is_a_whole_value_or_refused(
        which in 0usize..16, seed in any::<u64>(), changes in 1usize..4,
    ) {
        let (_, whole, judge) = samples().swap_remove(which);
        let mut rng = Rng::with_seed(seed);
        let mut payload = whole.get(HEADER..).unwrap().to_vec();
        for _ in 0..changes {
            payload = Alteration::random(&mut rng, payload.len()).apply(&payload);
        }
        let forged = seal_payload(&[0], &payload);
        if let Some(written) = assert_bounded(forged.len(), 32, BASE, || judge(&forged)) {
            prop_assert_eq!(judge(&written), Some(written));
        }
    }

    #[test]
    fn hostile_store_any_bytes_are_judged_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for (_, _, judge) in samples() {
            let _ = judge(&bytes);
            let _ = assert_bounded(bytes.len(), 32, BASE, || judge(&seal_payload(&[0], &bytes)));
        }
    }
}
