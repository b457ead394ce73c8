#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::block::Block;
use crate::destination::Destination;
use crate::matching::transfers_in;
use crate::network::Network;
use crate::parse_address;
use confirmd_core::{Height, WatchEntry, WatchOrigin, WatchSet, WatchState};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a litecoind of our own served, and what it said of it.
const RECORDED: &str = include_str!("../../fixtures/litecoin_mweb.jsonl");

#[derive(Deserialize)]
struct Line {
    raw: String,
    said: Said,
}

#[derive(Deserialize)]
struct Said {
    hash: String,
    height: u64,
    tx: Vec<SaidTx>,
    mweb: Option<SaidExtension>,
}

#[derive(Deserialize)]
struct SaidTx {
    txid: String,
    vout: Vec<SaidOutput>,
}

#[derive(Deserialize)]
struct SaidOutput {
    value: Box<RawValue>,
    n: u32,
    #[serde(rename = "scriptPubKey")]
    script: SaidScript,
}

#[derive(Deserialize)]
struct SaidScript {
    hex: String,
    r#type: String,
    addresses: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct SaidExtension {
    height: u64,
    inputs: Vec<serde_json::Value>,
    outputs: Vec<serde_json::Value>,
    kernels: Vec<serde_json::Value>,
}

fn lines() -> Vec<(Vec<u8>, Said)> {
    let read = |line: &str| {
        let line: Line = serde_json::from_str(line).unwrap();
        (const_hex::decode(line.raw).unwrap(), line.said)
    };
    RECORDED.lines().map(read).collect()
}

fn network() -> &'static Network {
    Network::by_name("litecoin-regtest").unwrap()
}

/// `1.25000000` in base units, by its digits.
fn base_units(text: &str) -> u64 {
    let (whole, part) = text.split_once('.').unwrap();
    assert_eq!(part.len(), 8, "{text}");
    format!("{whole}{part}").parse().unwrap()
}

#[test]
fn a20_a35_what_the_node_says_of_each_output_is_what_the_bytes_say_mweb_included() {
    for (raw, said) in lines() {
        let block = Block::decode_as(&said.hash.parse().unwrap(), &raw, network()).unwrap();
        assert_eq!(
            block.txids.iter().map(ToString::to_string).collect::<Vec<_>>(),
            said.tx.iter().map(|tx| tx.txid.clone()).collect::<Vec<_>>()
        );
        let mut outputs = block.outputs.iter();
        for (position, tx) in (0u32..).zip(&said.tx) {
            for output in &tx.vout {
                let ours = outputs.next().unwrap();
                assert_eq!((ours.position, ours.vout, ours.value), (position, output.n, base_units(output.value.get())));
                assert_eq!(const_hex::encode(ours.script), output.script.hex);
                let watchable = Destination::of_script(ours.script);
                let addresses = output.script.addresses.as_deref().unwrap_or_default();
                assert_eq!(watchable.map(|form| form.text(network())).as_ref(), addresses.first(), "{}", output.script.r#type);
            }
        }
        assert!(outputs.next().is_none());
        assert_eq!(block.extension.is_some(), said.mweb.is_some());
        if let (Some(ours), Some(theirs)) = (&block.extension, &said.mweb) {
            assert_eq!((ours.height, said.height), (theirs.height, theirs.height));
            assert_eq!(
                (ours.inputs, ours.outputs, ours.kernels),
                (theirs.inputs.len(), theirs.outputs.len(), theirs.kernels.len())
            );
        }
    }
}

#[test]
fn peg_outs_are_deposits_and_what_mweb_holds_is_none() {
    let (mut peg_ins, mut peg_outs) = (0, 0);
    for (raw, said) in lines() {
        let block = Block::decode(&raw, network()).unwrap();
        let mut watch = WatchSet::default();
        for form in block.outputs.iter().filter_map(|output| Destination::of_script(output.script)) {
            let address = parse_address(&form.text(network()), network()).unwrap();
            let (origin, state) = (WatchOrigin::Command, WatchState::Watching);
            watch.put_address(WatchEntry { address, reference: None, from: Height(0), origin, state, history: None });
        }
        let transfers = transfers_in(&block, Height(said.height), &network().coin(), &watch);
        let paid_out: Vec<_> = transfers.iter().filter(|t| Some(t.position) == block.hogex).collect();
        let Some(extension) = &block.extension else { continue };
        let wanted: Vec<_> = extension.peg_outs.iter().map(|(amount, script)| (amount.to_string(), script.as_slice())).collect();
        assert_eq!(
            paid_out.iter().map(|t| (t.payment.amount.to_string(), t.payment.address.bytes())).collect::<Vec<_>>(),
            wanted
        );
        assert!(paid_out.iter().all(|t| t.key.output_index > 0 && t.maturity.is_some_and(|m| m.get() == 6)));
        peg_outs += paid_out.len();
        for amount in &extension.peg_ins {
            assert!(block.outputs.iter().any(|output| output.value == *amount && output.script.starts_with(&[0x59, 0x20])));
            assert!(transfers.iter().all(|t| t.payment.amount.to_string() != amount.to_string()));
            peg_ins += 1;
        }
    }
    assert_eq!((peg_ins, peg_outs), (2, 2));
}

#[test]
fn s14_recorded_blocks_with_an_extension_are_refused_when_cut_or_padded() {
    for (raw, _) in lines() {
        assert!((0..raw.len()).all(|end| Block::decode(&raw[..end], network()).is_err()));
        assert!(Block::decode(&[raw.as_slice(), &[0]].concat(), network()).is_err());
    }
}
