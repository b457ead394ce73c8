//! A sink that keeps every rule, and the same one with one mistake.

use async_trait::async_trait;
use confirmd_core::{DeliverError, Delivery, EventId, Sink, SinkError, SinkErrorKind, SinkProfile};
use confirmd_testkit::conform::sink::{Arrival, Duplicates, PeerDoes, SinkHarness, SinkRig, sink_rules};
use confirmd_testkit::conform::{Broken, RuleTrial, rules_in};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const SECRET: &str = "hunter2-hunter2";
const DEADLINE: Duration = Duration::from_millis(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    CheckDelivers,
    ReversesABatch,
    AcceptsOneTooMany,
    AcceptsOneTooFew,
    SwallowsADroppedCall,
    PutsTheAttemptIntoTheBody,
    PutsTheAttemptIntoTheId,
    AppliesTwice,
    SaysNothingAboutDuplicates,
    TakesATimeOutForARefusal,
    TakesARefusalForATimeOut,
    TakesTheEndForARefusal,
    ForgetsRetryAfter,
    BelievesAnyRetryAfter,
    ShowsTheSecretInDebug,
    ShowsTheSecretInAnError,
    LogsTheSecret,
    WaitsForEver,
    ReadsWithoutEnd,
    AcceptsBeforeTheEffect,
    AcceptsABrokenAnswer,
}

/// The other side: a desk that takes notes.
#[derive(Debug)]
struct Desk {
    does: PeerDoes,
    arrived: Vec<Arrival>,
    effects: Vec<Arrival>,
    answered_bytes: u64,
}

/// What the desk says to one note.
enum Answer {
    Taken,
    Refused(String),
    Busy(Duration),
    Gone,
    Lost,
    Silence,
    BrokenOff,
    WithoutEnd,
}

impl Desk {
    fn send(&mut self, note: Arrival) -> Answer {
        if self.does == PeerDoes::Down {
            return Answer::Lost;
        }
        self.arrived.push(note.clone());
        if let PeerDoes::TakeThenBreak(room) = &mut self.does {
            match room.checked_sub(1) {
                Some(left) => *room = left,
                None => return Answer::Lost,
            }
        }
        use PeerDoes as Peer;
        let takes = [Peer::Take, Peer::TakeAndFail, Peer::TakeAndHang, Peer::AnswerWithoutEnd].contains(&self.does);
        // The desk knows duplicates by their id.
        if (takes || matches!(self.does, Peer::TakeThenBreak(_))) && !self.effects.contains(&note) {
            self.effects.push(note);
        }
        match self.does {
            Peer::Take | Peer::TakeThenBreak(_) => Answer::Taken,
            Peer::Refuse => Answer::Refused(format!("I don't want it, {SECRET}")),
            Peer::Throttle(after) => Answer::Busy(after),
            Peer::Gone => Answer::Gone,
            Peer::Down | Peer::Close | Peer::TakeAndFail => Answer::Lost,
            Peer::Hang | Peer::TakeAndHang => Answer::Silence,
            Peer::BreakOff => Answer::BrokenOff,
            Peer::AnswerWithoutEnd => Answer::WithoutEnd,
        }
    }
}

struct DeskSink {
    desk: Arc<Mutex<Desk>>,
    mistake: Option<Mistake>,
    /// Ids of calls that were begun.
    begun: Mutex<BTreeSet<EventId>>,
    /// What counts as accepted and will be sent some time.
    later: Mutex<Vec<Arrival>>,
}

impl std::fmt::Debug for DeskSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = if self.is(Mistake::ShowsTheSecretInDebug) { SECRET } else { "…" };
        f.debug_struct("DeskSink").field("secret", &shown).finish_non_exhaustive()
    }
}

