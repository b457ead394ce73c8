//! Blocks that others recorded, from the folder that `CONFIRMD_REAL_DATA` names (default: `shared/data` beside the
//! workspace). Where the folder is absent the trials show as ignored.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use bitcoin::consensus::encode::{deserialize, serialize};
use confirmd_chain_bitcoin::{Block, DecodeError, Destination, Network, parse_address, transfers_in};
use confirmd_core::{Address, Amount, Height, Transfer, WatchEntry, WatchOrigin, WatchSet, WatchState};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

const RAW_BLOCKS: &[&str] = &[
    "bitcoin/bcoin_block300025.raw",
    "bitcoin/bitcoinj_block227835.dat",
    "bitcoin/bitcoinj_block227836.dat",
    "bitcoin/bitcoinj_block363703.dat",
    "bitcoin/bitcoinj_block481829.dat",
    "bitcoin/block_mainnet_000000000000000000000c835b2adcae.raw",
    "bitcoin/block_testnet_000000000000045e0b1660b6.raw",
    "bitcoin/core_block413567.raw",
    "bitcoin/electrumx_bitcoin_mainnet_951658.json",
    "litecoin/electrumx_litecoin_mainnet_900000.json",
];
const EXTENDED_BLOCKS: &[(&str, u64)] =
    &[("litecoin/ltcd_testnet4Block2215584.dat", 2_215_584), ("litecoin/ltcd_testnet4Block2215586.dat", 2_215_586)];

fn folder() -> PathBuf {
    match std::env::var_os("CONFIRMD_REAL_DATA") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    }
}

fn file(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json(name: &str) -> Value {
    let bytes = file(name);
    if name.ends_with(".gz") {
        serde_json::from_reader(flate2::read::GzDecoder::new(bytes.as_slice())).unwrap()
    } else {
        serde_json::from_slice(&bytes).unwrap()
    }
}

/// The raw bytes of a recorded block, whichever way it was recorded.
fn block(name: &str) -> Vec<u8> {
    if name.ends_with(".json") { const_hex::decode(json(name)["block"].as_str().unwrap()).unwrap() } else { file(name) }
}

fn network(name: &str) -> &'static Network {
    Network::by_name(name).unwrap()
}

fn network_of(file: &str) -> &'static Network {
    match file {
        _ if file.starts_with("litecoin/ltcd") => network("litecoin-testnet"),
        _ if file.starts_with("litecoin/") => network("litecoin"),
        _ => network("mainnet"),
    }
}

fn watching(addresses: impl IntoIterator<Item = Address>) -> WatchSet {
    let mut watch = WatchSet::default();
    for address in addresses {
        watch.put_address(WatchEntry { address, reference: None, from: Height(0), origin: WatchOrigin::Command, state: WatchState::Watching });
    }
    watch
}

/// Everything in the block that can be watched at all.
fn watching_all(block: &Block<'_>, network: &Network) -> WatchSet {
    let forms = block.outputs.iter().filter_map(|output| Destination::of_script(output.script));
    watching(forms.map(|form| parse_address(&form.text(network), network).unwrap()))
}

fn matched(bytes: &[u8], network: &Network, watch: &WatchSet) -> Vec<Transfer> {
    transfers_in(&Block::decode(bytes, network).unwrap(), Height(1), &network.coin(), watch)
}

fn expected_case(case: &Value) -> Result<(), Failed> {
    let name = case["file"].as_str().unwrap();
    let (bytes, network) = (block(name), network_of(name));
    let address = parse_address(case["address"].as_str().unwrap(), network)?;
    assert_eq!(const_hex::encode(address.bytes()), case["script"].as_str().unwrap());
    assert_eq!(address.as_str(), case["address"].as_str().unwrap());
    let decoded = Block::decode_as(&case["block"].as_str().unwrap().parse().unwrap(), &bytes, network)?;
    let transfers = transfers_in(&decoded, Height(1), &network.coin(), &watching([address]));
    let of_tx: Vec<_> = transfers.iter().filter(|t| t.key.tx_id.as_str() == case["tx"].as_str().unwrap()).collect();
    let found: Vec<_> = of_tx.iter().map(|t| (u64::from(t.key.output_index), t.payment.amount.to_string())).collect();
    let expected: Vec<_> = case["expected"].as_array().unwrap().iter().map(|e| (e["vout"].as_u64().unwrap(), e["sats"].as_str().unwrap().to_owned())).collect();
    assert_eq!(found, expected);
    let coinbase = of_tx.iter().all(|t| t.position == 0);
    assert!(of_tx.iter().all(|t| t.maturity.is_some() == coinbase && t.block.hash.as_str() == case["block"].as_str().unwrap()));
    Ok(())
}

