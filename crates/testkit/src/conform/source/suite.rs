//! The table of trials.

use super::trials::{answers, branch, headers, keys, order, secrets, trouble, values};
use super::{Ability, SourceHarness, SourceLab};
use crate::conform::{RuleTrial, Verdict};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

type Run = for<'a> fn(&'a dyn SourceHarness) -> Pin<Box<dyn Future<Output = Verdict> + 'a>>;

struct Row {
    rule: &'static str,
    name: &'static str,
    needs: &'static [Ability],
    run: Run,
}

macro_rules! rows {
    ($($rule:ident $name:ident [$($need:ident),*] $run:path;)*) => {
        &[$(Row {
            rule: stringify!($rule),
            name: stringify!($name),
            needs: &[$(Ability::$need),*],
            run: |harness| Box::pin($run(harness)),
        }),*]
    };
}

const ROWS: &[Row] = rows! {
    S1 identify_names_the_configured_network [] headers::s1_configured;
    S1 another_network_at_the_same_endpoint_is_seen [ChangeNetwork] headers::s1_another_network;
    S1 a_lost_connection_moves_the_count [Reconnect] headers::s1_reconnect;
    S2 the_tip_is_the_header_at_its_height [] headers::s2_tip;
    S2 a_lagging_nodes_tip_is_its_own_last_block [Lag] headers::s2_lagging;
    S3 above_the_tip_there_is_nothing_and_no_error [] headers::s3_above;
    S3 an_empty_slot_has_no_header_and_the_next_links_past_it [SkipSlot] headers::s3_empty_slot;
    S4 headers_link_and_are_the_same_one_by_one_and_together [] headers::s4_link;
    S4 after_a_fork_the_headers_are_the_new_branchs [Fork] headers::s4_fork;
    S5 an_answer_is_for_its_range_only [] answers::s5_range;
    S5 only_watched_addresses_are_answered [] answers::s5_watched;
    S5 only_listed_assets_are_answered [] answers::s5_listed;
    S5 a_delisted_asset_and_a_leaving_address_stay_in_the_answer [] answers::s5_leaving;
    S5 a_payment_that_a_fork_dropped_is_not_answered [Fork] answers::s5_fork;
    S6 payments_come_by_height_and_position [] order::s6_blocks;
    S6 payments_of_one_transaction_come_by_output [SeveralOutputs] order::s6_outputs;
    S7 no_key_stands_twice_in_an_answer [] order::s7_blocks;
    S7 several_payments_in_one_transaction_are_several_keys [SeveralOutputs] order::s7_outputs;
    S8 mined_again_higher_a_transaction_keeps_its_keys [Fork] keys::s8_higher;
    S8 mined_again_at_the_same_height_a_transaction_keeps_its_keys [Fork] keys::s8_same_height;
    S8 mined_again_at_another_position_a_transaction_keeps_its_keys [Fork] keys::s8_position;
    S8 mined_again_at_another_position_several_outputs_keep_their_keys [Fork, SeveralOutputs] keys::s8_outputs;
    S9 an_unknown_block_is_orphaned_never_empty [] branch::s9_unknown;
    S9 a_block_of_an_abandoned_branch_is_orphaned_never_empty [Fork] branch::s9_abandoned;
    S9 a_node_that_lags_behind_the_block_is_orphaned_never_empty [Lag] branch::s9_lagging;
    S9 an_empty_answer_is_not_believed [Empty] branch::s9_empty;
    S9 a_lost_block_is_never_an_empty_one [Lose] branch::s9_lost;
    S9 a_lost_block_far_below_the_tip_is_never_an_empty_one [Lose, ProvenRanges] branch::s9_lost_deep;
    S9 a_fork_while_blocks_are_read_gives_no_half_answer [Fork] branch::s9_fork_while_reading;
    S10 what_only_looks_like_a_deposit_is_none [Decoys] answers::s10_decoys;
    S11 throttling_passes_and_the_wish_is_passed_on [Throttle] trouble::s11_throttled;
    S11 silence_passes [Hang] trouble::s11_silent;
    S11 a_node_that_is_starting_is_waited_for [WarmUp] trouble::s11_warming_up;
    S11 a_node_that_is_syncing_is_waited_for [Sync] trouble::s11_syncing;
    S12 refused_credentials_are_fatal [RefuseCredentials] trouble::s12_credentials;
    S12 pruned_history_is_fatal [Prune] trouble::s12_pruned;
    S12 an_answer_that_can_not_be_decoded_is_fatal_the_second_time [Garble] trouble::s12_garbled;
    S13 dropped_calls_leave_the_source_usable [] trouble::s13_dropped;
    S13 a_dropped_call_that_hung_leaves_the_source_usable [Hang] trouble::s13_dropped_in_silence;
    S13 calls_may_run_at_the_same_time [] trouble::s13_at_once;
    S14 a_block_cut_short_is_no_block_with_fewer_payments [Spoil] trouble::s14_cut;
    S14 a_block_with_more_behind_its_end_is_no_block [Spoil] trouble::s14_padded;
    S14 another_block_than_the_one_asked_for_is_no_answer [Spoil] trouble::s14_another;
    S15 every_spelling_gives_one_canonical_address [] values::s15_spellings;
    S15 payments_name_the_canonical_address [] values::s15_matched;
    S15 what_is_no_address_here_is_refused_with_the_reason [] values::s15_refused;
    S16 amounts_are_exact_from_the_smallest_to_the_largest [] values::s16_amounts;
    S17 a_source_that_is_well_shows_no_secret [] secrets::s17_well;
    S17 a_server_that_repeats_the_secret_is_not_repeated [RepeatSecret] secrets::s17_repeated;
    S17 refused_credentials_are_not_shown [RefuseCredentials] secrets::s17_refused;
    S17 throttling_shows_no_secret [Throttle] secrets::s17_throttled;
    S17 garbled_answers_show_no_secret [Garble] secrets::s17_garbled;
    S17 a_lost_connection_shows_no_secret [Reconnect] secrets::s17_closed;
    S18 absence_is_none_and_never_height_zero [] headers::s18_absence;
    S18 the_marked_block_is_the_chains_own [Finality] headers::s18_mark;
    S19 a_payment_that_the_chain_locks_says_how_long [Locked] values::s19_locked;
    S19 an_ordinary_payment_waits_for_nothing [] values::s19_free;
    S20 keys_do_not_depend_on_what_else_is_watched [] keys::s20_watched;
    S20 keys_of_several_outputs_do_not_depend_on_what_else_is_watched [SeveralOutputs] keys::s20_outputs;
    S20 keys_do_not_depend_on_what_else_is_listed [] keys::s20_listed;
    S20 keys_do_not_depend_on_the_range_or_the_depth [] keys::s20_ranges;
    S20 keys_are_the_same_after_a_restart [] keys::s20_restart;
    S20 keys_do_not_depend_on_the_order_of_answers [Reorder] keys::s20_reordered;
};

/// Every trial of every rule, in the order of the rules. What the lab can't do makes a trial ignored, with its reason.
pub fn source_trials(lab: Arc<dyn SourceLab>) -> Vec<RuleTrial> {
    let trial = |row: &'static Row| {
        let reasons: Vec<_> = row.needs.iter().filter_map(|need| Some(format!("needs {need}: {}", lab.cannot(*need)?))).collect();
        let lab = Arc::clone(&lab);
        let run = move || async move {
            let harness = lab.start().await?;
            (row.run)(harness.as_ref()).await
        };
        RuleTrial::on_runtime(row.rule, row.name, run).unless((!reasons.is_empty()).then(|| reasons.join("; ")))
    };
    ROWS.iter().map(trial).collect()
}
