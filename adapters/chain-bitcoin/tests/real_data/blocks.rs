//! What must come out of each recorded block.

use crate::data::{block, json, linked_blocks, matched, network, network_of, watching, watching_all};
use bitcoin::consensus::encode::deserialize;
use bitcoin::hashes::{Hash, hash160};
use confirmd_chain_bitcoin::{Block, DecodeError, Destination, Network, parse_address, transfers_in};
use confirmd_core::{Amount, Height};
use libtest_mimic::Failed;
use serde_json::Value;

pub(crate) fn expected_case(case: &Value) -> Result<(), Failed> {
    let name = case["file"].as_str().unwrap();
    let (bytes, network) = (block(name), network_of(name));
    let address = parse_address(case["address"].as_str().unwrap(), network)?;
    assert_eq!(const_hex::encode(address.bytes()), case["script"].as_str().unwrap());
    assert_eq!(address.as_str(), case["address"].as_str().unwrap());
    let decoded = Block::decode_as(&case["block"].as_str().unwrap().parse().unwrap(), &bytes, network)?;
    let transfers = transfers_in(&decoded, Height(1), &network.coin(), &watching([address]));
    let of_tx: Vec<_> = transfers.iter().filter(|t| t.key.tx_id.as_str() == case["tx"].as_str().unwrap()).collect();
    let found: Vec<_> = of_tx.iter().map(|t| (u64::from(t.key.output_index), t.payment.amount.to_string())).collect();
    let expected: Vec<_> = case["expected"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["vout"].as_u64().unwrap(), e["sats"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(found, expected);
    let coinbase = of_tx.iter().all(|t| t.position == 0);
    assert!(of_tx.iter().all(|t| t.maturity.is_some() == coinbase && t.block.hash.as_str() == case["block"].as_str().unwrap()));
    Ok(())
}

/// S14: our walk and the `bitcoin` crate's decoder tell the same of every block that the latter can read.
pub(crate) fn decodes_alike(bytes: &[u8], network: &Network) {
    let theirs: bitcoin::Block = deserialize(bytes).unwrap();
    let ours = Block::decode_as(&theirs.block_hash(), bytes, network).unwrap();
    assert_eq!(ours.header, theirs.header);
    assert_eq!(ours.txids, theirs.txdata.iter().map(|tx| tx.compute_txid()).collect::<Vec<_>>());
    let mut outputs = ours.outputs.iter();
    for (position, tx) in (0u32..).zip(&theirs.txdata) {
        for (vout, output) in (0u32..).zip(&tx.output) {
            let one = outputs.next().unwrap();
            assert_eq!(
                (one.position, one.vout, one.value, one.script),
                (position, vout, output.value.to_sat(), output.script_pubkey.as_bytes())
            );
        }
    }
    assert!(outputs.next().is_none() && ours.extension.is_none());
}

/// S15, S16, S6: watching everything finds every output that has an address, as the `bitcoin` crate sees them.
pub(crate) fn every_address_is_found(name: &str) {
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

pub(crate) fn spoilt_blocks_are_refused(name: &str) {
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
pub(crate) fn extension_block_is_read(name: &str, height: u64) {
    let (bytes, network) = (block(name), network_of(name));
    assert!(deserialize::<bitcoin::Block>(&bytes).is_err());
    let decoded = Block::decode(&bytes, network).unwrap();
    let extension = decoded.extension.as_ref().unwrap();
    assert_eq!(extension.height, height);
    let hogex = decoded.hogex.unwrap();
    assert_eq!(usize::try_from(hogex).unwrap() + 1, decoded.txids.len());
    let paid_out: Vec<_> =
        decoded.outputs.iter().filter(|o| o.position == hogex && o.vout > 0).map(|o| (o.value, o.script.to_vec())).collect();
    assert_eq!(paid_out, extension.peg_outs);
    let mut paid_in: Vec<_> = decoded.outputs.iter().filter(|o| o.script.starts_with(&[0x59, 0x20])).map(|o| o.value).collect();
    let mut peg_ins = extension.peg_ins.clone();
    paid_in.sort_unstable();
    peg_ins.sort_unstable();
    assert_eq!(paid_in, peg_ins);
    // Nothing that holds MWEB's coins can be watched; a peg-out can.
    let transfers = transfers_in(&decoded, Height(height), &network.coin(), &watching_all(&decoded, network));
    assert!(transfers.iter().all(|t| t.position != hogex || t.maturity.is_some_and(|m| m.get() == 6)));
    let peg_outs_found = transfers.iter().filter(|t| t.position == hogex).count();
    assert_eq!(peg_outs_found, extension.peg_outs.iter().filter(|(_, script)| Destination::of_script(script).is_some()).count());
    assert_eq!(Block::decode(&bytes, network_of("bitcoin")).unwrap_err(), DecodeError::Flags { position: hogex, flags: 8 });
}

pub(crate) fn early_blocks_link_to_the_genesis_block() {
    let mainnet = network("mainnet");
    let blocks = linked_blocks();
    assert_eq!(blocks.len(), 255);
    let mut tip = mainnet.genesis.to_owned();
    for bytes in &blocks {
        let decoded = Block::decode(bytes, mainnet).unwrap();
        assert_eq!(decoded.header.prev_blockhash.to_string(), tip);
        tip = decoded.hash.to_string();
        decodes_alike(bytes, mainnet);
    }
}

/// A19: block 300025 has outputs to several bare keys; watching each key's own addresses finds none of them.
pub(crate) fn bare_multisig_is_no_deposit() {
    let (bytes, mainnet) = (block("bitcoin/bcoin_block300025.raw"), network("mainnet"));
    let decoded = Block::decode(&bytes, mainnet).unwrap();
    let multisig: Vec<_> = decoded.outputs.iter().filter(|o| bitcoin::Script::from_bytes(o.script).is_multisig()).collect();
    assert_eq!(multisig.len(), 5);
    let keys = multisig.iter().flat_map(|output| {
        let pushes: Vec<Vec<u8>> = bitcoin::Script::from_bytes(output.script)
            .instructions()
            .filter_map(|i| Some(i.ok()?.push_bytes()?.as_bytes().to_vec()))
            .collect();
        pushes
    });
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
pub(crate) fn addresses_listed_by_an_old_node_are_not_matched() {
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
pub(crate) fn data_outputs_are_skipped_and_taproot_is_found() {
    let name = "bitcoin/electrumx_bitcoin_mainnet_951658.json";
    let (bytes, mainnet, recorded) = (block(name), network("mainnet"), json(name));
    let decoded = Block::decode(&bytes, mainnet).unwrap();
    assert_eq!(decoded.outputs.iter().filter(|o| o.script.first() == Some(&0x6a)).count(), 211);
    let transfers = matched(&bytes, mainnet, &watching_all(&decoded, mainnet));
    let taproot =
        transfers.iter().filter(|t| matches!(Destination::of_script(t.payment.address.bytes()), Some(Destination::P2tr(_))));
    assert_eq!(taproot.count(), 103);
    let ids: Vec<_> = recorded["tx"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    assert_eq!(decoded.txids.iter().map(ToString::to_string).collect::<Vec<_>>(), ids);
    assert_eq!(decoded.header.merkle_root.to_string(), recorded["merkleroot"].as_str().unwrap());
}
