//! Records what is decided and committed.

use super::super::observed::{CommitObserver, Taken};
use super::span::{Attributes, Nanos, Span};
use super::{Recorder, Traces};
use confirmd_core::{ChainId, ChainState, Change, ChangeSet, Epoch, Event, EventId, EventKind, Sequence, TraceContext, Transfer};
use std::collections::HashSet;
use std::sync::Arc;

/// Records each commit while traces are on.
#[derive(Debug)]
pub(crate) struct TracedCommits(Arc<Traces>);

impl TracedCommits {
    pub(crate) fn observer(traces: Arc<Traces>) -> Arc<dyn CommitObserver> {
        Arc::new(Self(traces))
    }
}

impl CommitObserver for TracedCommits {
    fn loaded(&self, _chain: &ChainId, _state: &ChainState) {}

    fn begins(&self, changes: &ChangeSet, epoch: Epoch) -> Taken {
        let Some(recorder) = self.0.recorder() else { return Box::new(|| ()) };
        let (traces, decided, began) = (self.0.clone(), Decided::of(changes, epoch), Nanos::now());
        Box::new(move || recorder.committed(&traces, &decided, (began, Nanos::now())))
    }
}

/// What of a change set stands in traces.
struct Decided {
    chain: ChainId,
    /// Read now, with the event that will report it.
    seen: Vec<(EventId, Transfer)>,
    events: Vec<Event>,
}

impl Decided {
    fn of(set: &ChangeSet, epoch: Epoch) -> Self {
        let mut held = HashSet::new();
        let mut seen = Vec::new();
        for change in &set.changes {
            match change {
                Change::PendingPut(pending) => {
                    let event = EventId::derive(&set.chain, &pending.transfer.key, epoch, pending.last_sequence.next());
                    seen.push((event, pending.transfer.clone()));
                }
                Change::PendingDropped(key) => drop(held.insert(key)),
                _ => {}
            }
        }
        // Confirmed as soon as it was seen.
        let at_once = |event: &&Event| event.kind() == EventKind::Confirmed && !held.contains(&event.transfer.key);
        let events: Vec<Event> = set.events.iter().map(|(event, _)| event.clone()).collect();
        seen.extend(events.iter().filter(at_once).map(|event| (event.id.clone(), event.transfer.clone())));
        Self { chain: set.chain.clone(), seen, events }
    }
}

/// The names of spans; the ids of all but deliveries follow from them.
const BLOCK: &str = "block";
const DECIDE: &str = "decide";
const COMMIT: &str = "commit";

impl Recorder {
    fn committed(&self, traces: &Traces, decided: &Decided, (began, ended): (Nanos, Nanos)) {
        for (event, transfer) in &decided.seen {
            self.block(traces, &decided.chain, event, transfer);
        }
        for event in &decided.events {
            self.decision(traces, event, (began, ended), decided.events.len());
        }
    }

    /// The block that carries a payment was read. A payment that is read again in another block has two of these.
    fn block(&self, traces: &Traces, chain: &ChainId, event: &EventId, transfer: &Transfer) {
        let trace_id = TraceContext::trace_of(event);
        let Some(read) = traces.read_at(chain, transfer).filter(|_| self.takes(&trace_id)) else { return };
        let span_id = TraceContext::span_named(&trace_id, &format!("{BLOCK} {}", transfer.block.hash));
        let mut attributes = payment(transfer);
        attributes.push(("confirmd.chain", chain.as_str().into()));
        if let Some(name) = traces.name(chain) {
            attributes.push(("confirmd.chain.name", name.into()));
        }
        let parent = Some(Self::whole(&trace_id));
        self.record(Span { parent, attributes, ..Span::new(trace_id, span_id, BLOCK, read) });
    }

    /// The whole, which deliveries belong to, with what was decided and its commit.
    fn decision(&self, traces: &Traces, event: &Event, (began, ended): (Nanos, Nanos), events: usize) {
        let trace_id = TraceContext::trace_of(&event.id);
        if !self.takes(&trace_id) {
            return;
        }
        let ticked = Nanos::from(event.decided_at);
        let read = traces.read_at(&event.chain, &event.transfer).filter(|_| event.kind() == EventKind::Confirmed);
        let from = read.map_or(ticked, |(asked, _)| asked.min(ticked));
        let mut attributes = payment(&event.transfer);
        attributes.extend([
            ("confirmd.chain", event.chain.as_str().into()),
            ("confirmd.chain.name", event.chain_name.as_str().into()),
            ("confirmd.event", event.id.as_str().into()),
            ("confirmd.sequence", event.sequence.0.into()),
            ("confirmd.asset", (&*event.asset.symbol).into()),
        ]);
        let (whole, link) = (Self::whole(&trace_id), Self::answers(event));
        self.record(Span { attributes, link, ..Span::new(trace_id, whole, event.kind().wire_type(), (from, ended)) });
        let part = |name, period, attributes| {
            let span_id = TraceContext::span_named(&trace_id, name);
            Span { parent: Some(whole), attributes, ..Span::new(trace_id, span_id, name, period) }
        };
        self.record(part(DECIDE, (ticked, began), rule(traces, event)));
        let events = u64::try_from(events).unwrap_or(u64::MAX);
        self.record(part(COMMIT, (began, ended), vec![("confirmd.commit.events", events.into())]));
    }

    /// The event before it, which it takes back or follows.
    fn answers(event: &Event) -> Option<([u8; 16], [u8; 8])> {
        // An informative event has its deposit's last decision before it.
        let before = if event.decides() { Sequence(event.sequence.0.checked_sub(1)?) } else { event.sequence };
        if before == Sequence::NONE {
            return None;
        }
        let before = EventId::derive(&event.chain, &event.transfer.key, event.epoch, before);
        let trace_id = TraceContext::trace_of(&before);
        Some((trace_id, Self::whole(&trace_id)))
    }
}

/// Which payment, where. Neither who was paid nor how much.
fn payment(transfer: &Transfer) -> Attributes {
    vec![
        ("confirmd.block.height", transfer.block.height.0.into()),
        ("confirmd.block.hash", transfer.block.hash.as_str().into()),
        ("confirmd.tx", transfer.key.tx_id.as_str().into()),
        ("confirmd.output_index", u64::from(transfer.key.output_index).into()),
    ]
}

/// What made it deep enough.
fn rule(traces: &Traces, event: &Event) -> Attributes {
    match event.kind() {
        EventKind::Confirmed => {}
        EventKind::Reverted => return vec![("confirmd.rule", "its block left the best chain".into())],
        EventKind::Detected => return vec![("confirmd.rule", "not deep enough yet".into())],
        EventKind::Settled => return vec![("confirmd.rule", "it can't be taken back any more".into())],
    }
    let mut attributes: Attributes = vec![("confirmd.confirmations", event.confirmations.into())];
    if let Some(requirement) = traces.requirement(&event.chain, &event.asset.id) {
        attributes.push(("confirmd.rule.at_least", u64::from(requirement.at_least.get()).into()));
        if let Some(tag) = requirement.tag {
            attributes.push(("confirmd.rule.tag", tag.as_str().into()));
        }
    }
    if let Some(maturity) = event.transfer.maturity {
        attributes.push(("confirmd.rule.maturity", u64::from(maturity.get()).into()));
    }
    attributes
}
