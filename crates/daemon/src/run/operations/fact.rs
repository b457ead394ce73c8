//! Something an operator should hear of.

use confirmd_core::{
    ChainId, ChainName, ConsumerName, Delivery, DepositKey, Epoch, EventId, EventKind, Position, Sequence, Timestamp, TxId,
};
use serde::Serialize;
use serde_json::Value;

/// The body's format.
const VERSION: u32 = 1;
/// Stands where a deposit's event has its chain; no network has this id.
const CHAIN: &str = "confirmd:operations";

/// Which kind of fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A chain stands still until it is resumed.
    ChainHalted,
    /// A node has been behind our trail for longer than `behind_alarm`.
    ChainBehind,
    /// A node has given no answer for longer than `behind_alarm`.
    ChainUnreachable,
    /// A reorg that went back far.
    Reorg,
    /// No attempt for a consumer succeeds.
    ConsumerFailing,
    /// Deliveries that need a person.
    DeadLetters,
}

impl Kind {
    /// As the body's `type` says it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ChainHalted => "operations.chain_halted",
            Self::ChainBehind => "operations.chain_behind",
            Self::ChainUnreachable => "operations.chain_unreachable",
            Self::Reorg => "operations.reorg",
            Self::ConsumerFailing => "operations.consumer_failing",
            Self::DeadLetters => "operations.dead_letters",
        }
    }
}

/// What it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Chain(ChainName, ChainId),
    Consumer(ConsumerName),
}

/// Something that holds, or happened.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fact {
    pub(super) kind: Kind,
    pub(super) subject: Subject,
    /// Since when it holds, or when it happened.
    pub(super) at: Timestamp,
    /// Tells facts of one kind, subject and time apart.
    pub(super) mark: u64,
    /// What happened, in words.
    pub(super) text: String,
    /// What to do.
    pub(super) remedy: String,
    pub(super) details: Value,
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a EventId,
    r#type: &'static str,
    version: u32,
    epoch: Epoch,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<&'a ChainId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain_name: Option<&'a ChainName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer: Option<&'a ConsumerName>,
    text: &'a str,
    remedy: &'a str,
    details: &'a Value,
}

fn key(fact: &Fact) -> DepositKey {
    let subject = match &fact.subject {
        Subject::Chain(_, id) => id.as_str(),
        Subject::Consumer(name) => name.as_str(),
    };
    let text = format!("{}/{subject}/{}", fact.kind.as_str(), fact.at.0);
    DepositKey { tx_id: TxId::new(text).expect("invariant: at most 128 printable characters"), output_index: 0 }
}

fn chain() -> ChainId {
    ChainId::new(CHAIN).expect("invariant: a CAIP-2 id")
}

impl Fact {
    /// The same for the same fact, also after a restart.
    pub(super) fn id(&self, epoch: Epoch) -> EventId {
        EventId::derive(&chain(), &key(self), epoch, Sequence(self.mark))
    }

    /// What is sent: made once, then kept.
    pub(super) fn body(&self, epoch: Epoch) -> String {
        let (chain, chain_name, consumer) = match &self.subject {
            Subject::Chain(name, id) => (Some(id), Some(name), None),
            Subject::Consumer(name) => (None, None, Some(name)),
        };
        let body = Body {
            id: &self.id(epoch),
            r#type: self.kind.as_str(),
            version: VERSION,
            epoch,
            at: self.at.to_rfc3339(),
            chain,
            chain_name,
            consumer,
            text: &self.text,
            remedy: &self.remedy,
            details: &self.details,
        };
        serde_json::to_string(&body).expect("invariant: strings and numbers serialise")
    }
}

/// As a sink takes it. Only id and body mean something here; a deposit's fields stand in for themselves.
pub(super) fn delivery(id: &EventId, body: &str, attempt: u32) -> Delivery {
    let tx_id = TxId::new(id.as_str()).expect("invariant: an event's id is printable");
    Delivery {
        position: Position(0),
        event: id.clone(),
        chain: chain(),
        key: DepositKey { tx_id, output_index: 0 },
        sequence: Sequence(1),
        kind: EventKind::Confirmed,
        attempt,
        body: body.as_bytes().into(),
        trace: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_fact_has_one_id_and_its_body_says_what_happened_and_what_to_do() {
        let fact = Fact {
            kind: Kind::DeadLetters,
            subject: Subject::Consumer(ConsumerName::new("x".repeat(64)).unwrap()),
            at: Timestamp(u64::MAX),
            mark: u64::MAX,
            text: "3 deliveries are dead".to_owned(),
            remedy: "requeue".to_owned(),
            details: json!({"dead": 3}),
        };
        let body: Value = serde_json::from_str(&fact.body(Epoch(7))).unwrap();
        assert_eq!(body["id"], fact.id(Epoch(7)).as_str());
        assert_eq!(body["type"], "operations.dead_letters");
        assert_eq!((&body["text"], &body["details"]["dead"]), (&json!("3 deliveries are dead"), &json!(3)));
        assert!(body.get("chain").is_none());
        assert_ne!(fact.id(Epoch(7)), Fact { mark: 1, ..fact.clone() }.id(Epoch(7)));
        assert_eq!(fact.id(Epoch(7)), Fact { text: String::new(), ..fact.clone() }.id(Epoch(7)));
    }
}
