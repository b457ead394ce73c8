//! Events for readers that pull them.

use crate::schema::{CursorNameSchema, EventSchema};
use crate::{Cursor, OperatorError};
use confirmd_core::{CursorName, Notice, PullCursor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use utoipa::{IntoParams, ToSchema};

/// Which events to read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// `next` of the answer before. Without it and without `cursor`: from the first event that history holds.
    #[param(value_type = Option<String>)]
    pub after: Option<Cursor>,
    /// Behind what this named cursor has taken. Reading does not move it.
    #[param(value_type = Option<CursorNameSchema>)]
    pub cursor: Option<CursorName>,
    /// Seconds to wait for an event if there is none: 0 to 60, by default 0.
    #[param(maximum = 60)]
    pub wait: Option<u32>,
    /// At most so many: 1 to 1,000, by default 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// Informative events to read, too: `detected`, `settled`, or both with a comma. Only those that some consumer asks for are made.
    #[param(value_type = Option<String>)]
    pub include: Option<String>,
}

impl EventsQuery {
    /// The informative events of `include`. An error names the word that is none.
    pub fn notices(&self) -> Result<BTreeSet<Notice>, OperatorError> {
        let words = self.include.iter().flat_map(|list| list.split(','));
        let one = |word: &str| {
            let known = Notice::ALL.map(Notice::word).join(", ");
            let problem = || OperatorError::invalid(format!("include = {word:?} is no informative event; known: {known}"));
            Notice::of_word(word).ok_or_else(problem)
        };
        words.map(one).collect()
    }
}

/// Events in the order they were decided.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EventsPage {
    /// Ids and bodies are those of the webhook, byte for byte.
    #[schema(value_type = Vec<EventSchema>)]
    pub events: Vec<Box<RawValue>>,
    /// Asks for what follows, also when nothing does yet.
    #[schema(value_type = String)]
    pub next: Cursor,
    /// Places between `after` and the first event that history does not hold any more. 0 for whoever keeps up; from the beginning, what
    /// ended longer ago than `state.history`.
    pub gap: u64,
    /// The place behind each event, for readers that take them one by one.
    #[schema(value_type = Vec<String>)]
    pub places: Vec<Cursor>,
}

/// A reader's place, kept by us: what is behind it is not forgotten while it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CursorView {
    /// The reader's name for it.
    #[schema(value_type = CursorNameSchema)]
    pub name: CursorName,
    /// Everything up to here was taken.
    #[schema(value_type = String)]
    pub after: Cursor,
    /// When it was last used.
    pub used_at: String,
    /// It was idle for longer than `state.history`; put it anew.
    pub expired: bool,
}

impl CursorView {
    /// With its place.
    pub fn new(cursor: PullCursor, after: Cursor) -> Self {
        Self { name: cursor.name, after, used_at: cursor.used_at.to_rfc3339(), expired: cursor.expired }
    }
}

/// Where a cursor is put.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutCursor {
    /// Behind this place: everything up to it was taken.
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    pub after: Option<Cursor>,
    /// Without `after`: `beginning` (what history holds; the default) or `now`.
    #[serde(default)]
    pub start: Option<CursorStart>,
}

/// Where a new cursor begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CursorStart {
    /// At the first event that history holds.
    Beginning,
    /// Behind the last event.
    Now,
}
