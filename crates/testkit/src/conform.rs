//! The conformance kit: each rule of `docs/contracts` as trials that run against somebody's own source, sink or store.
//!
//! An author implements one harness (how to make the thing, and how to make what it talks to misbehave) and gets every trial.
//! A trial's name begins with the id of its rule. What a harness can't do shows as ignored, with the reason; nothing passes
//! silently.

pub mod full_disk;
pub mod power_cut;
mod sample;
pub mod sink;
pub mod source;
pub mod store;

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use libtest_mimic::{Failed, Trial};

/// How a rule was broken, or what kept the trial from finding out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

/// How a trial ends.
pub type Verdict = Result<(), Broken>;

impl Broken {
    /// What was done and what came of it.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// Something on the way failed that should not have: `what` was tried.
    pub fn tried<E: fmt::Display>(what: &'static str) -> impl Fn(E) -> Self {
        move |error| Self(format!("{what} failed: {error}"))
    }
}

/// Ends the trial with a verdict if the condition does not hold.
#[allow(unused_macros)]
macro_rules! hold {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::conform::Broken::new(format!($($why)+)));
        }
    };
}
#[allow(unused_imports)]
pub(crate) use hold;

type Run = Box<dyn FnOnce() -> Verdict + Send>;

/// One trial of one rule.
pub struct RuleTrial {
    rule: &'static str,
    name: &'static str,
    run: Result<Run, String>,
}

impl fmt::Debug for RuleTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleTrial").field("rule", &self.rule).field("name", &self.name).finish_non_exhaustive()
    }
}

impl RuleTrial {
    /// A trial of `rule` (`"K3"`), named by a sentence in snake case that does not repeat the id.
    pub fn new(rule: &'static str, name: &'static str, run: impl FnOnce() -> Verdict + Send + 'static) -> Self {
        Self { rule, name, run: Ok(Box::new(run)) }
    }

    /// The same, run on a single-threaded runtime of its own.
    pub fn on_runtime<F>(rule: &'static str, name: &'static str, run: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Verdict>,
    {
        Self::new(rule, name, move || block_on(run())?)
    }

    /// A trial that can't run, and why.
    pub fn ignored(rule: &'static str, name: &'static str, why: impl Into<String>) -> Self {
        Self { rule, name, run: Err(why.into()) }
    }

    /// Ignored if there is a reason, as it is otherwise.
    #[must_use]
    pub fn unless(self, why: Option<String>) -> Self {
        match why {
            Some(why) => Self { run: Err(why), ..self },
            None => self,
        }
    }

    /// The rule's id in its contract.
    pub fn rule(&self) -> &'static str {
        self.rule
    }

    /// `k3_` and the sentence.
    pub fn name(&self) -> String {
        format!("{}_{}", self.rule.to_lowercase(), self.name)
    }

    /// Why it can't run, if it can't.
    pub fn ignored_because(&self) -> Option<&str> {
        self.run.as_ref().err().map(String::as_str)
    }

    /// Runs it. A panic is a verdict too. An ignored one says why it can't be run.
    pub fn run(self) -> Verdict {
        let run = self.run.map_err(|why| Broken(format!("ignored: {why}")))?;
        std::panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
            Err(Broken(format!("it panicked: {text}")))
        })
    }

    /// As `cargo test` runs it: `under_test::k3_the_sentence`.
    pub fn into_trial(self, under_test: &str) -> Trial {
        let (rule, name) = (self.rule, format!("{under_test}::{}", self.name()));
        match &self.run {
            Err(why) => {
                // Whoever runs it all the same learns that it can't be run.
                let failed = format!("{rule} can't be tried: {why}");
                Trial::test(name, move || Err(Failed::from(failed))).with_kind(why.clone()).with_ignored_flag(true)
            }
            Ok(_) => Trial::test(name, move || self.run().map_err(|broken| Failed::from(format!("{rule} is broken: {broken}")))),
        }
    }
}

/// Runs a future to its end on a single-threaded runtime of its own.
///
/// # Errors
/// When the system has no room for a runtime.
pub fn block_on<F: Future>(future: F) -> Result<F::Output, Broken> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Broken::tried("making a runtime"))?;
    let output = runtime.block_on(future);
    // What hangs on purpose must not hold the trial up.
    runtime.shutdown_background();
    Ok(output)
}

/// The ids of the rules in a page of `docs/contracts`: what its lines begin with, `**K3 `.
pub fn rules_in(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix("**")?.split([' ', '.']).next()).filter(|id| is_rule(id)).collect()
}

fn is_rule(id: &str) -> bool {
    let digits = id.strip_prefix(['S', 'K', 'T']);
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
