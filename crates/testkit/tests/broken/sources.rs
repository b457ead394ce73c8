//! Sources.

mod wrong;

use confirmd_testkit::conform::source::{ScriptedLab, Wrap, source_trials};
use confirmd_testkit::conform::{RuleTrial, rules_in};
use std::collections::BTreeSet;
use std::sync::Arc;
use wrong::{Mistake, Wrong};

macro_rules! mistakes {
    ($($rule:ident $mistake:ident),* $(,)?) => {
        &[$((stringify!($rule), Mistake::$mistake, |chain, honest| Wrong::source(Mistake::$mistake, chain, honest))),*]
    };
}

/// Each with the rule that it breaks.
const MISTAKES: &[(&str, Mistake, Wrap)] = mistakes![
    S1 SaysWhatIsConfigured, S1 NamesAnotherNetwork, S1 CountsNoConnections,
    S2 OneBlockAhead, S2 RemembersTheTip,
    S3 AbsenceIsAnError, S3 AboveTheTipIsTheTip, S3 StopsAtAnEmptySlot,
    S4 ItsOwnParent, S4 RemembersHeaders,
    S5 EveryRange, S5 EveryAddress, S5 EveryAsset, S5 NamesAnotherAsset, S5 ForgetsWhatIsDelisted, S5 ForgetsWhoIsLeaving, S5 AbandonedBlocksToo,
    S6 NewestFirst, S6 LastOutputFirst,
    S7 EachBlockTwice, S7 OneKeyPerTransaction,
    S8 KeyFromTheHeight, S8 KeyFromThePosition, S8 KeyFromTheBlock,
    S9 OrphanedIsEmpty, S9 BelievesAnEmptyAnswer, S9 BelievesALostBlock, S9 HalfTheBranch,
    S10 DecoysToo,
    S11 TroubleHalts, S11 ForgetsTheWish, S11 AsksForEver,
    S12 WaitsForGoodCredentials, S12 WaitsForPrunedBlocks, S12 WaitsForDecodableAnswers,
    S13 StuckAfterADrop, S13 OneCallAtATime,
    S14 HalfABlock,
    S15 CaseMatters, S15 RefusesNothing, S15 SpellsPayeesAnotherWay,
    S16 Doubles,
    S17 ShowsTheSecretInErrors, S17 ShowsTheSecretInDebug, S17 LogsTheSecret,
    S18 NothingFinalIsGenesis, S18 TheTipIsFinal,
    S19 ForgetsMaturity, S19 EverythingMatures,
    S20 KeyFromTheAnswer, S20 KeyFromTheRange, S20 KeyFromTheListing, S20 KeyFromTheProcess, S20 KeyFromTheRequest,
];

const CONTRACT: &str = include_str!("../../../../docs/contracts/source.md");

fn honest() -> Vec<RuleTrial> {
    source_trials(Arc::new(ScriptedLab::honest()))
}

/// The trials of a rule that a mistake fails, by name.
fn failed(rule: &str, wrap: Wrap) -> Vec<String> {
    let trials = source_trials(Arc::new(ScriptedLab::wrapped(wrap)));
    let of_rule = trials.into_iter().filter(|trial| trial.rule() == rule);
    of_rule.map(|trial| (trial.name(), trial.run())).filter(|(_, verdict)| verdict.is_err()).map(|(name, _)| name).collect()
}

#[test]
fn every_rule_of_the_contract_has_a_trial_and_a_mistake_and_no_trial_is_without_a_rule() {
    let contract: BTreeSet<_> = rules_in(CONTRACT).into_iter().collect();
    assert_eq!(contract.len(), 20);
    assert_eq!(honest().iter().map(RuleTrial::rule).collect::<BTreeSet<_>>(), contract);
    assert_eq!(MISTAKES.iter().map(|(rule, ..)| *rule).collect::<BTreeSet<_>>(), contract);
}

#[test]
fn a_source_that_keeps_every_rule_passes_every_trial_and_none_is_ignored() {
    for trial in honest() {
        let name = trial.name();
        trial.run().unwrap_or_else(|broken| panic!("{name}: {broken}"));
    }
}

#[test]
fn each_mistake_is_caught_by_its_rule_and_each_trial_catches_one() {
    let mut caught: BTreeSet<String> = BTreeSet::new();
    let mut passed = Vec::new();
    for (rule, mistake, wrap) in MISTAKES {
        let names = failed(rule, *wrap);
        if names.is_empty() {
            passed.push((*rule, *mistake));
        }
        caught.extend(names);
    }
    assert_eq!(passed, [], "mistakes that pass every trial of their rule");
    let idle: Vec<_> = honest().iter().map(RuleTrial::name).filter(|name| !caught.contains(name)).collect();
    assert_eq!(idle, [""; 0], "trials that caught no mistake");
}
