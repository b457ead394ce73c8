//! A consumer as an operator sees it.

use crate::schema::ConsumerNameSchema;
use confirmd_core::{ConsumerName, ConsumerStatus, Position};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumerView {
    /// Its name.
    #[schema(value_type = ConsumerNameSchema)]
    pub name: ConsumerName,
    /// The kind of its sink; `None` if it is not in the configuration (any more).
    pub kind: Option<String>,
    /// Why no attempts are made, if none are.
    pub paused: Option<String>,
    /// Every event below was handed out at least once, or does not concern it.
    #[schema(value_type = u64)]
    pub cursor: Position,
    /// Undelivered events. Counts up to 10,000 unread ones, then stops.
    pub waiting: u64,
    /// Of these, waiting for another attempt.
    pub retrying: u64,
    /// Dead letters.
    pub dead: u64,
    /// Events behind a dead one of their key.
    pub blocked: u64,
}

impl ConsumerView {
    /// With the kind of its sink.
    pub fn new(status: ConsumerStatus, kind: Option<String>) -> Self {
        let ConsumerStatus { name, paused, cursor, waiting, retrying, dead, blocked } = status;
        Self { name, kind, paused, cursor, waiting, retrying, dead, blocked }
    }
}

/// Why a consumer is paused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Shown wherever the consumer is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
