//! The store in memory keeps every rule; the same one behind a wrapper with one mistake does not.

mod broken_store;
mod harness;

use crate::catching::{broken_by, each_is_caught};
use confirmd_testkit::conform::store::{StoreHarness, store_rules};
use confirmd_testkit::conform::{RuleTrial, rules_in};
use harness::{MemoryHarness, Mistake};
use std::collections::BTreeSet;
use std::sync::Arc;

fn trials(mistake: Option<Mistake>) -> Vec<RuleTrial> {
    let harness: Arc<dyn StoreHarness> = Arc::new(MemoryHarness(mistake));
    store_rules(&harness)
}

#[test]
fn the_store_in_memory_passes_every_trial() {
    assert_eq!(broken_by(trials, None, None), BTreeSet::new());
}

#[test]
fn each_mistake_fails_a_trial_of_its_rule_and_each_trial_catches_a_mistake() {
    each_is_caught(trials, MISTAKES);
}

#[test]
fn every_rule_of_the_store_contract_has_a_trial_and_a_mistake_that_it_catches() {
    let rules: BTreeSet<_> = rules_in(include_str!("../../../../docs/contracts/store.md")).into_iter().collect();
    assert!(rules.len() >= 13, "{rules:?}");
    let harness: Arc<dyn StoreHarness> = Arc::new(MemoryHarness(None));
    let trials: BTreeSet<_> = store_rules(&harness).iter().map(|trial| trial.rule()).collect();
    assert_eq!(trials, rules);
    assert_eq!(MISTAKES.iter().map(|(rule, _)| *rule).collect::<BTreeSet<_>>(), rules);
}

const MISTAKES: &[(&str, &[Mistake])] = &[
    ("T1", &[Mistake::WritesAConflictsEvents, Mistake::WritesInTwoParts]),
    ("T2", &[Mistake::LosesTheLastCommitInACrash, Mistake::LosesTheLastCommitInAPowerCut]),
    ("T3", &[Mistake::ForgetsWatchedAddresses, Mistake::ForgetsHaltsInANewStart]),
    (
        "T4",
        &[
            Mistake::HandsOutInReverse,
            Mistake::HandsOutAKeyTwice,
            Mistake::LosesWhatWasOut,
            Mistake::ChangesTheBody,
            Mistake::ListsNoDeadLetters,
        ],
    ),
    ("T5", &[Mistake::MixesChains, Mistake::ScansWhatIsSettled]),
    (
        "T6",
        &[
            Mistake::CountsABuryTwice,
            Mistake::AcknowledgesTheNextToo,
            Mistake::CountsARequeueTwice,
            Mistake::AcknowledgesForEverybody,
        ],
    ),
    ("T7", &[Mistake::LetsASecondOwnerIn, Mistake::IgnoresTheVersion]),
    ("T8", &[Mistake::MakesAStoreUnasked, Mistake::OpensDamage]),
    ("T9", &[Mistake::GuessesAStart, Mistake::StartsEverybodyNow, Mistake::DropsConsumersNotConfigured]),
    ("T10", &[Mistake::PrunesUndelivered, Mistake::PrunesTheYoung]),
    ("T11", &[Mistake::HandsOutBeforeTheSync, Mistake::LosesTheLastCommitInAPowerCut]),
    ("T12", &[Mistake::GoesOnAfterAFailure, Mistake::TakesAFailureForAConflict]),
    ("T13", &[Mistake::PrunesSequences]),
    ("T14", &[Mistake::ReadsTheFirstEventTwice, Mistake::ExpiresNoCursor, Mistake::HoldsNothingForCursors]),
    ("T15", &[Mistake::TellsNoReorgs, Mistake::ForgetsSmallPayments]),
    ("T16", &[Mistake::IgnoresThePace]),
    ("T17", &[Mistake::EndsAtTheFirstPage]),
];
