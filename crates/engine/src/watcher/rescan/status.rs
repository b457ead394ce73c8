//! How a rescan goes, for people and metrics.

use confirmd_core::{ChainState, Rescan};
use serde::Serialize;

/// Ended rescans that a status still shows, newest first behind the open ones.
const ENDED_SHOWN: usize = 20;

/// A rescan and its pace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RescanStatus {
    /// Its record.
    #[serde(flatten)]
    pub rescan: Rescan,
    /// Heights a second lately, while it is read.
    pub heights_per_second: Option<u64>,
    /// At that pace.
    pub seconds_left: Option<u64>,
    /// Why the last try to go on gave nothing.
    pub trouble: Option<String>,
}

/// Open rescans, lowest number first, then the last of those that ended.
pub(super) fn shown(state: &ChainState) -> impl Iterator<Item = &Rescan> {
    let open = state.rescans.values().filter(|rescan| rescan.state.is_open());
    open.chain(state.rescans.values().rev().filter(|rescan| !rescan.state.is_open()).take(ENDED_SHOWN))
}
