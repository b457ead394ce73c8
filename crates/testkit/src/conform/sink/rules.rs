//! The trials, by rule.

use super::{PeerDoes, SinkHarness, delivering, failing};
use crate::conform::{RuleTrial, Verdict};
use libtest_mimic::Trial;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

type Harness = Arc<dyn SinkHarness>;
type Trying<'a> = Pin<Box<dyn Future<Output = Verdict> + 'a>>;

/// Every trial of the sink contract as `cargo test` runs it, named `under_test::k3_…`.
pub fn sink_trials(under_test: &str, harness: Arc<dyn SinkHarness>) -> Vec<Trial> {
    sink_rules(&harness).into_iter().map(|rule| rule.into_trial(under_test)).collect()
}

/// Every trial of the sink contract.
pub fn sink_rules(harness: &Arc<dyn SinkHarness>) -> Vec<RuleTrial> {
    let far = Duration::from_secs(10 * 365 * 24 * 3600);
    let soon = Duration::from_secs(7);
    use PeerDoes as Peer;
    let trial = |rule, name, needs: &[PeerDoes], run: for<'a> fn(&'a dyn SinkHarness) -> Trying<'a>| {
        let held = Harness::clone(harness);
        let why = needs.iter().find_map(|need| harness.unable(*need));
        RuleTrial::on_runtime(rule, name, move || async move { run(&*held).await }).unless(why)
    };
    let no_secrets = harness.secrets().is_empty().then(|| "this sink holds no secret".to_owned());
    let no_poison = || harness.poison().is_none().then(|| "this sink can carry every body".to_owned());
    vec![
        trial("K1", "a_check_delivers_nothing", &[], |h| Box::pin(delivering::checks_deliver_nothing(h))),
        trial("K2", "events_take_effect_in_the_order_of_their_batches", &[], |h| Box::pin(delivering::order_is_kept(h))),
        trial("K2", "calls_at_the_same_time_each_keep_their_order", &[], |h| Box::pin(delivering::calls_keep_their_order(h))),
        trial("K3", "accepted_is_the_exact_prefix_that_took_effect", &[Peer::TakeThenBreak(1)], |h| {
            Box::pin(delivering::exact_prefix(h))
        }),
        trial("K3", "accepted_is_zero_while_nothing_can_take_effect", &[Peer::Down], |h| {
            Box::pin(delivering::nothing_accepted(h))
        }),
        trial("K3", "events_of_a_dropped_call_are_taken_when_handed_over_again", &[Peer::Hang], |h| {
            Box::pin(delivering::dropped_call(h))
        }),
        trial("K3", "an_event_that_can_not_be_carried_ends_the_prefix", &[], |h| Box::pin(delivering::poisoned_batch(h)))
            .unless(no_poison()),
        trial("K4", "id_and_body_are_the_same_bytes_on_every_attempt", &[], |h| Box::pin(delivering::same_bytes(h))),
        trial("K4", "id_and_body_are_the_same_bytes_after_a_refusal", &[Peer::Refuse], |h| {
            Box::pin(delivering::same_bytes_refused(h))
        }),
        trial("K5", "a_second_delivery_has_no_second_effect_or_the_receiver_is_told_to_see_to_it", &[], |h| {
            Box::pin(delivering::duplicates(h))
        }),
        trial("K5", "what_took_effect_and_was_reported_as_failed_comes_again_under_its_id", &[Peer::TakeAndFail], |h| {
            Box::pin(delivering::comes_again(h, Peer::TakeAndFail))
        }),
        trial("K5", "what_took_effect_and_was_never_answered_comes_again_under_its_id", &[Peer::TakeAndHang], |h| {
            Box::pin(delivering::comes_again(h, Peer::TakeAndHang))
        }),
        trial("K6", "a_peer_that_can_not_be_reached_is_transient", &[Peer::Down], |h| {
            Box::pin(failing::sorted(h, Peer::Down, "Transient"))
        }),
        trial("K6", "a_lost_connection_is_transient", &[Peer::Close], |h| Box::pin(failing::sorted(h, Peer::Close, "Transient"))),
        trial("K6", "a_time_out_is_transient", &[Peer::Hang], |h| Box::pin(failing::sorted(h, Peer::Hang, "Transient"))),
        trial("K6", "a_refusal_is_rejected", &[Peer::Refuse], |h| Box::pin(failing::sorted(h, Peer::Refuse, "Rejected"))),
        trial("K6", "what_no_event_can_pass_is_fatal", &[Peer::Gone], |h| Box::pin(failing::sorted(h, Peer::Gone, "Fatal"))),
        trial("K6", "an_event_that_can_not_be_carried_is_rejected", &[], |h| Box::pin(delivering::poison_is_rejected(h)))
            .unless(no_poison()),
        trial("K7", "retry_after_is_passed_on", &[Peer::Throttle(soon)], |h| Box::pin(failing::retry_after_is_passed_on(h))),
        trial("K7", "retry_after_is_bounded", &[Peer::Throttle(far)], |h| Box::pin(failing::retry_after_is_bounded(h))),
        trial("K8", "secrets_appear_in_no_debug_output_error_or_log", &[], |h| Box::pin(failing::secrets(h))).unless(no_secrets),
        trial("K9", "silence_ends_at_the_deadline", &[Peer::Hang], |h| Box::pin(failing::silence_ends(h))),
        trial("K9", "an_answer_without_end_ends_and_is_read_up_to_a_cap", &[Peer::AnswerWithoutEnd], |h| {
            Box::pin(failing::endless_ends(h))
        }),
        trial("K10", "what_counts_as_accepted_has_taken_effect_by_then", &[], |h| Box::pin(failing::effect_before_accepted(h))),
        trial("K10", "a_success_whose_answer_breaks_off_is_not_acceptance", &[Peer::BreakOff], |h| {
            Box::pin(failing::broken_success(h))
        }),
    ]
}