/// S14: our walk and the `bitcoin` crate's decoder tell the same of every block that the latter can read.
fn decodes_alike(bytes: &[u8], network: &Network) {
    let theirs: bitcoin::Block = deserialize(bytes).unwrap();
    let ours = Block::decode_as(&theirs.block_hash(), bytes, network).unwrap();
    assert_eq!(ours.header, theirs.header);
    assert_eq!(ours.txids, theirs.txdata.iter().map(|tx| tx.compute_txid()).collect::<Vec<_>>());
    let mut outputs = ours.outputs.iter();
    for (position, tx) in (0u32..).zip(&theirs.txdata) {
        for (vout, output) in (0u32..).zip(&tx.output) {
            let one = outputs.next().unwrap();
            assert_eq!((one.position, one.vout, one.value, one.script), (position, vout, output.value.to_sat(), output.script_pubkey.as_bytes()));
        }
    }
    assert!(outputs.next().is_none() && ours.extension.is_none());
}

/// S15, S16, S6: watching everything finds every output that has an address, as the `bitcoin` crate sees them.
fn every_address_is_found(name: &str) {
    let (bytes, network) = (block(name), network_of(name));
    let decoded = Block::decode(&bytes, network).unwrap();
    let transfers = transfers_in(&decoded, Height(1), &network.coin(), &watching_all(&decoded, network));
    let theirs: bitcoin::Block = deserialize(&bytes).unwrap();
    let mut found = transfers.iter();
    for (position, tx) in (0u32..).zip(&theirs.txdata) {
        for (vout, output) in (0u32..).zip(&tx.output) {
            let script = &output.script_pubkey;
            let watchable = script.is_p2pkh() || script.is_p2sh() || script.is_p2wpkh() || script.is_p2wsh() || script.is_p2tr();
            if !watchable || output.value.to_sat() == 0 {
                continue;
            }
            let transfer = found.next().unwrap();
            assert_eq!((transfer.position, transfer.key.output_index), (position, vout));
            assert_eq!(transfer.key.tx_id.as_str(), tx.compute_txid().to_string());
            assert_eq!(transfer.payment.amount, Amount::from(output.value.to_sat()));
            assert_eq!(transfer.payment.address.bytes(), script.as_bytes());
            if network.name == "mainnet" {
                let text = bitcoin::Address::from_script(script, bitcoin::Network::Bitcoin).unwrap().to_string();
                assert_eq!(transfer.payment.address.as_str(), text);
            }
        }
    }
    assert!(found.next().is_none());
}

fn spoilt_blocks_are_refused(name: &str) {
    let (whole, network) = (block(name), network_of(name));
    let good = Block::decode(&whole, network).unwrap();
    let steps = 40;
    for step in 0..steps {
        let cut = whole.len() / steps * step;
        assert!(Block::decode(&whole[..cut], network).is_err(), "{cut} bytes");
    }
    assert!(Block::decode(&whole[..whole.len() - 1], network).is_err());
    let padded = [whole.as_slice(), &[0]].concat();
    assert_eq!(Block::decode(&padded, network).unwrap_err(), DecodeError::Trailing { bytes: 1 });
    let mut flipped = whole.clone();
    for step in 0..steps {
        let at = whole.len() / steps * step + step % 7;
        flipped[at] ^= 1 << (step % 8);
        // Witnesses and the extension block are not under the header: a flip there may pass, and must change nothing.
        if let Ok(block) = Block::decode_as(&good.hash, &flipped, network) {
            assert_eq!((&block.txids, &block.outputs), (&good.txids, &good.outputs), "byte {at}");
        }
        flipped[at] = whole[at];
    }
}

