//! What an address stands for: a script that one key or one script hash controls.

use crate::network::Network;
use bitcoin::base58;
use bitcoin::bech32::{Fe32, Hrp, segwit};
use std::fmt;

const OP_0: u8 = 0x00;
const OP_1: u8 = 0x51;
const OP_DUP: u8 = 0x76;
const OP_HASH160: u8 = 0xa9;
const OP_EQUAL: u8 = 0x87;
const OP_EQUALVERIFY: u8 = 0x88;
const OP_CHECKSIG: u8 = 0xac;
const PUSH_20: u8 = 20;
const PUSH_32: u8 = 32;

/// The longest script that can be watched, in bytes: a version and 32 bytes.
pub(crate) const SCRIPT_BYTES_MAX: usize = 34;

/// A form of output script that can be watched. All others either name several keys (bare multisig), need no key
/// (witness versions without rules), or can't be spent at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Destination {
    /// Pay to public key hash.
    P2pkh([u8; 20]),
    /// Pay to script hash.
    P2sh([u8; 20]),
    /// Witness version 0, key hash.
    P2wpkh([u8; 20]),
    /// Witness version 0, script hash.
    P2wsh([u8; 32]),
    /// Witness version 1.
    P2tr([u8; 32]),
}

impl Destination {
    /// The output script.
    pub fn script(&self) -> Vec<u8> {
        match self {
            Self::P2pkh(hash) => [&[OP_DUP, OP_HASH160, PUSH_20], &hash[..], &[OP_EQUALVERIFY, OP_CHECKSIG]].concat(),
            Self::P2sh(hash) => [&[OP_HASH160, PUSH_20], &hash[..], &[OP_EQUAL]].concat(),
            Self::P2wpkh(hash) => [&[OP_0, PUSH_20], &hash[..]].concat(),
            Self::P2wsh(hash) => [&[OP_0, PUSH_32], &hash[..]].concat(),
            Self::P2tr(key) => [&[OP_1, PUSH_32], &key[..]].concat(),
        }
    }

    /// What a script pays to; `None` if it has no such form.
    pub fn of_script(script: &[u8]) -> Option<Self> {
        match script {
            [OP_DUP, OP_HASH160, PUSH_20, hash @ .., OP_EQUALVERIFY, OP_CHECKSIG] => hash.try_into().ok().map(Self::P2pkh),
            [OP_HASH160, PUSH_20, hash @ .., OP_EQUAL] => hash.try_into().ok().map(Self::P2sh),
            [OP_0, PUSH_20, hash @ ..] => hash.try_into().ok().map(Self::P2wpkh),
            [OP_0, PUSH_32, hash @ ..] => hash.try_into().ok().map(Self::P2wsh),
            [OP_1, PUSH_32, key @ ..] => key.try_into().ok().map(Self::P2tr),
            _ => None,
        }
    }

    /// The one spelling that events and lists show on `network`.
    pub fn text(&self, network: &Network) -> String {
        match self {
            Self::P2pkh(hash) => base58_text(network.base58.p2pkh, hash),
            Self::P2sh(hash) => base58_text(network.base58.p2sh, hash),
            Self::P2wpkh(hash) => segwit_text(network, Fe32::Q, hash),
            Self::P2wsh(hash) => segwit_text(network, Fe32::Q, hash),
            Self::P2tr(key) => segwit_text(network, Fe32::P, key),
        }
    }
}

fn base58_text(version: u8, hash: &[u8; 20]) -> String {
    base58::encode_check(&[&[version], &hash[..]].concat())
}

fn segwit_text(network: &Network, version: Fe32, program: &[u8]) -> String {
    let hrp = Hrp::parse(network.hrp).expect("invariant: the table's prefixes are ones, which a test encodes");
    segwit::encode(hrp, version, program).expect("invariant: 20 or 32 bytes are a witness program")
}

/// The kind, in the field's words.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P2pkh(_) => "P2PKH",
            Self::P2sh(_) => "P2SH",
            Self::P2wpkh(_) => "P2WPKH",
            Self::P2wsh(_) => "P2WSH",
            Self::P2tr(_) => "P2TR",
        })
    }
}
