//! The recorded files and what is watched in them.

use confirmd_chain_bitcoin::{Block, Destination, Network, parse_address, transfers_in};
use confirmd_core::{Address, Height, Transfer, WatchEntry, WatchOrigin, WatchSet, WatchState};
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;

pub(crate) const RAW_BLOCKS: &[&str] = &[
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
pub(crate) const EXTENDED_BLOCKS: &[(&str, u64)] =
    &[("litecoin/ltcd_testnet4Block2215584.dat", 2_215_584), ("litecoin/ltcd_testnet4Block2215586.dat", 2_215_586)];

pub(crate) fn folder() -> PathBuf {
    match std::env::var_os("CONFIRMD_REAL_DATA") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    }
}

pub(crate) fn file(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn json(name: &str) -> Value {
    let bytes = file(name);
    if name.ends_with(".gz") {
        serde_json::from_reader(flate2::read::GzDecoder::new(bytes.as_slice())).unwrap()
    } else {
        serde_json::from_slice(&bytes).unwrap()
    }
}

/// The raw bytes of a recorded block, whichever way it was recorded.
pub(crate) fn block(name: &str) -> Vec<u8> {
    if name.ends_with(".json") { const_hex::decode(json(name)["block"].as_str().unwrap()).unwrap() } else { file(name) }
}

pub(crate) fn network(name: &str) -> &'static Network {
    Network::by_name(name).unwrap()
}

pub(crate) fn network_of(file: &str) -> &'static Network {
    match file {
        _ if file.starts_with("litecoin/ltcd") => network("litecoin-testnet"),
        _ if file.starts_with("litecoin/") => network("litecoin"),
        _ => network("mainnet"),
    }
}

pub(crate) fn watching(addresses: impl IntoIterator<Item = Address>) -> WatchSet {
    let mut watch = WatchSet::default();
    for address in addresses {
        watch.put_address(WatchEntry {
            address,
            reference: None,
            from: Height(0),
            origin: WatchOrigin::Command,
            state: WatchState::Watching,
            history: None,
        });
    }
    watch
}

/// Everything in the block that can be watched at all.
pub(crate) fn watching_all(block: &Block<'_>, network: &Network) -> WatchSet {
    let forms = block.outputs.iter().filter_map(|output| Destination::of_script(output.script));
    watching(forms.map(|form| parse_address(&form.text(network), network).unwrap()))
}

pub(crate) fn matched(bytes: &[u8], network: &Network, watch: &WatchSet) -> Vec<Transfer> {
    transfers_in(&Block::decode(bytes, network).unwrap(), Height(1), &network.coin(), watch)
}

pub(crate) fn linked_blocks() -> Vec<Vec<u8>> {
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
