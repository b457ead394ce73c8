//! What a node says of its chain, and whether its tip can be taken for the network's.

use crate::network::Network;
use serde::Deserialize;

/// A node knows headers before it has the blocks. Further behind than this, in blocks, and its tip says nothing of the
/// network's: confirmations counted from it could belong to a branch that has lost.
const HEADERS_AHEAD_MAX: u64 = 24;

/// `getblockchaininfo`, as far as it is used; the same fields in Core 0.21 and 29.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ChainInfo {
    pub(crate) chain: String,
    pub(crate) blocks: u64,
    #[serde(default)]
    pub(crate) headers: Option<u64>,
    #[serde(rename = "bestblockhash")]
    pub(crate) best_block_hash: String,
    /// Older relatives don't say.
    #[serde(rename = "initialblockdownload", default)]
    pub(crate) initial_block_download: bool,
    #[serde(default)]
    pub(crate) pruned: bool,
    /// The lowest block that is still there, on a pruned node.
    #[serde(rename = "pruneheight", default)]
    pub(crate) prune_height: Option<u64>,
}

impl ChainInfo {
    /// Why the tip is not the network's, if it is not: the node is still catching up. Never on networks whose blocks are
    /// mined on demand, where an old tip is normal.
    pub(crate) fn behind(&self, network: &Network) -> Option<String> {
        if network.on_demand {
            return None;
        }
        let headers = self.headers.unwrap_or(self.blocks);
        let ahead = headers.saturating_sub(self.blocks);
        if self.initial_block_download {
            Some(format!("the node is in its initial download: it has {} blocks of {headers} known headers", self.blocks))
        } else if ahead > HEADERS_AHEAD_MAX {
            Some(format!("the node is catching up: it has {} blocks of {headers} known headers", self.blocks))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn info(blocks: u64, headers: u64, download: bool) -> ChainInfo {
        ChainInfo {
            chain: "main".into(),
            blocks,
            headers: Some(headers),
            best_block_hash: String::new(),
            initial_block_download: download,
            pruned: false,
            prune_height: None,
        }
    }

    #[test]
    fn a34_the_tip_of_a_node_that_is_still_downloading_is_not_the_networks() {
        let mainnet = Network::by_name("mainnet").unwrap();
        assert!(info(500_000, 900_000, true).behind(mainnet).unwrap().contains("500000 blocks of 900000"));
        assert!(info(899_000, 900_000, false).behind(mainnet).is_some());
        assert_eq!(info(899_999, 900_000, false).behind(mainnet), None);
        assert_eq!(info(900_000, 900_000, false).behind(mainnet), None);
    }

    #[test]
    fn an_old_tip_is_normal_where_blocks_are_mined_on_demand() {
        assert_eq!(info(5, 5, true).behind(Network::by_name("regtest").unwrap()), None);
    }
}
