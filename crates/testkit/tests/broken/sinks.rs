//! A sink that keeps every rule, and the same one with one mistake.

mod desk;

use crate::catching::{broken_by, each_is_caught};
use async_trait::async_trait;
use confirmd_testkit::conform::sink::{Duplicates, PeerDoes, SinkHarness, SinkRig, sink_rules};
use confirmd_testkit::conform::{Broken, RuleTrial, rules_in};
use desk::{DEADLINE, DeskHarness, Mistake};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A desk that always answers in time.
struct PromptDesk;

#[async_trait]
impl SinkHarness for PromptDesk {
    async fn start(&self) -> Result<Box<dyn SinkRig>, Broken> {
        DeskHarness(None).start().await
    }

    fn unable(&self, does: PeerDoes) -> Option<String> {
        matches!(does, PeerDoes::Hang | PeerDoes::TakeAndHang).then(|| "this desk always answers in time".to_owned())
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }

    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }

    fn poison(&self) -> Option<Vec<u8>> {
        None
    }

    fn duplicates(&self) -> Duplicates {
        Duplicates::SinkSeesToIt
    }
}

#[test]
fn what_a_harness_can_not_do_is_ignored_with_the_reason_and_never_passes() {
    let harness: Arc<dyn SinkHarness> = Arc::new(PromptDesk);
    let ignored = |rule: &str| {
        let trials = sink_rules(&harness).into_iter().filter(move |trial| trial.rule() == rule);
        let reason = |trial: RuleTrial| trial.ignored_because().map(str::to_owned).map(|why| (why, trial.run()));
        trials.filter_map(reason).collect::<Vec<_>>()
    };
    for (rule, why) in [("K9", "this desk always answers in time"), ("K8", "this sink holds no secret")] {
        let ignored = ignored(rule);
        assert_eq!(ignored.len(), 1, "{rule}");
        assert_eq!(ignored[0].0, why);
        ignored[0].1.clone().unwrap_err();
    }
}

fn trials(mistake: Option<Mistake>) -> Vec<RuleTrial> {
    let harness: Arc<dyn SinkHarness> = Arc::new(DeskHarness(mistake));
    sink_rules(&harness)
}

#[test]
fn a_sink_without_a_mistake_passes_every_trial() {
    assert_eq!(broken_by(trials, None, None), BTreeSet::new());
}

#[test]
fn each_mistake_fails_a_trial_of_its_rule_and_each_trial_catches_a_mistake() {
    each_is_caught(trials, MISTAKES);
}

#[test]
fn every_rule_of_the_sink_contract_has_a_trial_and_a_mistake_that_it_catches() {
    let page = include_str!("../../../../docs/contracts/sink.md");
    let rules: BTreeSet<_> = rules_in(page).into_iter().collect();
    assert!(rules.len() >= 10, "{rules:?}");
    let harness: Arc<dyn SinkHarness> = Arc::new(DeskHarness(None));
    let trials: BTreeSet<_> = sink_rules(&harness).iter().map(|trial| trial.rule()).collect();
    assert_eq!(trials, rules);
    assert_eq!(MISTAKES.iter().map(|(rule, _)| *rule).collect::<BTreeSet<_>>(), rules);
}

const MISTAKES: &[(&str, &[Mistake])] = &[
    ("K1", &[Mistake::CheckDelivers]),
    ("K2", &[Mistake::ReversesABatch]),
    ("K3", &[Mistake::AcceptsOneTooMany, Mistake::AcceptsOneTooFew, Mistake::SwallowsADroppedCall]),
    ("K4", &[Mistake::PutsTheAttemptIntoTheBody, Mistake::PutsTheAttemptIntoTheId]),
    ("K5", &[Mistake::AppliesTwice, Mistake::SaysNothingAboutDuplicates]),
    (
        "K6",
        &[
            Mistake::TakesATimeOutForARefusal,
            Mistake::TakesARefusalForATimeOut,
            Mistake::TakesTheEndForARefusal,
            Mistake::TakesALostConnectionForTheEnd,
            Mistake::TakesAPoisonForATimeOut,
        ],
    ),
    ("K7", &[Mistake::ForgetsRetryAfter, Mistake::BelievesAnyRetryAfter]),
    ("K8", &[Mistake::ShowsTheSecretInDebug, Mistake::ShowsTheSecretInAnError, Mistake::LogsTheSecret]),
    ("K9", &[Mistake::WaitsForEver, Mistake::ReadsWithoutEnd]),
    ("K10", &[Mistake::AcceptsBeforeTheEffect, Mistake::AcceptsABrokenAnswer]),
];
