//! Consumers: configured sink instances, each with its own records.

use crate::text_id::{is_name, text_id};
use crate::{AssetId, ChainId, Event, Notice, Position};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

text_id!(
    /// The operator's name for a sink instance. Owns its delivery records.
    ConsumerName, "a consumer name", "1 to 64 of [-_a-z0-9], starting with a letter or digit", is_name
);

/// Which events a consumer gets; an empty set of chains or assets means all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConsumerFilter {
    /// Only these chains.
    pub chains: BTreeSet<ChainId>,
    /// Only these assets.
    pub assets: BTreeSet<AssetId>,
    /// The informative events it asked for, beside confirmed and reverted.
    #[serde(default)]
    pub notices: BTreeSet<Notice>,
}

impl ConsumerFilter {
    /// Whether the consumer gets this event.
    pub fn takes(&self, event: &Event) -> bool {
        (self.chains.is_empty() || self.chains.contains(&event.chain))
            && (self.assets.is_empty() || self.assets.contains(&event.asset.id))
            && event.notice.is_none_or(|notice| self.notices.contains(&notice))
    }
}

/// Where a consumer that is new to an existing store starts. For G8 everything before counts as delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsumerStart {
    /// Behind the last event.
    Now,
    /// At the first event history still holds.
    Beginning,
}

/// A consumer as the configuration describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerSpec {
    /// Its name.
    pub name: ConsumerName,
    /// What it gets.
    pub filter: ConsumerFilter,
    /// Where it starts if the store already holds events; `None` is then refused with the remedy.
    pub start: Option<ConsumerStart>,
}

/// A consumer as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerStatus {
    /// Its name.
    pub name: ConsumerName,
    /// Why no attempts are made, if none are.
    pub paused: Option<String>,
    /// Every event below was handed out at least once, or does not concern it.
    pub cursor: Position,
    /// Undelivered events: queued, retrying, blocked and not yet read ones. Counts up to 10,000 unread ones, then stops.
    pub waiting: u64,
    /// Of these, how many wait for another attempt after a failed one.
    pub retrying: u64,
    /// Dead letters.
    pub dead: u64,
    /// Events behind a dead one of their key.
    pub blocked: u64,
}
