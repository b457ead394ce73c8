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
    /// What of the configuration file is in effect; nothing where no instance runs.
    #[serde(default)]
    pub configuration: Option<ConfigurationView>,
}

/// What of the configuration file is in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationView {
    /// The file.
    pub file: String,
    /// When what it said was taken over.
    pub loaded_at: String,
    /// A later look at it that was refused: the instance goes on with what it had.
    pub refused: Option<RefusedView>,
}

/// Why a configuration was not taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedView {
    /// When.
    pub at: String,
    /// What is wrong, by key, and what to do.
    pub problem: String,
}

/// What a reload changed. Everything else was not touched.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// Parts of the configuration, in order of their keys.
    pub parts: Vec<ReloadedPart>,
}

/// One part of a configuration that a reload changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadedPart {
    /// `chains.NAME`, `sinks.NAME`, `operations`, `log.filter`.
    pub key: String,
    /// What became of it.
    pub change: PartChange,
}

/// What became of a part of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PartChange {
    /// It is new.
    Added,
    /// It goes on with other settings.
    Changed,
    /// It has ended.
    Removed,
}

impl PartChange {
    /// One word, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
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