impl DeskSink {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap()
    }

    fn note(&self, event: &Delivery) -> Arrival {
        let mut note = Arrival { id: event.event.clone(), body: event.body.to_vec() };
        if self.is(Mistake::PutsTheAttemptIntoTheBody) {
            note.body.extend(format!(" attempt {}", event.attempt).into_bytes());
        }
        if self.is(Mistake::PutsTheAttemptIntoTheId) && event.attempt > 1 {
            note.id = EventId::new(format!("evt_{:032x}", event.attempt)).unwrap();
        }
        note
    }

    fn transient(&self, what: &str) -> SinkError {
        SinkError::new(SinkErrorKind::Transient { retry_after: None }, format!("sending to the desk: {what}"))
    }

    fn rejected(&self, what: &str) -> SinkError {
        SinkError::new(SinkErrorKind::Rejected { retry_after: None }, format!("sending to the desk: {what}"))
    }

    async fn send(&self, event: &Delivery) -> Result<(), SinkError> {
        if event.body.is_empty() {
            return Err(self.rejected("an empty note can't be carried"));
        }
        let dropped_before = self.is(Mistake::SwallowsADroppedCall) && !self.begun.lock().unwrap().insert(event.event.clone());
        if dropped_before {
            return Ok(());
        }
        if self.is(Mistake::AcceptsBeforeTheEffect) {
            let mut later = self.later.lock().unwrap();
            later.push(self.note(event));
            let sent: Vec<_> = if later.len() > 1 { later.drain(..1).collect() } else { Vec::new() };
            sent.into_iter().for_each(|note| drop(self.desk().send(note)));
            return Ok(());
        }
        if self.is(Mistake::LogsTheSecret) {
            tracing::debug!(secret = SECRET, "sending");
        }
        let note = self.note(event);
        let answer = self.desk().send(note.clone());
        if self.is(Mistake::AppliesTwice) && matches!(answer, Answer::Taken) {
            self.desk().effects.push(note);
        }
        match answer {
            Answer::Taken => Ok(()),
            Answer::Refused(_) if self.is(Mistake::TakesARefusalForATimeOut) => Err(self.transient("it was not taken")),
            Answer::Refused(said) if self.is(Mistake::ShowsTheSecretInAnError) => Err(self.rejected(&said)),
            Answer::Refused(said) => Err(self.rejected(&said.replace(SECRET, "…"))),
            Answer::Busy(after) => {
                let retry_after = match self.mistake {
                    Some(Mistake::ForgetsRetryAfter) => None,
                    Some(Mistake::BelievesAnyRetryAfter) => Some(after),
                    _ => Some(after.min(DAY)),
                };
                Err(SinkError::new(SinkErrorKind::Transient { retry_after }, "the desk is busy"))
            }
            Answer::Gone if self.is(Mistake::TakesTheEndForARefusal) => Err(self.rejected("it is gone")),
            Answer::Gone => Err(SinkError::new(SinkErrorKind::Fatal, "the desk is gone for good")),
            Answer::Lost => Err(self.transient("the connection was lost")),
            Answer::BrokenOff if self.is(Mistake::AcceptsABrokenAnswer) => Ok(()),
            Answer::BrokenOff => Err(self.transient("its answer broke off")),
            Answer::Silence => {
                if self.is(Mistake::WaitsForEver) {
                    std::future::pending::<()>().await;
                }
                let silence = std::future::pending::<()>();
                drop(tokio::time::timeout(DEADLINE, silence).await);
                match self.is(Mistake::TakesATimeOutForARefusal) {
                    true => Err(self.rejected("no answer in time")),
                    false => Err(self.transient("no answer in time")),
                }
            }
            Answer::WithoutEnd => {
                let pieces = if self.is(Mistake::ReadsWithoutEnd) { 1 << 20 } else { 64 };
                self.desk().answered_bytes += pieces * 1024;
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Sink for DeskSink {
    fn profile(&self) -> SinkProfile {
        SinkProfile { batch_max: NonZeroUsize::new(8).unwrap(), concurrency: NonZeroUsize::MIN }
    }

    async fn check(&self) -> Result<(), SinkError> {
        if self.is(Mistake::CheckDelivers) {
            let hello = EventId::new(format!("evt_{:032x}", 0)).unwrap();
            self.desk().send(Arrival { id: hello, body: b"hello".to_vec() });
        }
        match self.desk().does {
            PeerDoes::Down => Err(self.transient("it can't be reached")),
            _ => Ok(()),
        }
    }

    async fn deliver(&self, batch: &[Delivery]) -> Result<(), DeliverError> {
        let mut batch: Vec<_> = batch.iter().collect();
        if self.is(Mistake::ReversesABatch) {
            batch.reverse();
        }
        for (accepted, event) in batch.into_iter().enumerate() {
            if let Err(error) = self.send(event).await {
                let accepted = match self.mistake {
                    Some(Mistake::AcceptsOneTooMany) => accepted + 1,
                    Some(Mistake::AcceptsOneTooFew) => accepted.saturating_sub(1),
                    _ => accepted,
                };
                return Err(DeliverError { accepted, error });
            }
        }
        Ok(())
    }
}

struct DeskHarness(Option<Mistake>);

/// A desk that always answers in time.
struct PromptDesk;

struct DeskRig {
    desk: Arc<Mutex<Desk>>,
    mistake: Option<Mistake>,
}

#[async_trait]
impl SinkHarness for DeskHarness {
    async fn start(&self) -> Result<Box<dyn SinkRig>, Broken> {
        let desk = Desk { does: PeerDoes::Take, arrived: Vec::new(), effects: Vec::new(), answered_bytes: 0 };
        Ok(Box::new(DeskRig { desk: Arc::new(Mutex::new(desk)), mistake: self.0 }))
    }

    fn unable(&self, _: PeerDoes) -> Option<String> {
        None
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }

    fn secrets(&self) -> Vec<String> {
        vec![SECRET.to_owned()]
    }

    fn poison(&self) -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    fn duplicates(&self) -> Duplicates {
        match self.0 {
            Some(Mistake::SaysNothingAboutDuplicates) => Duplicates::ReceiverMust { documentation: "It works." },
            _ => Duplicates::SinkSeesToIt,
        }
    }
}

#[async_trait]
impl SinkRig for DeskRig {
    async fn sink(&mut self) -> Result<Arc<dyn Sink>, Broken> {
        let (desk, mistake) = (Arc::clone(&self.desk), self.mistake);
        Ok(Arc::new(DeskSink { desk, mistake, begun: Mutex::default(), later: Mutex::default() }))
    }

    async fn peer(&mut self, does: PeerDoes) -> Result<(), Broken> {
        self.desk.lock().unwrap().does = does;
        Ok(())
    }

    async fn arrived(&mut self) -> Result<Vec<Arrival>, Broken> {
        Ok(self.desk.lock().unwrap().arrived.clone())
    }

    async fn effects(&mut self) -> Result<Vec<Arrival>, Broken> {
        Ok(self.desk.lock().unwrap().effects.clone())
    }

    fn answered_bytes(&self) -> u64 {
        self.desk.lock().unwrap().answered_bytes
    }
}

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

/// The rules that fail, each once; only the trials of `only` are run.
fn broken_by(mistake: Option<Mistake>, only: Option<&str>) -> BTreeSet<&'static str> {
    let harness: Arc<dyn SinkHarness> = Arc::new(DeskHarness(mistake));
    let trials = sink_rules(&harness).into_iter().filter(|trial| only.is_none_or(|rule| rule == trial.rule()));
    let failed = trials.filter_map(|trial| {
        let (rule, name) = (trial.rule(), trial.name());
        assert_eq!(trial.ignored_because(), None, "{name}");
        trial.run().err().map(|broken| {
            println!("{mistake:?}: {name}: {broken}");
            rule
        })
    });
    failed.collect()
}

#[test]
fn a_sink_without_a_mistake_passes_every_trial() {
    assert_eq!(broken_by(None, None), BTreeSet::new());
}

#[test]
fn each_mistake_fails_the_trials_of_its_rule() {
    for (rule, mistakes) in MISTAKES {
        for mistake in *mistakes {
            let broken = broken_by(Some(*mistake), Some(rule));
            assert!(broken.contains(rule), "{mistake:?} breaks {rule}, the suite found nothing");
        }
    }
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
    ("K6", &[Mistake::TakesATimeOutForARefusal, Mistake::TakesARefusalForATimeOut, Mistake::TakesTheEndForARefusal]),
    ("K7", &[Mistake::ForgetsRetryAfter, Mistake::BelievesAnyRetryAfter]),
    ("K8", &[Mistake::ShowsTheSecretInDebug, Mistake::ShowsTheSecretInAnError, Mistake::LogsTheSecret]),
    ("K9", &[Mistake::WaitsForEver, Mistake::ReadsWithoutEnd]),
    ("K10", &[Mistake::AcceptsBeforeTheEffect, Mistake::AcceptsABrokenAnswer]),
];