/// MWEB: the HogEx pays out exactly the extension block's peg-outs, and other transactions pay in its peg-ins.
fn extension_block_is_read(name: &str, height: u64) {
    let (bytes, network) = (block(name), network_of(name));
    assert!(deserialize::<bitcoin::Block>(&bytes).is_err());
    let decoded = Block::decode(&bytes, network).unwrap();
    let extension = decoded.extension.as_ref().unwrap();
    assert_eq!(extension.height, height);
    let hogex = decoded.hogex.unwrap();
    assert_eq!(usize::try_from(hogex).unwrap() + 1, decoded.txids.len());
    let paid_out: Vec<_> = decoded.outputs.iter().filter(|o| o.position == hogex && o.vout > 0).map(|o| (o.value, o.script.to_vec())).collect();
    assert_eq!(paid_out, extension.peg_outs);
    let mut paid_in: Vec<_> = decoded.outputs.iter().filter(|o| o.script.starts_with(&[0x59, 0x20])).map(|o| o.value).collect();
    let mut peg_ins = extension.peg_ins.clone();
    paid_in.sort_unstable();
    peg_ins.sort_unstable();
    assert_eq!(paid_in, peg_ins);
    println!("{name}: {extension:?}");
    // Nothing that holds MWEB's coins can be watched; a peg-out can.
    let transfers = transfers_in(&decoded, Height(height), &network.coin(), &watching_all(&decoded, network));
    assert!(transfers.iter().all(|t| t.position != hogex || t.maturity.is_some_and(|m| m.get() == 6)));
    let peg_outs_found = transfers.iter().filter(|t| t.position == hogex).count();
    assert_eq!(peg_outs_found, extension.peg_outs.iter().filter(|(_, script)| Destination::of_script(script).is_some()).count());
    assert_eq!(Block::decode(&bytes, network_of("bitcoin")).unwrap_err(), DecodeError::Flags { position: hogex, flags: 8 });
}

fn linked_blocks() -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    bzip2_rs::DecoderReader::new(file("bitcoin/btcd_blocks1-256.bz2").as_slice()).read_to_end(&mut bytes).unwrap();
    let mut rest = bytes.as_slice();
    let mut blocks = Vec::new();
    while let Some((frame, behind)) = rest.split_at_checked(8) {
        assert_eq!(frame[..4], [0xf9, 0xbe, 0xb4, 0xd9]);
        let length = usize::try_from(u32::from_le_bytes(frame[4..].try_into().unwrap())).unwrap();
        let (block, behind) = behind.split_at(length);
        blocks.push(block.to_vec());
        rest = behind;
    }
    blocks
}

fn early_blocks_link_to_the_genesis_block() {
    let mainnet = network("mainnet");
    let blocks = linked_blocks();
    assert!(blocks.len() >= 256, "{} blocks", blocks.len());
    let mut tip: Option<String> = None;
    for bytes in &blocks {
        let decoded = Block::decode(bytes, mainnet).unwrap();
        match &tip {
            Some(tip) => assert_eq!(decoded.header.prev_blockhash.to_string(), *tip),
            None => assert_eq!(decoded.hash.to_string(), mainnet.genesis),
        }
        tip = Some(decoded.hash.to_string());
        decodes_alike(bytes, mainnet);
    }
}

/// A19: block 300025 has outputs to several bare keys; watching each key's own addresses finds none of them.
fn bare_multisig_is_no_deposit() {
    let (bytes, mainnet) = (block("bitcoin/bcoin_block300025.raw"), network("mainnet"));
    let decoded = Block::decode(&bytes, mainnet).unwrap();
    let multisig: Vec<_> = decoded.outputs.iter().filter(|o| bitcoin::Script::from_bytes(o.script).is_multisig()).collect();
    assert_eq!(multisig.len(), 5);
    let keys = multisig.iter().flat_map(|output| {
        let pushes: Vec<Vec<u8>> =
            bitcoin::Script::from_bytes(output.script).instructions().filter_map(|i| Some(i.ok()?.push_bytes()?.as_bytes().to_vec())).collect();
        pushes
    });
    use bitcoin::hashes::{Hash, hash160};
    let hashes = keys.map(|key| hash160::Hash::hash(&key).to_byte_array());
    let forms = hashes.flat_map(|hash| [Destination::P2pkh(hash), Destination::P2wpkh(hash)]);
    let watch = watching(forms.map(|form| parse_address(&form.text(mainnet), mainnet).unwrap()));
    assert!(watch.len() >= 10);
    let paid = transfers_in(&decoded, Height(300_025), &mainnet.coin(), &watch);
    assert!(paid.iter().all(|t| multisig.iter().all(|o| (o.position, o.vout) != (t.position, t.key.output_index))));
    let all = transfers_in(&decoded, Height(300_025), &mainnet.coin(), &watching_all(&decoded, mainnet));
    assert!(all.iter().all(|t| multisig.iter().all(|o| (o.position, o.vout) != (t.position, t.key.output_index))));
}

