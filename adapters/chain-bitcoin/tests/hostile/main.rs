//! Blocks and addresses as a broken or lying node, or a tired operator, could give them.
//!
//! A block is bound to its hash: whatever is altered must be an error, or lie in bytes that no payment depends on. Real
//! blocks are looked for in `CONFIRMD_REAL_DATA`, else in `../shared/data` beside the workspace; where they are absent their
//! trials show as ignored.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod addresses;
mod auxpow;
#[path = "../real_data/data.rs"]
#[allow(dead_code)]
mod data;
mod made;
mod recorded;
mod subject;

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;

const MADE: &[(&str, fn())] = &[
    ("hostile_btc_any_bytes_are_judged_without_a_panic", made::any_bytes),
    ("hostile_btc_a_made_block_survives_no_alteration", made::altered),
    ("hostile_btc_claimed_lengths_allocate_nothing", made::claims),
    ("hostile_btc_a_pair_of_ids_is_not_read_as_a_transaction", made::ids_as_a_transaction),
    ("hostile_btc_a_hogex_without_its_mark_is_refused", made::unmarked_hogex),
    ("hostile_btc_an_auxpow_block_is_refused_on_every_network", auxpow::refused),
    ("hostile_btc_own_regtest_blocks_survive_no_cut_and_no_alteration", recorded::own_fixtures),
    ("hostile_btc_addresses_of_any_text_are_judged_and_read_back_the_same", addresses::any_text),
    ("hostile_btc_every_address_reads_back_to_its_script", addresses::round_trip),
    ("hostile_btc_a_mistyped_address_is_refused", addresses::mistyped),
];

fn main() -> ExitCode {
    let absent = !data::folder().join("expected.json").is_file();
    let why = if absent { "no recorded data: set CONFIRMD_REAL_DATA" } else { "" };
    let recorded = |name: String, check: Box<dyn FnOnce() + Send>| {
        let run = move || -> Result<(), Failed> {
            check();
            Ok(())
        };
        Trial::test(name, run).with_kind(why).with_ignored_flag(absent)
    };
    let mut trials: Vec<Trial> = MADE
        .iter()
        .map(|(name, check)| {
            let check = *check;
            Trial::test(*name, move || {
                check();
                Ok(())
            })
        })
        .collect();
    for file in data::RAW_BLOCKS.iter().copied().chain(data::EXTENDED_BLOCKS.iter().map(|(file, _)| *file)) {
        let name = format!("hostile_btc_recorded_no_cut_and_no_alteration_is_survived::{file}");
        trials.push(recorded(name, Box::new(move || recorded::file(file))));
    }
    trials.push(recorded("hostile_btc_recorded_early_blocks_cut_at_every_byte".into(), Box::new(recorded::early_blocks)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
