//! Blocks that others recorded, from the folder that `CONFIRMD_REAL_DATA` names (default: `shared/data` beside the
//! workspace). Where the folder is absent the trials show as ignored.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod blocks;
mod data;
mod verbose;

use blocks::*;
use data::{EXTENDED_BLOCKS, RAW_BLOCKS, block, folder, json, network_of};
use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;
use verbose::a_verbose_answer_tells_the_same_outputs;

fn trials() -> Vec<Trial> {
    let ignored = !folder().join("expected.json").is_file();
    let trial = |name: String, run: Box<dyn FnOnce() -> Result<(), Failed> + Send>| {
        let kind = if ignored { "no recorded data: set CONFIRMD_REAL_DATA" } else { "" };
        Trial::test(name, run).with_ignored_flag(ignored).with_kind(kind)
    };
    let mut trials = Vec::new();
    let mut add = |name: String, run: fn(&str)| {
        let given = name.rsplit("::").next().unwrap_or_default().to_owned();
        trials.push(trial(
            name,
            Box::new(move || {
                run(&given);
                Ok(())
            }),
        ));
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