/// A19: the old node's JSON lists addresses for an output that any one of several keys can spend.
fn addresses_listed_by_an_old_node_are_not_matched() {
    let case = json("bitcoin/chainstorage_get_block_multisig_case.json");
    let mut seen = 0;
    for output in case["tx"].as_array().unwrap().iter().flat_map(|tx| tx["vout"].as_array().unwrap()) {
        let script = const_hex::decode(output["scriptPubKey"]["hex"].as_str().unwrap()).unwrap();
        if output["scriptPubKey"]["type"] == "multisig" {
            assert_eq!(Destination::of_script(&script), None);
            seen += 1;
        }
    }
    assert!(seen > 0);
}

/// A21, A13: counts of a recent block.
fn data_outputs_are_skipped_and_taproot_is_found() {
    let name = "bitcoin/electrumx_bitcoin_mainnet_951658.json";
    let (bytes, mainnet, recorded) = (block(name), network("mainnet"), json(name));
    let decoded = Block::decode(&bytes, mainnet).unwrap();
    assert_eq!(decoded.outputs.iter().filter(|o| o.script.first() == Some(&0x6a)).count(), 211);
    let transfers = matched(&bytes, mainnet, &watching_all(&decoded, mainnet));
    let taproot = transfers.iter().filter(|t| matches!(Destination::of_script(t.payment.address.bytes()), Some(Destination::P2tr(_))));
    assert_eq!(taproot.count(), 103);
    let ids: Vec<_> = recorded["tx"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    assert_eq!(decoded.txids.iter().map(ToString::to_string).collect::<Vec<_>>(), ids);
    assert_eq!(decoded.header.merkle_root.to_string(), recorded["merkleroot"].as_str().unwrap());
}

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
fn a_verbose_answer_tells_the_same_outputs(name: &str) {
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

fn trials() -> Vec<Trial> {
    let ignored = !folder().join("expected.json").is_file();
    let trial = |name: String, run: Box<dyn FnOnce() -> Result<(), Failed> + Send>| {
        let kind = if ignored { "no recorded data: set CONFIRMD_REAL_DATA" } else { "" };
        Trial::test(name, run).with_ignored_flag(ignored).with_kind(kind)
    };
    let mut trials = Vec::new();
    let mut add = |name: String, run: fn(&str)| {
        let given = name.rsplit("::").next().unwrap_or_default().to_owned();
        trials.push(trial(name, Box::new(move || { run(&given); Ok(()) })));
    };
    for file in RAW_BLOCKS {
        add(format!("s14_decodes_as_the_bitcoin_crate_does::{file}"), |name| decodes_alike(&block(name), network_of(name)));
        add(format!("s15_s16_every_address_is_found::{file}"), every_address_is_found);
        add(format!("s14_spoilt_blocks_are_refused::{file}"), spoilt_blocks_are_refused);
    }
    for (file, _) in EXTENDED_BLOCKS {
        add(format!("mweb_extension_block_is_read::{file}"), |name| {
            let (_, height) = EXTENDED_BLOCKS.iter().find(|(file, _)| *file == name).unwrap();
            extension_block_is_read(name, *height);
        });
        add(format!("s14_spoilt_blocks_are_refused::{file}"), spoilt_blocks_are_refused);
    }
    for file in ["bitcoin/getblock_v2_91880.json", "bitcoin/getblock_v2_200000.json.gz"] {
        add(format!("a20_a35_a_verbose_answer_tells_the_same_outputs::{file}"), a_verbose_answer_tells_the_same_outputs);
    }
    add("s14_early_blocks_link_to_the_genesis_block".into(), |_| early_blocks_link_to_the_genesis_block());
    add("a19_bare_multisig_is_no_deposit".into(), |_| bare_multisig_is_no_deposit());
    add("a19_a20_addresses_listed_by_an_old_node_are_not_matched".into(), |_| addresses_listed_by_an_old_node_are_not_matched());
    add("a13_a21_data_outputs_are_skipped_and_taproot_is_found".into(), |_| data_outputs_are_skipped_and_taproot_is_found());
    if ignored {
        trials.push(trial("a10_a14_expected_transfers".into(), Box::new(|| Ok(()))));
    } else {
        for case in json("expected.json").as_array().unwrap().iter().filter(|case| case["chain"] == "btc").cloned() {
            let name = format!("a10_a14_expected_transfers::{}", case["case"].as_str().unwrap());
            trials.push(trial(name, Box::new(move || expected_case(&case))));
        }
    }
    trials
}

fn main() -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials()).exit_code()
}
