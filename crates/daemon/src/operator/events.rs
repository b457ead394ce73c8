//! Events for readers that pull them, and their cursors.

use super::LocalOperator;
use confirmd_api::view::{CursorStart, CursorView, EventsPage, EventsQuery, PutCursor};
use confirmd_api::{Cursor, ErrorKind, OperatorError, WAIT_MAX, page_size};
use confirmd_core::{CursorName, EventRecord, Position, PullCursor};
use std::time::Duration;

/// A cursor's last use is written down at most this often.
const NOTE_USE: Duration = Duration::from_secs(60);
/// Events looked at in one step towards the last one.
const STEP: usize = 1_000;

impl LocalOperator {
    pub(super) async fn read_events(&self, query: &EventsQuery) -> Result<EventsPage, OperatorError> {
        let after = match (&query.after, &query.cursor) {
            (Some(_), Some(_)) => return Err(OperatorError::invalid("give `after` or `cursor`, not both")),
            (Some(after), None) => self.position_of(after)?,
            (None, Some(name)) => self.use_cursor(name).await?,
            (None, None) => Position(0),
        };
        let (limit, notices) = (page_size(query.limit)?, query.notices()?);
        // What was looked at and is not for this reader is passed over for good.
        let (mut last, mut gap) = (after, None);
        let wait = query.wait.unwrap_or(0);
        if wait > WAIT_MAX {
            return Err(OperatorError::invalid(format!("wait = {wait} is longer than {WAIT_MAX} seconds; ask again instead")));
        }
        let wait = Duration::from_secs(u64::from(wait));
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            // Registered before the store is asked, so that no wake-up falls between.
            let mut woken = std::pin::pin!(self.wake.notified());
            woken.as_mut().enable();
            let mut found = self.store(self.stores.history.events(last, limit).await)?;
            let looked_at = found.last().map(|record| record.position);
            if let Some(first) = found.first() {
                gap.get_or_insert(first.position.0.saturating_sub(after.next().0));
            }
            last = looked_at.unwrap_or(last);
            found.retain(|record| record.event.notice.is_none_or(|notice| notices.contains(&notice)));
            match (found.is_empty(), looked_at) {
                (false, _) => return self.events_page(last, gap, found),
                // Nothing for this reader among these: what is behind them?
                (true, Some(_)) => continue,
                (true, None) if wait.is_zero() => return self.events_page(last, gap, found),
                (true, None) => {}
            }
            tokio::select! {
                () = woken => {}
                () = self.stop.stopped() => return self.events_page(last, gap, Vec::new()),
                () = tokio::time::sleep_until(deadline) => return self.events_page(last, gap, Vec::new()),
            }
        }
    }

    /// `last` is the last place looked at, `gap` what was missing before the first one.
    fn events_page(&self, last: Position, gap: Option<u64>, found: Vec<EventRecord>) -> Result<EventsPage, OperatorError> {
        let gap = gap.unwrap_or_default();
        let places: Vec<Cursor> = found.iter().map(|record| self.place(record.position)).collect();
        let next = self.place(last);
        let body = |record: EventRecord| serde_json::from_slice(&record.body);
        let events = found.into_iter().map(body).collect::<Result<_, _>>();
        let events = events.map_err(|error| OperatorError::failed(format!("an event's body is no JSON: {error}")))?;
        Ok(EventsPage { events, next, gap, places })
    }

    /// A place names the epoch: positions of a state that was begun anew are others.
    fn place(&self, position: Position) -> Cursor {
        Cursor::of(&(self.stores.state.epoch().0, position))
    }

    fn position_of(&self, cursor: &Cursor) -> Result<Position, OperatorError> {
        let (epoch, position): (u64, Position) = cursor.place()?;
        let now = self.stores.state.epoch().0;
        if epoch == now {
            return Ok(position);
        }
        Err(OperatorError::new(
            ErrorKind::Expired,
            format!(
                "this place is of epoch {epoch}, the state is of epoch {now}: it was rebuilt or restored; read from the beginning, your own rule drops what you know"
            ),
        ))
    }

    async fn known_cursor(&self, name: &CursorName) -> Result<Option<PullCursor>, OperatorError> {
        let known = self.store(self.stores.history.cursors().await)?;
        Ok(known.into_iter().find(|cursor| cursor.name == *name))
    }

    async fn use_cursor(&self, name: &CursorName) -> Result<Position, OperatorError> {
        let Some(cursor) = self.known_cursor(name).await? else {
            return Err(OperatorError::not_found(format!("there is no cursor {name}; PUT /v1/cursors/{name} makes it")));
        };
        if cursor.expired {
            return Err(OperatorError::new(
                ErrorKind::Expired,
                format!(
                    "the cursor {name} was idle for longer than `state.history`, events behind it may be gone; compare your books, then PUT /v1/cursors/{name} again"
                ),
            ));
        }
        let now = self.clock.now();
        let after = cursor.after;
        if now.since(cursor.used_at) >= NOTE_USE {
            self.store(self.stores.history.put_cursor(&PullCursor { used_at: now, ..cursor }).await)?;
        }
        Ok(after)
    }

    pub(super) async fn list_cursors(&self) -> Result<Vec<CursorView>, OperatorError> {
        let known = self.store(self.stores.history.cursors().await)?;
        Ok(known.into_iter().map(|cursor| self.cursor_view(cursor)).collect())
    }

    fn cursor_view(&self, cursor: PullCursor) -> CursorView {
        let place = self.place(cursor.after);
        CursorView::new(cursor, place)
    }

    pub(super) async fn set_cursor(&self, name: &CursorName, put: PutCursor) -> Result<CursorView, OperatorError> {
        let after = match (&put.after, put.start) {
            (Some(_), Some(_)) => return Err(OperatorError::invalid("give `after` or `start`, not both")),
            (Some(after), None) => self.position_of(after)?,
            (None, Some(CursorStart::Now)) => self.last_position().await?,
            (None, Some(CursorStart::Beginning) | None) => Position(0),
        };
        let cursor = PullCursor { name: name.clone(), after, used_at: self.clock.now(), expired: false };
        self.store(self.stores.history.put_cursor(&cursor).await)?;
        Ok(self.cursor_view(cursor))
    }

    /// The place of the last event.
    async fn last_position(&self) -> Result<Position, OperatorError> {
        let mut last = Position(0);
        loop {
            let found = self.store(self.stores.history.events(last, STEP).await)?;
            match found.last() {
                Some(record) => last = record.position,
                None => return Ok(last),
            }
        }
    }
}
