//! Payments as a ledger names them, on any chain.

use std::collections::BTreeMap;

use confirmd_testkit::alloy::primitives::{Address, U256, address};
use confirmd_testkit::bitcoin::ScriptBuf;
use confirmd_testkit::receiver::LedgerKey;

/// What a key of the truth is worth, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owed {
    /// In lower case, as addresses are compared here.
    pub(super) address: String,
    /// CAIP-19.
    pub(super) asset: String,
    pub(super) amount: U256,
}

/// What a ledger must hold at the end.
pub(super) type Truth = BTreeMap<LedgerKey, Owed>;

/// Sends what the customers get.
pub(super) const PAYER: Address = address!("000000000000000000000000000000000000fa9e");
/// A contract that pays on.
pub(super) const SPLITTER: Address = address!("0000000000000000000000000000000000005911");
/// A listed token.
pub(super) const TOKEN: Address = address!("00000000000000000000000000000000005d5e01");
/// A token that nobody listed.
pub(super) const OTHER_TOKEN: Address = address!("00000000000000000000000000000000005d5e02");
/// Nobody's.
pub(super) const STRANGER: Address = address!("0000000000000000000000000000000000057a9e");
/// Watched on EVM chains.
pub(super) const ACCOUNTS: [Address; 3] = [
    address!("00000000000000000000000000000000000b0b01"),
    address!("00000000000000000000000000000000ca401001"),
    address!("00000000000000000000000000000000da5e0001"),
];

/// Watched on the Bitcoin chain: address and script.
pub(super) const COIN_ADDRESSES: [(&str, &str); 2] = [
    ("bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080", "0014751e76e8199196d454941c45d1b3a323f1433bd6"),
    ("mkHS9ne12qx9pS9VojpwU5xtRd4T7X7ZUt", "76a914344a0f48ca150ec2b903817660b9b68b13a6702688ac"),
];

/// A script in hex.
pub(super) fn script(hex: &str) -> ScriptBuf {
    ScriptBuf::from_hex(hex).expect("invariant: a constant")
}
