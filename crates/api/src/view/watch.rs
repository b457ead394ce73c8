//! Watched addresses as an operator sees them.

use crate::Cursor;
use crate::schema::{ChainNameSchema, WatchOriginSchema, WatchStateSchema};
use confirmd_core::{ChainName, Height, WatchEntry, WatchOrigin, WatchState};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// One watched address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Watched {
    /// The operator's name for the chain.
    #[schema(value_type = ChainNameSchema)]
    pub chain: ChainName,
    /// The canonical spelling.
    pub address: String,
    /// The operator's label.
    #[schema(value_type = Option<String>)]
    pub reference: Option<Arc<str>>,
    /// The first height from which coverage is guaranteed.
    #[schema(value_type = u64)]
    pub from_height: Height,
    /// Who asked for it.
    #[schema(value_type = WatchOriginSchema)]
    pub origin: WatchOrigin,
    /// Whether it takes new deposits.
    #[schema(value_type = WatchStateSchema)]
    pub state: WatchState,
}

impl Watched {
    /// On a chain.
    pub fn new(chain: ChainName, entry: WatchEntry) -> Self {
        Self {
            chain,
            address: entry.address.as_str().to_owned(),
            reference: entry.reference,
            from_height: entry.from,
            origin: entry.origin,
            state: entry.state,
        }
    }
}

/// An address to watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchRequest {
    /// The operator's name for the chain.
    #[schema(value_type = ChainNameSchema)]
    pub chain: ChainName,
    /// Any accepted spelling.
    pub address: String,
    /// The operator's label.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub reference: Option<Arc<str>>,
    /// Its history is read from this height on, by a rescan that goes on behind the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub from_height: Option<Height>,
    /// Where it stands in a list, for errors: a line number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// Addresses to watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchAdd {
    /// All or none.
    pub entries: Vec<WatchRequest>,
}

/// What was added on one chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WatchAdded {
    /// The operator's name for the chain.
    #[schema(value_type = ChainNameSchema)]
    pub chain: ChainName,
    /// So many addresses.
    pub count: u64,
    /// The first height from which the live watch covers all of them.
    #[schema(value_type = u64)]
    pub from_height: Height,
    /// The rescan that reads the history of those that ask for it and lack it; the last one, of a long list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rescan: Option<u64>,
    /// Addresses that had another reference before; said for requests of at most 100 addresses.
    #[serde(default)]
    pub relabelled: Vec<Relabelled>,
}

/// An address that was watched with another reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Relabelled {
    /// The canonical spelling.
    pub address: String,
    /// What it had.
    #[schema(value_type = Option<String>)]
    pub from: Option<Arc<str>>,
    /// What it has now.
    #[schema(value_type = Option<String>)]
    pub to: Option<Arc<str>>,
}

/// Addresses to take no new deposits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchRemove {
    /// The operator's name for the chain.
    #[schema(value_type = ChainNameSchema)]
    pub chain: ChainName,
    /// Any accepted spelling.
    pub addresses: Vec<String>,
}

/// Which watched addresses to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct WatchQuery {
    /// Only of this chain.
    #[param(value_type = Option<ChainNameSchema>)]
    pub chain: Option<ChainName>,
    /// Only this address, in any accepted spelling.
    pub address: Option<String>,
    /// Only with this label. Looks through all addresses; a page may be shorter than asked and still have a next one.
    pub reference: Option<String>,
    /// `next` of the page before.
    #[param(value_type = Option<String>)]
    pub after: Option<Cursor>,
    /// At most so many: 1 to 1,000, by default 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}
