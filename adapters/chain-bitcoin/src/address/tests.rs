#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use proptest::prelude::*;

fn on(name: &str) -> &'static Network {
    Network::by_name(name).unwrap()
}

fn accept(network: &str, text: &str) -> (String, String) {
    let address = parse_address(text, on(network)).unwrap_or_else(|error| panic!("{error}"));
    (const_hex::encode(address.bytes()), address.as_str().to_owned())
}

fn refuse(network: &str, text: &str) -> String {
    parse_address(text, on(network)).map(|address| panic!("{text} became {address}")).unwrap_err().to_string()
}

#[test]
fn each_form_of_address_is_read_as_its_script() {
    for (network, text, script) in [
        ("mainnet", "1LuckyR1fFHEsXYyx5QK4UFzv3PEAepPMK", "76a914da5dde8abec4f3b67561bcd06aaf28b790cff75588ac"),
        ("mainnet", "397mdtRk3Ad4rHaoekcyxSmeUVwXSNBZta", "a91451775a6b133dd1d3411e205754401d8cac956b5f87"),
        ("mainnet", "bc1qx9t2l3pyny2spqpqlye8svce70nppwtaxwdrp4", "00143156afc4249915008020f932783319f3e610b97d"),
        (
            "mainnet",
            "bc1pq0fjadxs3wt98uqqjuhhgq0c4l2rh62p4w3kxgalfuh306m8lrtq9xmsyu",
            "512003d32eb4d08b9653f000972f7401f8afd43be941aba36323bf4f2f17eb67f8d6",
        ),
        (
            "testnet4",
            "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
            "00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262",
        ),
        (
            "signet",
            "tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c",
            "5120000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
        ),
        ("litecoin", "LPUSYubqPVb46fGu88uGwR42u8jCBxqwqx", "76a9142e9df0aa5f77ef3e46cbf24d3f6d32288d5ca09388ac"),
    ] {
        assert_eq!(accept(network, text), (script.to_owned(), text.to_owned()), "{network} {text}");
    }
}

#[test]
fn a15_upper_case_segwit_is_the_same_address_and_mixed_case_is_none() {
    let lower = accept("mainnet", "bc1q60syzaprx43tyh6fhp4wxta4n78sczdrxd26nj");
    assert_eq!(accept("mainnet", "BC1Q60SYZAPRX43TYH6FHP4WXTA4N78SCZDRXD26NJ"), lower);
    assert_eq!(lower.1, "bc1q60syzaprx43tyh6fhp4wxta4n78sczdrxd26nj");
    for mixed in [
        "bc1Q60SYZAPRX43TYH6FHP4WXTA4N78SCZDRXD26NJ",
        "bc1q60syzaprx43tyh6fhp4wxta4n78sczdrxd26nJ",
        "BC1q60syzaprx43tyh6fhp4wxta4n78sczdrxd26nj",
    ] {
        assert!(refuse("mainnet", mixed).contains("upper and lower case"), "{}", refuse("mainnet", mixed));
    }
}

