//! Why a piece of work ended, and the small conversions at the edge to the database.

use confirmd_core::{Position, StoreError, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Error;

/// Why work in a transaction ended early.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The server, or the way to it.
    Server(Error),
    /// What to tell the caller; the transaction is rolled back.
    Told(StoreError),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Told(error)
    }
}

pub(crate) fn invalid(text: impl Into<String>) -> Failed {
    Failed::Told(StoreError::Invalid(text.into()))
}

pub(crate) fn refused(context: impl Into<String>) -> StoreError {
    StoreError::Refused { context: context.into(), source: None }
}

/// JSON of a record.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Invalid(format!("a record can't be written down: {error}; nothing was written")))
}

/// A record from its JSON. `what` names it.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str, what: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Refused {
        context: format!(
            "{what} in the database can't be read: it was changed by hand, or by another version; put a backup back"
        ),
        source: Some(error.into()),
    })
}

/// Integers of the contracts fit into the database's; what is larger stands for "never".
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(crate) fn position(number: i64) -> Position {
    Position(uint(number))
}

pub(crate) fn time(number: i64) -> Timestamp {
    Timestamp(uint(number))
}

/// A limit as SQL wants it.
pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Text columns hold no NUL; what is looked for is changed the same way.
pub(crate) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
