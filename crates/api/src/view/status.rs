//! An instance, or a state without one, at a glance.

use super::{ChainView, ConsumerView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How everything stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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

/// Whether the process lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// Names this run.
    pub instance: String,
}

/// Whether every chain does its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// Whether it is ready.
    pub ready: bool,
    /// Why not, in words.
    pub reasons: Vec<String>,
}

/// It was done; there is nothing to say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Done {}
