//! What every suite must do: pass what has no mistake, and catch each mistake by its own rule.

use confirmd_testkit::conform::RuleTrial;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// Rules, and the mistakes that break each.
pub(crate) type Mistakes<M> = [(&'static str, &'static [M])];

/// The trials that fail; only those of the rule `only` are run. Each must be able to run.
pub(crate) fn broken_by<M: Copy + Debug>(
    trials: impl Fn(Option<M>) -> Vec<RuleTrial>,
    mistake: Option<M>,
    only: Option<&str>,
) -> BTreeSet<String> {
    let chosen = trials(mistake).into_iter().filter(|trial| only.is_none_or(|rule| rule == trial.rule()));
    let failed = chosen.filter_map(|trial| {
        let name = trial.name();
        assert_eq!(trial.ignored_because(), None, "{name}");
        trial.run().err().map(|broken| {
            println!("{mistake:?}: {name}: {broken}");
            name
        })
    });
    failed.collect()
}

/// Each mistake fails a trial of its rule, and each trial catches a mistake.
pub(crate) fn each_is_caught<M: Copy + Debug>(trials: impl Fn(Option<M>) -> Vec<RuleTrial>, mistakes: &Mistakes<M>) {
    let mut caught = BTreeSet::new();
    for (rule, mistakes) in mistakes {
        for mistake in *mistakes {
            let broken = broken_by(&trials, Some(*mistake), Some(rule));
            assert!(!broken.is_empty(), "{mistake:?} breaks {rule}, the suite found nothing");
            caught.extend(broken);
        }
    }
    let all: BTreeSet<_> = trials(None).iter().map(|trial| trial.name()).collect();
    let idle: Vec<_> = all.difference(&caught).collect();
    assert!(idle.is_empty(), "no mistake was caught by {idle:#?}");
}
