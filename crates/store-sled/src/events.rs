//! Events as the outbox holds them.

use crate::damage::{REMEDY, refused};
use crate::keys;
use crate::reader::Reader;
use crate::record::Kind;
use crate::rows::EventRow;
use confirmd_core::{ChainId, Delivery, EventId, EventRecord, KeyDigest, Position, StoreError};

impl Reader {
    /// The event at a position, as long as history holds it.
    pub(crate) fn event(&self, position: Position) -> Result<Option<EventRow>, StoreError> {
        self.get(&keys::event(position))
    }

    /// The event of an undelivered record, which retention never removes.
    pub(crate) fn needed_event(&self, position: Position) -> Result<EventRow, StoreError> {
        self.event(position)?.ok_or_else(|| {
            refused(format!("the event at position {position} is undelivered but missing in the state: it is damaged; {REMEDY}"))
        })
    }

    /// Where an event is, as long as history holds it.
    pub(crate) fn event_position(&self, id: &EventId) -> Result<Option<Position>, StoreError> {
        self.get(&keys::event_id(id))
    }

    /// Events from a position up to below another, in order.
    pub(crate) fn events(
        &self,
        from: Position,
        end: Position,
    ) -> impl DoubleEndedIterator<Item = Result<(Position, EventRow), StoreError>> + '_ {
        self.range(&keys::event(from), &keys::event(end)).map(|row| {
            let (key, event) = row?;
            let position = keys::position_at(&key, 1);
            let position = position.ok_or_else(|| refused(format!("an event's key in the state is damaged; {REMEDY}")))?;
            Ok((position, event))
        })
    }

    /// The position of the first event history still holds.
    pub(crate) fn first_event(&self, end: Position) -> Result<Position, StoreError> {
        self.events(Position(0), end).next().transpose().map(|first| first.map_or(end, |(position, _)| position))
    }

    /// An event and its position by its id.
    pub(crate) fn event_by_id(&self, id: &EventId) -> Result<Option<EventRecord>, StoreError> {
        let Some(position) = self.event_position(id)? else { return Ok(None) };
        Ok(self.event(position)?.map(|row| row.record(position)))
    }

    /// Whether a key is pending, reported or orphaned right now.
    pub(crate) fn is_held(&self, chain: keys::ChainNumber, digest: &KeyDigest) -> Result<bool, StoreError> {
        for kind in [Kind::Reported, Kind::Pending, Kind::Orphaned] {
            if self.has(&keys::held(kind, chain, digest))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl EventRow {
    /// The key's digest.
    pub(crate) fn digest(&self) -> KeyDigest {
        KeyDigest::of(&self.event.chain, &self.event.transfer.key)
    }

    /// Its chain.
    pub(crate) fn chain(&self) -> &ChainId {
        &self.event.chain
    }

    /// As the contracts know it.
    pub(crate) fn record(self, position: Position) -> EventRecord {
        EventRecord { position, event: self.event, body: self.body }
    }

    /// As a sink is handed it.
    pub(crate) fn delivery(self, position: Position, attempt: u32) -> Delivery {
        Delivery::new(position, self.event, self.body, attempt)
    }
}
