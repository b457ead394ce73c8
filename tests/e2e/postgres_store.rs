//! `[state] backend = "postgres"`: several instances of the shipped binary on one state. The store contract itself is held in the
//! store's own tests.

mod both;
mod coins;
mod desk;
mod drill;
mod fleet;
mod import;
mod kills;
mod page;
mod shop;
mod upgrade;

use e2e::{Needs, node_trial};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil, Needs::Postgres];
    let coins = &[Needs::Litecoind, Needs::Postgres];
    vec![
        node_trial(
            "postgres_store::g11_three_instances_decide_each_event_once_whoever_is_killed_or_stopped",
            needs,
            kills::storm,
        ),
        node_trial("postgres_store::g11_another_instance_decides_soon_after_the_busy_one_is_killed", needs, kills::take_over),
        node_trial("postgres_store::g11_what_one_instance_is_told_all_know", needs, desk::commands),
        node_trial("postgres_store::g11_what_one_gave_up_paused_or_delivered_all_know", needs, desk::requeued),
        node_trial("postgres_store::g11_an_idle_instance_asks_its_node_next_to_nothing", needs, desk::idle),
        node_trial("postgres_store::g11_a_later_schema_stops_those_that_start_and_not_those_that_run", needs, upgrade::later),
        node_trial("postgres_store::g11_instances_replaced_by_differently_configured_ones_go_on", needs, upgrade::differing),
        upgrade::trial(),
        node_trial("postgres_store::k5_three_instances_with_an_effect_in_the_operators_database_credit_once", needs, both::storm),
        node_trial("postgres_store::the_roles_and_queries_of_the_page_work", needs, page::holds),
        node_trial(
            "postgres_store::g5_an_import_killed_at_any_statement_leaves_no_state_or_the_whole_one",
            needs,
            import::killed,
        ),
        node_trial("postgres_store::g7_a_shared_state_restored_from_a_dump_goes_on_in_a_new_epoch", needs, drill::restored),
        node_trial(
            "postgres_store::g11_three_instances_on_litecoind_decide_each_event_once_whoever_is_killed_or_stopped",
            coins,
            coins::storm,
        ),
        node_trial(
            "postgres_store::g3_an_instance_whose_node_lags_decides_nothing_wrong_and_holds_nobody_up",
            coins,
            coins::late,
        ),
        node_trial("postgres_store::g11_an_instance_whose_node_is_on_a_fork_ends_where_the_chain_does", coins, coins::forked),
        node_trial("postgres_store::g11_an_instance_without_a_node_leaves_the_chain_to_others", needs, kills::blind),
    ]
}
