//! The trials, by rule.

use super::commits::{self, Outage};
use super::deliveries::{self, Call};
use super::{StoreHarness, StoreTest, failures, opening, order, reading, retention};
use crate::conform::{RuleTrial, Verdict, block_on};
use libtest_mimic::Trial;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

type Trying<'a> = Pin<Box<dyn Future<Output = Verdict> + 'a>>;

/// Every trial of the store contract as `cargo test` runs it, named `under_test::t3_…`.
pub fn store_trials(under_test: &str, harness: Arc<dyn StoreHarness>) -> Vec<Trial> {
    store_rules(&harness).into_iter().map(|rule| rule.into_trial(under_test)).collect()
}

/// Every trial of the store contract.
pub fn store_rules(harness: &Arc<dyn StoreHarness>) -> Vec<RuleTrial> {
    use StoreTest::{Crash, Damage, FailCommit, PowerCut};
    let why = |needs: &[StoreTest]| needs.iter().find_map(|need| harness.unable(*need));
    let once = |rule, name, needs: &[StoreTest], run: for<'a> fn(&'a dyn StoreHarness) -> Trying<'a>| {
        let held = Arc::clone(harness);
        RuleTrial::new(rule, name, move || block_on(run(&*held))?).unless(why(needs))
    };
    let often = |rule, name, needs: &[StoreTest], run: fn(&dyn StoreHarness) -> Verdict| {
        let held = Arc::clone(harness);
        RuleTrial::new(rule, name, move || run(&*held)).unless(why(needs))
    };
    vec![
        once("T1", "a_conflict_changes_nothing", &[], |h| Box::pin(commits::a_conflict_changes_nothing(h))),
        once("T1", "readers_see_whole_commits_only", &[], |h| Box::pin(commits::readers_see_whole_commits(h))),
        once("T1", "a_dropped_commit_happened_whole_or_not_at_all", &[], |h| Box::pin(commits::dropped_commits_are_whole(h))),
        often("T2", "what_a_commit_answered_survives_a_crash", &[Crash], |h| commits::commits_survive(h, Outage::Crash)),
        often("T2", "what_a_commit_answered_survives_a_power_cut", &[PowerCut], |h| {
            commits::commits_survive(h, Outage::PowerCut)
        }),
        often("T3", "load_equals_the_fold_of_the_committed_change_sets", &[], commits::load_equals_the_fold),
        often("T4", "events_come_out_in_the_order_they_were_committed", &[], order::events_come_out_in_order),
        often("T4", "deliveries_are_listed_as_the_store_in_memory_lists_them", &[], deliveries::listed_as_in_memory),
        once("T4", "deliveries_handed_to_nobody_come_again", &[], |h| Box::pin(order::lost_handouts_come_again(h))),
        often("T5", "settled_among_and_settled_above_are_exact", &[], commits::settled_among_is_exact),
        once("T5", "settled_among_costs_what_is_asked", &[], |h| Box::pin(commits::settled_among_costs_what_is_asked(h))),
        once("T6", "acknowledging_is_idempotent", &[], |h| Box::pin(deliveries::idempotent(h, Call::Acknowledge))),
        once("T6", "burying_is_idempotent", &[], |h| Box::pin(deliveries::idempotent(h, Call::Bury))),
        once("T6", "requeueing_is_idempotent", &[], |h| Box::pin(deliveries::idempotent(h, Call::Requeue))),
        often("T6", "a_call_for_one_consumer_touches_no_other", &[], deliveries::touches_one_consumer),
        once("T7", "a_second_owner_is_refused_or_changes_nothing", &[], |h| Box::pin(opening::a_second_owner_changes_nothing(h))),
        once("T7", "one_version_is_decided_once", &[], |h| Box::pin(opening::one_version_is_decided_once(h))),
        once("T8", "a_place_without_a_store_is_refused_unless_one_is_asked_for", &[], |h| {
            Box::pin(opening::no_store_is_refused(h))
        }),
        once("T8", "damage_is_refused_or_harmless", &[Damage], |h| Box::pin(opening::damage_is_refused_or_harmless(h))),
        once("T9", "a_new_consumer_of_a_store_with_events_needs_a_start", &[], |h| {
            Box::pin(deliveries::a_start_must_be_given(h))
        }),
        once("T9", "a_new_consumer_starts_where_the_operator_said", &[], |h| Box::pin(deliveries::a_start_is_followed(h))),
        once("T9", "records_stay_until_they_are_purged_or_renamed", &[], |h| Box::pin(deliveries::records_stay_until_purged(h))),
        often("T10", "retention_leaves_what_somebody_has_not_delivered", &[], retention::undelivered_events_stay),
        once("T11", "nothing_of_a_failed_commit_is_handed_out", &[FailCommit], |h| {
            Box::pin(failures::nothing_of_a_failed_commit_is_handed_out(h))
        }),
        once("T11", "what_was_handed_out_survives_a_power_cut", &[PowerCut], |h| {
            Box::pin(failures::what_was_handed_out_stays(h))
        }),
        once("T12", "a_failed_commit_is_unknown_until_the_store_is_opened_again", &[FailCommit], |h| {
            Box::pin(failures::an_unknown_outcome_stays_unknown(h))
        }),
        often("T13", "the_sequence_of_every_reported_key_survives_retention", &[], retention::sequences_survive),
        often("T14", "events_are_read_in_order", &[], reading::events_are_read_in_order),
        once("T14", "a_used_cursor_is_kept_and_an_idle_one_expires", &[], |h| Box::pin(reading::a_used_cursor_holds_events(h))),
        once("T14", "what_a_cursor_waits_for_stays", &[], |h| Box::pin(reading::what_a_cursor_waits_for_stays(h))),
        often(
            "T15",
            "lives_and_reorgs_are_told_as_the_store_in_memory_tells_them",
            &[Crash],
            reading::lives_are_told_as_in_memory,
        ),
        once("T15", "a_payment_below_its_minimum_is_told_and_leaves_with_its_block", &[Crash], |h| {
            Box::pin(reading::a_small_payment_is_told_and_leaves_with_its_block(h))
        }),
        once("T16", "a_replay_keeps_the_order_of_a_key", &[], |h| Box::pin(reading::a_replay_keeps_the_order_of_a_key(h))),
        once("T17", "what_was_delivered_is_listed_newest_first_in_pages", &[], |h| {
            Box::pin(deliveries::what_was_delivered_is_listed(h))
        }),
    ]
}
