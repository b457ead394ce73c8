//! `[state] backend = "postgres"`: several instances of the shipped binary on one state. The store contract itself is held in the
//! store's own tests.

mod kills;
mod shop;

use e2e::{Needs, node_trial};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil, Needs::Postgres];
    vec![
        node_trial(
            "postgres_store::g11_three_instances_decide_each_event_once_whoever_is_killed_or_stopped",
            needs,
            kills::storm,
        ),
        node_trial("postgres_store::g11_another_instance_decides_soon_after_the_busy_one_is_killed", needs, kills::take_over),
        node_trial("postgres_store::g11_what_one_instance_is_told_all_know", needs, kills::commands),
        node_trial("postgres_store::g11_an_instance_without_a_node_leaves_the_chain_to_others", needs, kills::blind),
    ]
}
