//! `confirmd state export` and `import`: one moment of a state that goes on; a state that moves to another store and back; what is refused.

mod desk;
mod moved;
mod refused;
mod working;

use e2e::{Needs, node_trial};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let both = &[Needs::Anvil, Needs::Postgres];
    vec![
        node_trial("state::an_export_of_a_working_instance_is_of_one_moment", &[Needs::Anvil], working::one_moment),
        node_trial("state::an_export_of_a_shared_state_knows_that_an_instance_works_on_it", both, working::shared),
        node_trial("state::g1_g7_a_state_that_moves_to_postgresql_and_back_repeats_nothing", both, moved::there_and_back),
        node_trial("state::a_dump_that_is_cut_altered_or_newer_makes_no_state", both, refused::hostile),
        node_trial("state::an_import_is_refused_behind_a_sink_that_has_seen_more", both, refused::behind_a_sink),
        node_trial("state::a_file_that_is_there_and_a_state_that_is_there_are_left_alone", &[Needs::Anvil], refused::left_alone),
    ]
}
