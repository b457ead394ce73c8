//! Blocks, receipts and traces as a broken or lying node could send them.
//!
//! JSON answers carry no proof of their own: a value replaced by another valid one is not noticed here. What is not whole,
//! of another type, or contradicts itself must be an error. Real blocks are looked for in `CONFIRMD_REAL_DATA`, else in
//! `../shared/data` beside the workspace; where they are absent their trials show as ignored.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod made;
mod nested;
mod recorded;
mod subject;

use libtest_mimic::{Arguments, Trial};
use std::path::{Path, PathBuf};

type Check = fn(&Path);

/// With a block made here.
const MADE: &[(&str, Check)] = &[
    ("hostile_evm_bytes_of_any_kind_are_judged_without_a_panic", made::any_bytes),
    ("hostile_evm_an_answer_cut_anywhere_is_refused", made::cut_anywhere),
    ("hostile_evm_a_structural_change_is_refused_or_changes_nothing", made::structure),
    ("hostile_evm_any_altered_byte_is_judged_within_bounds", made::altered_bytes),
    ("hostile_evm_reading_twice_gives_the_same", made::twice),
    ("hostile_evm_nothing_is_paid_by_an_amount_in_another_base", made::other_bases),
    ("hostile_evm_deep_nesting_is_refused_within_bounds", nested::deep_nesting),
    ("hostile_evm_lists_of_nothing_take_no_more_memory_than_they_are_long", nested::lists_of_nothing),
    ("hostile_evm_addresses_of_any_text_are_judged_without_a_panic", made::addresses),
];

/// With real ones.
const RECORDED: &[(&str, Check)] = &[
    ("hostile_evm_recorded_a_structural_change_is_refused_or_changes_nothing", recorded::structure),
    ("hostile_evm_recorded_an_answer_cut_anywhere_is_refused", recorded::cut_anywhere),
];

fn main() {
    let arguments = Arguments::from_args();
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("CONFIRMD_REAL_DATA").map_or(default, PathBuf::from);
    let absent = !data.join("evm").is_dir();
    let trial = |absent: bool| {
        let data = data.clone();
        move |(name, check): &(&'static str, Check)| {
            let (check, data) = (*check, data.clone());
            let why = if absent { "no real data; set CONFIRMD_REAL_DATA" } else { "" };
            let run = move || {
                check(&data);
                Ok(())
            };
            Trial::test(*name, run).with_kind(why).with_ignored_flag(absent)
        }
    };
    let trials = MADE.iter().map(trial(false)).chain(RECORDED.iter().map(trial(absent))).collect();
    libtest_mimic::run(&arguments, trials).exit();
}
