//! Rescans as an operator sees them, and what was read for an address.

use crate::schema::{BlockRefSchema, RescanScopeSchema, RescanStateSchema};
use confirmd_core::{AssetId, BlockRef, Height, Rescan, RescanScope, RescanState};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A rescan: past blocks that are read beside the live watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RescanView {
    /// Its number within the chain.
    pub id: u64,
    /// For whom: `asked` is for the addresses that were added with a height.
    #[schema(value_type = RescanScopeSchema)]
    pub scope: String,
    /// The one asset it is for, by CAIP-19 id, if it is for one.
    #[schema(value_type = Option<String>)]
    pub asset: Option<AssetId>,
    /// The lowest height asked for.
    #[schema(value_type = u64)]
    pub from_height: Height,
    /// The highest; above it the live watch covers.
    #[schema(value_type = u64)]
    pub to_height: Height,
    /// Heights not read yet.
    pub heights_left: u64,
    /// Of a hundred; 100 only when everything was read.
    pub percent_read: u64,
    /// Where it is in its life.
    #[schema(value_type = RescanStateSchema)]
    pub state: String,
    /// Why it failed, or why the last try to go on gave nothing.
    pub trouble: Option<String>,
    /// Addresses it is for.
    pub addresses: u64,
    /// Deposits it found that were not known.
    pub found: u64,
    /// The highest block it read; everything it read is on this block's branch.
    #[schema(value_type = Option<BlockRefSchema>)]
    pub read_to: Option<BlockRef>,
    /// Heights a second lately, while it is read.
    pub heights_per_second: Option<u64>,
    /// At that pace.
    pub seconds_left: Option<u64>,
    /// When it was asked for.
    pub created_at: String,
    /// When it last changed.
    pub changed_at: String,
}

impl RescanView {
    /// Of a record, read at no pace.
    pub fn new(rescan: Rescan) -> Self {
        let (left, all) = (rescan.heights_left(), rescan.heights());
        let failure = match &rescan.state {
            RescanState::Failed(why) => Some(why.clone()),
            _ => None,
        };
        let (scope, asset) = match rescan.scope {
            RescanScope::Asked => ("asked", None),
            RescanScope::Everything => ("everything", None),
            RescanScope::Asset(id) => ("asset", Some(id)),
        };
        Self {
            id: rescan.id.0,
            scope: scope.to_owned(),
            asset,
            from_height: rescan.from,
            to_height: rescan.to,
            heights_left: left,
            percent_read: all.saturating_sub(left).saturating_mul(100).checked_div(all).unwrap_or(100),
            state: rescan.state.as_str().to_owned(),
            trouble: failure,
            addresses: rescan.addresses,
            found: rescan.found,
            read_to: rescan.read_to,
            heights_per_second: None,
            seconds_left: None,
            created_at: rescan.created_at.to_string(),
            changed_at: rescan.changed_at.to_string(),
        }
    }

    /// With how it goes.
    #[must_use]
    pub fn at_pace(mut self, heights_per_second: Option<u64>, seconds_left: Option<u64>, trouble: Option<String>) -> Self {
        (self.heights_per_second, self.seconds_left) = (heights_per_second, seconds_left);
        self.trouble = self.trouble.or(trouble);
        self
    }
}

/// What to read again, for what is watched already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RescanRequest {
    /// The lowest height.
    #[schema(value_type = u64)]
    pub from_height: Height,
    /// The highest; the recorded tip if not given.
    #[serde(default)]
    #[schema(value_type = Option<u64>)]
    pub to_height: Option<Height>,
    /// Only this asset, by its id or the operator's symbol: one that was listed later.
    #[serde(default)]
    pub asset: Option<String>,
}

/// What a rescan is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RescanOrder {
    /// Read nothing for it for a while.
    Pause,
    /// Go on, also after a failure.
    Resume,
    /// Give it up; what it found stays.
    Cancel,
}

impl RescanOrder {
    /// As in the path.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
        }
    }
}

/// For whom coverage is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct CoverageQuery {
    /// Any accepted spelling.
    pub address: String,
    /// Whether it was covered at this height.
    #[param(value_type = Option<u64>)]
    pub height: Option<Height>,
}

/// Heights that were read for an address, without a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Covered {
    /// The lowest.
    #[schema(value_type = u64)]
    pub from_height: Height,
    /// The highest.
    #[schema(value_type = u64)]
    pub to_height: Height,
    /// The rescan that read them; the live watch if none.
    pub rescan: Option<u64>,
    /// A block that what was read is on the branch of: the highest that the rescan read, or the recorded tip.
    #[schema(value_type = Option<BlockRefSchema>)]
    pub block: Option<BlockRef>,
}

/// What was read for an address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Coverage {
    /// The canonical spelling.
    pub address: String,
    /// Whether it is watched.
    pub watched: bool,
    /// Whether it was covered at the height that was asked for.
    pub covered: Option<bool>,
    /// What was read, lowest first; parts may overlap.
    pub read: Vec<Covered>,
    /// The lowest height asked for that was not read, and what reads it or could.
    pub gaps: Vec<Gap>,
}

/// Heights that an address was asked to be read at and was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Gap {
    /// The lowest.
    #[schema(value_type = u64)]
    pub from_height: Height,
    /// The highest.
    #[schema(value_type = u64)]
    pub to_height: Height,
    /// The rescan that is to read them.
    pub rescan: u64,
    /// Its state.
    #[schema(value_type = RescanStateSchema)]
    pub state: String,
}
