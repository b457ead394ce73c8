//! The sink suite: the rules K1 to K10 of `docs/contracts/sink.md`.
//!
//! A sink's author implements [`SinkHarness`] (what the sink and its other side can do) and [`SinkRig`] (one sink with its other
//! side, running), and gives both to [`sink_trials`].

mod delivering;
mod failing;
mod log;
mod rules;
mod support;

pub use rules::{sink_rules, sink_trials};

use super::Broken;
use async_trait::async_trait;
use confirmd_core::{EventId, Sink};
use std::sync::Arc;
use std::time::Duration;

/// What the other side does with what it is sent, from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerDoes {
    /// Takes everything and says so.
    Take,
    /// Takes so many more events; the one behind them breaks the connection, or finds no room, without any effect.
    TakeThenBreak(usize),
    /// Refuses each event for what it is, and repeats in its answer everything it knows: secrets, addresses, what it was sent.
    Refuse,
    /// Asks to be left alone for so long.
    Throttle(Duration),
    /// Says what no event can pass before an operator acts: it is gone for good.
    Gone,
    /// Can't be reached.
    Down,
    /// Loses the connection once it was sent an event, without any effect.
    Close,
    /// Never answers, without any effect.
    Hang,
    /// Takes the event, then reports a failure.
    TakeAndFail,
    /// Takes the event, then never answers.
    TakeAndHang,
    /// Says that it took the event; the answer breaks off, and there is no effect.
    BreakOff,
    /// Takes the event, says so, and goes on answering for ever, as fast as it is listened to.
    AnswerWithoutEnd,
}

/// Who sees to it that a second delivery of an id has no second effect (K5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// The sink, or what it writes to (a unique key).
    SinkSeesToIt,
    /// The receiver; this is the text of the sink's documentation, which must say so under the name K5.
    ReceiverMust {
        /// `include_str!("../src/lib.rs")`, say.
        documentation: &'static str,
    },
}

/// One event at the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The event's id as the other side reads it.
    pub id: EventId,
    /// The body as it came in, byte for byte.
    pub body: Vec<u8>,
}

/// What a sink and its other side can do in a test; makes one rig per trial.
#[async_trait]
pub trait SinkHarness: Send + Sync {
    /// A new other side, with nothing in it, that takes everything.
    async fn start(&self) -> Result<Box<dyn SinkRig>, Broken>;

    /// Why the other side can't be made to do this, if it can't: the trials that need it are then ignored for that reason.
    /// [`PeerDoes::Take`] must be possible.
    fn unable(&self, does: PeerDoes) -> Option<String>;

    /// The total deadline of one `deliver` of the rig's sinks (K9). A few hundred milliseconds: trials wait for it.
    fn deadline(&self) -> Duration;

    /// What must never be shown (K8): the secrets the rig plants in its sinks, URLs that carry a key. Empty if the sink has none.
    fn secrets(&self) -> Vec<String>;

    /// A body that this sink can't carry and must reject without asking the other side, if there is one.
    fn poison(&self) -> Option<Vec<u8>>;

    /// Who sees to duplicates.
    fn duplicates(&self) -> Duplicates;
}

/// A running other side, and sinks that lead to it.
#[async_trait]
pub trait SinkRig: Send {
    /// A sink to this other side. Asked again, it is the one of a restarted confirmd; the earlier one is gone by then.
    async fn sink(&mut self) -> Result<Arc<dyn Sink>, Broken>;

    /// Changes what the other side does. Only asked for what the harness is able to do.
    async fn peer(&mut self, does: PeerDoes) -> Result<(), Broken>;

    /// Every event that reached the other side, in order, whether or not it had an effect.
    async fn arrived(&mut self) -> Result<Vec<Arrival>, Broken>;

    /// Every event that took effect at the other side, in order; repeated where it took effect repeatedly.
    async fn effects(&mut self) -> Result<Vec<Arrival>, Broken>;

    /// Bytes the other side could get rid of while it answered without end; zero if it never did.
    fn answered_bytes(&self) -> u64;
}
