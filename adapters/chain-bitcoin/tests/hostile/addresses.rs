//! Texts that are given as addresses.

use confirmd_chain_bitcoin::{Destination, NETWORKS, parse_address};
use confirmd_hostile::{assert_bounded, config};
use fastrand::Rng;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

fn destinations() -> impl Strategy<Value = Destination> {
    prop_oneof![
        any::<[u8; 20]>().prop_map(Destination::P2pkh),
        any::<[u8; 20]>().prop_map(Destination::P2sh),
        any::<[u8; 20]>().prop_map(Destination::P2wpkh),
        any::<[u8; 32]>().prop_map(Destination::P2wsh),
        any::<[u8; 32]>().prop_map(Destination::P2tr),
    ]
}

pub(crate) fn any_text() {
    let text = prop_oneof![
        any::<String>(),
        "[a-z0-9]{0,90}",
        "(bc|tb|ltc|bcrt|rltc|tmweb|ltcmweb)1[qpzry9x8gf2tvdw0s3jn54khce6mua7l]{0,80}",
        "[13LM2mn][1-9A-HJ-NP-Za-km-z]{20,40}",
    ];
    let mut runner = TestRunner::new(config(2_000));
    let judged = runner.run(&text, |text| {
        for network in NETWORKS {
            if let Ok(address) = parse_address(&text, network) {
                let again = parse_address(address.as_str(), network).unwrap();
                prop_assert_eq!(again, address);
            }
        }
        Ok(())
    });
    judged.unwrap();
    for text in ["1".repeat(2_000_000), "é".repeat(1_000_000), format!("bc1{}", "q".repeat(1_000_000))] {
        for network in NETWORKS {
            assert!(assert_bounded(0, 0, 16_384, || parse_address(&text, network).is_err()));
        }
    }
}

pub(crate) fn round_trip() {
    let mut runner = TestRunner::new(config(400));
    let judged = runner.run(&destinations(), |destination| {
        for network in NETWORKS {
            let text = destination.text(network);
            let address = parse_address(&text, network).unwrap();
            prop_assert_eq!(address.bytes(), destination.script());
            prop_assert_eq!(address.as_str(), text);
            prop_assert_eq!(Destination::of_script(&destination.script()), Some(destination));
        }
        Ok(())
    });
    judged.unwrap();
}

/// One or two characters exchanged, added, left out or swapped.
fn mistype(text: &str, rng: &mut Rng) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for _ in 0..rng.usize(1..3) {
        let at = rng.usize(..letters.len());
        match rng.u8(..4) {
            0 => letters[at] = rng.alphanumeric(),
            1 => letters.insert(at, rng.alphanumeric()),
            2 => drop(letters.remove(at)),
            _ => letters.swap(at, at.saturating_sub(1)),
        }
    }
    letters.into_iter().collect()
}

pub(crate) fn mistyped() {
    let mut runner = TestRunner::new(config(400));
    let judged = runner.run(&(destinations(), any::<u64>(), 0..NETWORKS.len()), |(destination, seed, n)| {
        let (network, mut rng) = (&NETWORKS[n], Rng::with_seed(seed));
        let text = destination.text(network);
        for _ in 0..10 {
            let typed = mistype(&text, &mut rng);
            if let Ok(address) = parse_address(&typed, network) {
                prop_assert_eq!(address.bytes(), destination.script(), "{} was taken for another address than {}", typed, text);
            }
        }
        Ok(())
    });
    judged.unwrap();
}
