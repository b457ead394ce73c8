//! An instance, or a state without one, at a glance.

use super::{ChainView, ConsumerView};
use serde::{Deserialize, Serialize};

/// How everything stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// The revision it was built from.
    pub revision: String,
    /// Whether an instance runs.
    pub running: bool,
    /// Since when.
    pub started_at: Option<String>,
    /// The state's folder.
    pub state: String,
    /// The state's epoch.
    pub epoch: u64,
    /// Every configured chain.
    pub chains: Vec<ChainView>,
    /// Every consumer with records.
    pub consumers: Vec<ConsumerView>,
}

impl Status {
    /// Why the instance is not ready, in words; empty when it is.
    pub fn not_ready(&self) -> Vec<String> {
        self.chains.iter().filter_map(|chain| Some(format!("{}: {}", chain.name, chain.alarm.as_ref()?))).collect()
    }
}