#[test]
fn a17_the_checksum_must_be_of_the_kind_that_the_version_wants() {
    // BIP 350's list of invalid addresses.
    for (network, text) in [
        ("mainnet", "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd"),
        ("testnet4", "tb1z0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqglt7rf"),
        ("mainnet", "BC1S0XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ54WELL"),
        ("mainnet", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh"),
        ("testnet4", "tb1q0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq24jc47"),
    ] {
        assert!(refuse(network, text).contains("checksum"), "{}", refuse(network, text));
    }
    for text in [
        "bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4",
        "BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R",
        "bc1pw5dgrnzv",
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v8n0nx0muaewav253zgeav",
        "BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P",
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v07qwwzcrf",
        "bc1gmk9yu",
    ] {
        refuse("mainnet", text);
    }
}

#[test]
fn a17_an_address_of_another_network_is_refused_by_name() {
    for (network, text, named) in [
        ("mainnet", "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx", "Bitcoin testnet4 or Bitcoin signet"),
        ("mainnet", "LPUSYubqPVb46fGu88uGwR42u8jCBxqwqx", "Litecoin mainnet"),
        ("regtest", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "Bitcoin mainnet"),
        ("litecoin", "1LuckyR1fFHEsXYyx5QK4UFzv3PEAepPMK", "Bitcoin mainnet"),
        ("litecoin", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "Bitcoin mainnet"),
    ] {
        let error = refuse(network, text);
        assert!(error.contains(named) && error.contains(on(network).title), "{error}");
    }
}

#[test]
fn mistyped_addresses_are_refused() {
    for text in [
        "",
        " 1LuckyR1fFHEsXYyx5QK4UFzv3PEAepPMK",
        "1LuckyR1fFHEsXYyx5QK4UFzv3PEAepPML",
        "1luckyR1fFHEsXYyx5QK4UFzv3PEAepPMK",
        "bc1qx9t2l3pyny2spqpqlye8svce70nppwtaxwdrp5",
        "bitcoin:1LuckyR1fFHEsXYyx5QK4UFzv3PEAepPMK",
        "0x00000000219ab540356cBB839Cbe05303d7705Fa",
        "bc1",
        "bc1qx9t2l3pyny2spqpqlye8svce70nppwtaxwdrp4\u{200b}",
    ] {
        refuse("mainnet", text);
    }
    let endless = "q".repeat(100_000);
    assert!(refuse("mainnet", &endless).len() < 400);
}

#[test]
fn versions_that_anybody_could_spend_can_not_be_watched() {
    // BIP 350's valid addresses of versions without rules, and pay-to-anchor.
    for text in [
        "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y",
        "BC1SW50QGDZ25J",
        "bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs",
        "bc1pfeessrawgf",
    ] {
        assert!(refuse("mainnet", text).contains("anybody could spend"), "{}", refuse("mainnet", text));
    }
}

#[test]
fn litecoins_two_spellings_of_a_script_hash_are_one_address() {
    let hash = [0x42; 20];
    let modern = Destination::P2sh(hash).text(on("litecoin"));
    let legacy = Destination::P2sh(hash).text(on("mainnet"));
    assert!(modern.starts_with('M') && legacy.starts_with('3'), "{modern} {legacy}");
    assert_eq!(accept("litecoin", &modern), accept("litecoin", &legacy));
    assert_eq!(accept("litecoin", &legacy).1, modern);
    let test = Destination::P2sh(hash).text(on("litecoin-regtest"));
    assert!(test.starts_with('Q'), "{test}");
    assert_eq!(accept("litecoin-regtest", &Destination::P2sh(hash).text(on("regtest"))).1, test);
}

#[test]
fn addresses_within_mweb_are_refused_with_the_reason() {
    for (network, text) in [
        ("litecoin", "ltcmweb1qqvk0qqvk0qqvk0qqvk0qqvk0qqvk0qqvk0qqvk0qqvk0q"),
        ("litecoin-testnet", "tmweb1qqvk0qqvk0qqvk0qqvk0qqvk0qqvk0qqvk0qqvk0qqvk0q"),
        ("litecoin-regtest", "TMWEB1QQVK0QQVK0QQVK0"),
    ] {
        assert!(refuse(network, text).contains("hidden"), "{}", refuse(network, text));
    }
}

#[test]
fn a_prefix_inside_the_data_part_does_not_pass_for_the_networks() {
    // The last `1` ends the prefix: this one is `bc1qa`, correctly checksummed.
    let hrp = bitcoin::bech32::Hrp::parse("bc1qa").unwrap();
    let text = bitcoin::bech32::segwit::encode_v0(hrp, &[7; 20]).unwrap();
    assert!(text.starts_with("bc1"));
    refuse("mainnet", &text);
}

proptest! {
    #[test]
    fn s15_every_form_on_every_network_is_read_back_from_its_text(hash in any::<[u8; 32]>(), row in 0..NETWORKS.len()) {
        let network = &NETWORKS[row];
        let short: [u8; 20] = hash[..20].try_into().unwrap();
        let forms = [
            Destination::P2pkh(short), Destination::P2sh(short), Destination::P2wpkh(short), Destination::P2wsh(hash), Destination::P2tr(hash),
        ];
        for form in forms {
            let address = parse_address(&form.text(network), network).unwrap();
            prop_assert_eq!(address.bytes(), form.script());
            prop_assert_eq!(address.as_str(), form.text(network));
            prop_assert_eq!(Destination::of_script(address.bytes()), Some(form));
            prop_assert!(form.script().len() <= crate::destination::SCRIPT_BYTES_MAX);
        }
    }

    #[test]
    fn s15_the_bitcoin_crate_reads_the_same_addresses(text in "(bc1[a-z0-9]{10,60}|[13][a-zA-Z0-9]{25,34})") {
        use std::str::FromStr;
        let theirs = bitcoin::Address::from_str(&text).ok().and_then(|a| a.require_network(bitcoin::Network::Bitcoin).ok());
        if let Ok(ours) = parse_address(&text, on("mainnet")) {
            let theirs = theirs.unwrap().script_pubkey();
            prop_assert_eq!(ours.bytes(), theirs.as_bytes());
        }
    }

    #[test]
    fn any_text_is_judged_without_a_panic(text in ".*", row in 0..NETWORKS.len()) {
        let _ = parse_address(&text, &NETWORKS[row]);
    }
}
