//! Verbose answers of nodes against the raw bytes.

use crate::data::{file, network};
use bitcoin::consensus::encode::serialize;
use confirmd_chain_bitcoin::Block;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;

/// A verbose answer with its numbers left as text.
#[derive(serde::Deserialize)]
struct Verbose {
    hash: String,
    version: i32,
    previousblockhash: String,
    merkleroot: String,
    time: u32,
    bits: String,
    nonce: u32,
    tx: Vec<VerboseTx>,
}

#[derive(serde::Deserialize)]
struct VerboseTx {
    txid: String,
    hex: String,
    vout: Vec<VerboseOutput>,
}

#[derive(serde::Deserialize)]
struct VerboseOutput {
    value: Box<RawValue>,
    n: u32,
    #[serde(rename = "scriptPubKey")]
    script: BTreeMap<String, Value>,
}

/// `0.00225` as satoshis, by its digits.
fn sats(text: &str) -> u64 {
    let (number, exponent) = text.split_once(['e', 'E']).map_or((text, 0), |(n, e)| (n, e.parse::<i32>().unwrap()));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let shift = usize::try_from(8 + exponent).unwrap();
    let kept: String = part.chars().chain(std::iter::repeat('0')).take(shift).collect();
    assert!(part.chars().skip(shift).all(|c| c == '0'), "{text}");
    format!("{whole}{kept}").parse().unwrap()
}

/// A20, A35: what the node's own verbose answer says of each output is what the raw bytes say.
pub(crate) fn a_verbose_answer_tells_the_same_outputs(name: &str) {
    let bytes = file(name);
    let text = if name.ends_with(".gz") {
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
        text
    } else {
        String::from_utf8(bytes).unwrap()
    };
    let verbose: Verbose = serde_json::from_str(&text).unwrap();
    let header = bitcoin::block::Header {
        version: bitcoin::block::Version::from_consensus(verbose.version),
        prev_blockhash: verbose.previousblockhash.parse().unwrap(),
        merkle_root: verbose.merkleroot.parse().unwrap(),
        time: verbose.time,
        bits: bitcoin::CompactTarget::from_consensus(u32::from_str_radix(&verbose.bits, 16).unwrap()),
        nonce: verbose.nonce,
    };
    let count = bitcoin::VarInt::from(verbose.tx.len());
    let raw = verbose.tx.iter().flat_map(|tx| const_hex::decode(&tx.hex).unwrap());
    let raw: Vec<u8> = serialize(&header).into_iter().chain(serialize(&count)).chain(raw).collect();
    let decoded = Block::decode_as(&verbose.hash.parse().unwrap(), &raw, network("mainnet")).unwrap();
    let outputs: HashMap<_, _> = decoded.outputs.iter().map(|o| ((o.position, o.vout), o)).collect();
    let mut compared = 0;
    for (position, tx) in (0u32..).zip(&verbose.tx) {
        assert_eq!(decoded.txids[usize::try_from(position).unwrap()].to_string(), tx.txid);
        for said in &tx.vout {
            let ours = outputs[&(position, said.n)];
            assert_eq!(ours.value, sats(said.value.get()));
            assert_eq!(const_hex::encode(ours.script), said.script["hex"].as_str().unwrap());
            compared += 1;
        }
    }
    assert_eq!(compared, decoded.outputs.len());
}
