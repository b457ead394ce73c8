//! The store in memory keeps every rule; the same one behind a wrapper with one mistake does not.

mod broken_store;
mod harness;

use confirmd_testkit::conform::rules_in;
use confirmd_testkit::conform::store::{StoreHarness, store_rules};
use harness::{MemoryHarness, Mistake};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The trials that fail; only those of the rule `only` are run.
fn broken_by(mistake: Option<Mistake>, only: Option<&str>) -> BTreeSet<String> {
    let harness: Arc<dyn StoreHarness> = Arc::new(MemoryHarness(mistake));
    let trials = store_rules(&harness).into_iter().filter(|trial| only.is_none_or(|rule| rule == trial.rule()));
    let failed = trials.filter_map(|trial| {
        let name = trial.name();
        assert_eq!(trial.ignored_because(), None, "{name}");
        trial.run().err().map(|broken| {
            println!("{mistake:?}: {name}: {broken}");
            name
        })
    });
    failed.collect()
}

#[test]
fn the_store_in_memory_passes_every_trial() {
    assert_eq!(broken_by(None, None), BTreeSet::new());
}

#[test]
fn each_mistake_fails_a_trial_of_its_rule_and_each_trial_catches_a_mistake() {
    let mut caught = BTreeSet::new();
    for (rule, mistakes) in MISTAKES {
        for mistake in *mistakes {
            let broken = broken_by(Some(*mistake), Some(rule));
            assert!(!broken.is_empty(), "{mistake:?} breaks {rule}, the suite found nothing");
            caught.extend(broken);
        }
    }
    let harness: Arc<dyn StoreHarness> = Arc::new(MemoryHarness(None));
    let trials: BTreeSet<_> = store_rules(&harness).iter().map(|trial| trial.name()).collect();
    let idle: Vec<_> = trials.difference(&caught).collect();
    assert!(idle.is_empty(), "no mistake was caught by {idle:#?}");
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
];
