//! Compact block filters (BIP 157, 158): the node's own index tells which blocks may pay what is watched, so that only those are read.
//!
//! What such a block pays is still read from the block itself, whole and checked. That the other blocks pay nothing is the
//! node's word, as it is its word which chain is the best: so the index is asked only about blocks that nothing but a reorg deeper than
//! `reorg_depth` can change, and whatever it refuses is read block by block.

use crate::node::Node;
use bitcoin::BlockHash;
use confirmd_core::{Height, SourceError, WatchSet};
use confirmd_rpc::RpcError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Scripts asked for at once. A filter names a block wrongly once in 784,931 for each, so that beyond this many more than one block in a
/// hundred would be read for nothing, and the request itself is some 60 bytes a script.
const SCRIPTS_MAX: usize = 10_000;
/// Fewer blocks are read at less cost than the index is asked.
const BLOCKS_MIN: u64 = 20;

/// `filters`: whether the node's index of compact block filters is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FilterMode {
    /// Where the node offers it (`-blockfilterindex=1`).
    #[default]
    Auto,
    /// Never.
    Off,
}

/// What the node's index says of a range.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// The last height it was asked about; what is above must be read whole.
    pub(crate) to: Height,
    /// The blocks that may pay what is watched, in order.
    pub(crate) blocks: Vec<(Height, BlockHash)>,
}

/// Which endpoints can be asked.
#[derive(Debug)]
pub(crate) struct Filters {
    mode: FilterMode,
    /// Endpoints, by index, that have no such index or don't know the method, and the connection it was found out on.
    lacking: Mutex<BTreeMap<usize, u64>>,
}

impl Filters {
    pub(crate) fn new(mode: FilterMode) -> Self {
        Self { mode, lacking: Mutex::default() }
    }

    fn lacks(&self, node: &Node) -> bool {
        let lacking = self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
        lacking.get(&node.rpc.endpoint_index()) == Some(&node.rpc.generation())
    }

    /// Not asked again until the connection changes: a node is given an index by a restart.
    fn found_lacking(&self, node: &Node) {
        let mut lacking = self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
        lacking.insert(node.rpc.endpoint_index(), node.rpc.generation());
    }

    /// The blocks from `from` on that may pay what is watched, up to a height at or below `to` that is `reorg_depth` below the
    /// node's tip. `None`: every block must be read, since the range is short or close to the tip, too much is watched, or the node has no such index.
    pub(crate) async fn candidates(
        &self,
        node: &Node,
        from: Height,
        to: Height,
        reorg_depth: u64,
        watch: &WatchSet,
    ) -> Result<Option<Candidates>, SourceError> {
        let few = |to: Height| to.0.saturating_add(1).saturating_sub(from.0) < BLOCKS_MIN;
        if self.mode == FilterMode::Off || few(to) || watch.len() > SCRIPTS_MAX || self.lacks(node) {
            return Ok(None);
        }
        let Some(tip) = node.filtered_to().await? else {
            self.found_lacking(node);
            return Ok(None);
        };
        let to = to.min(tip.minus(reorg_depth));
        if few(to) {
            return Ok(None);
        }
        let scripts = watch.addresses().map(|entry| format!("raw({})", const_hex::encode(entry.address.bytes()))).collect();
        let hashes = match node.scan_blocks(scripts, from, to).await {
            Ok(Some(hashes)) => hashes,
            Ok(None) => {
                tracing::debug!(%from, %to, "the node's filters gave no whole answer; reading every block of these");
                return Ok(None);
            }
            Err(RpcError::Call(error)) => {
                // Another scan may be under way, of which a node takes one at a time.
                if error.is_method_missing() {
                    self.found_lacking(node);
                }
                tracing::debug!(%from, %to, error = %error, "the node's filters can't be used; reading every block of these");
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let heights = node.heights(&hashes).await?;
        let in_order = heights.windows(2).all(|pair| matches!(pair, [one, next] if one < next));
        if !in_order || heights.iter().any(|height| *height < from || *height > to) {
            tracing::warn!(%from, %to, "the node's filters named blocks that were not asked about; reading every block of these");
            return Ok(None);
        }
        Ok(Some(Candidates { to, blocks: heights.into_iter().zip(hashes).collect() }))
    }
}
