//! When recent events were decided, to the millisecond; their bodies say it to the second.

use confirmd_core::{Delivery, EventId, Timestamp};
use std::collections::{HashMap, VecDeque};

/// What is delivered later than so many events is measured to the second.
const KEPT: usize = 10_000;

/// The newest events.
#[derive(Debug, Default)]
pub(super) struct Decided {
    at: HashMap<EventId, Timestamp>,
    order: VecDeque<EventId>,
}

impl Decided {
    /// Remembers one, and forgets the oldest.
    pub(super) fn note(&mut self, event: EventId, at: Timestamp) {
        if self.at.insert(event.clone(), at).is_none() {
            self.order.push_back(event);
        }
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.at.remove(&oldest);
        }
    }

    /// Of a delivery's event: remembered, or as its body says.
    pub(super) fn of(&self, delivery: &Delivery) -> Option<Timestamp> {
        self.at.get(&delivery.event).copied().or_else(|| in_body(&delivery.body))
    }
}

fn in_body(body: &[u8]) -> Option<Timestamp> {
    #[derive(serde::Deserialize)]
    struct Body<'a> {
        decided_at: &'a str,
    }
    Timestamp::from_rfc3339(serde_json::from_slice::<Body<'_>>(body).ok()?.decided_at)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_and_read_from_their_bodies() {
        let mut decided = Decided::default();
        let id = |n: usize| EventId::new(format!("evt_{n:032x}")).unwrap();
        for n in 0..=KEPT {
            decided.note(id(n), Timestamp(7));
        }
        assert_eq!((decided.at.len(), decided.order.len()), (KEPT, KEPT));
        assert!(!decided.at.contains_key(&id(0)) && decided.at.contains_key(&id(KEPT)));
        assert_eq!(in_body(br#"{"id":"x","decided_at":"2026-01-01T00:00:00Z"}"#), Some(Timestamp::from_seconds(1_767_225_600)));
        assert_eq!(in_body(b"no json"), None);
    }
}
