//! Blocks by the node's REST interface, in their own bytes: half of the traffic of hex digits, and less work for the node.
//!
//! Nothing rests on it: what is not the block that was asked for, for whatever reason, is asked for by RPC, which knows why.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use bytes::Bytes;
use confirmd_rpc::RpcClient;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::block::read_header;
use crate::cursor::Cursor;

/// Requests under way at once: the node reads the next blocks from its disk while one is sent.
const REQUESTS_AT_ONCE: usize = 4;

/// `rest`: whether blocks are read by the REST interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RestMode {
    /// Where the node offers it (`-rest`), which is tried with the first block.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// Which endpoints offer it.
#[derive(Debug)]
pub(crate) struct Rest {
    mode: RestMode,
    /// By the endpoint's index. One that has refused is not asked again by this process: RPC serves as well.
    offered: Mutex<BTreeMap<usize, bool>>,
}

impl Rest {
    pub(crate) fn new(mode: RestMode) -> Self {
        Self { mode, offered: Mutex::default() }
    }

    /// What is known of this endpoint; nothing if it was not tried yet.
    pub(crate) fn known(&self, endpoint: usize) -> Option<bool> {
        match self.mode {
            RestMode::Off => Some(false),
            RestMode::Auto => self.offered.lock().unwrap_or_else(PoisonError::into_inner).get(&endpoint).copied(),
        }
    }

    /// Remembers what was found out.
    pub(crate) fn found(&self, endpoint: usize, offered: bool) {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).insert(endpoint, offered);
    }

    /// These blocks in order, or nothing: one was not to be had.
    pub(crate) async fn blocks(&self, rpc: &RpcClient, hashes: &[BlockHash]) -> Option<Vec<Bytes>> {
        let endpoint = rpc.endpoint_index();
        let (tried, rest) = match self.known(endpoint) {
            Some(false) => return None,
            Some(true) => (None, hashes),
            None => {
                let (first, rest) = hashes.split_first()?;
                let block = rpc.rest_probe(&path(first)).await.filter(|bytes| is_block(bytes, first));
                self.found(endpoint, block.is_some());
                tracing::debug!(offered = block.is_some(), "tried the node's REST interface");
                (Some(block?), rest)
            }
        };
        let get = |hash: BlockHash| async move {
            rpc.rest_get(&path(&hash)).await.ok().filter(|bytes| is_block(bytes, &hash)).ok_or(())
        };
        let got: Result<Vec<Bytes>, ()> = stream::iter(rest.to_vec()).map(get).buffered(REQUESTS_AT_ONCE).try_collect().await;
        match got {
            Ok(blocks) => Some(tried.into_iter().chain(blocks).collect()),
            Err(()) => None,
        }
    }
}

fn path(hash: &BlockHash) -> String {
    format!("/rest/block/{hash}.bin")
}

/// Whether the bytes begin with this block's header. What follows is checked when it is decoded.
fn is_block(bytes: &[u8], hash: &BlockHash) -> bool {
    read_header(&mut Cursor::new(bytes)).is_ok_and(|header| header.block_hash().to_byte_array() == hash.to_byte_array())
}
