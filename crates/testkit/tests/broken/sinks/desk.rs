//! A sink to a desk that takes notes, with and without a mistake.

use async_trait::async_trait;
use confirmd_core::{DeliverError, Delivery, EventId, Sink, SinkBooks, SinkError, SinkErrorKind, SinkProfile};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::sink::{Arrival, Duplicates, PeerDoes, SinkHarness, SinkRig};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const SECRET: &str = "hunter2-hunter2";
pub(crate) const DEADLINE: Duration = Duration::from_millis(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
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
    TakesALostConnectionForTheEnd,
    TakesAPoisonForATimeOut,
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
            let what = "an empty note can't be carried";
            return Err(if self.is(Mistake::TakesAPoisonForATimeOut) { self.transient(what) } else { self.rejected(what) });
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
            Answer::Lost if self.is(Mistake::TakesALostConnectionForTheEnd) => {
                Err(SinkError::new(SinkErrorKind::Fatal, "the desk is not there"))
            }
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

    fn books(&self) -> Option<&dyn SinkBooks> {
        None
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

pub(crate) struct DeskHarness(pub(crate) Option<Mistake>);

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
