//! A source that keeps every rule.

use super::node::Node;
use crate::ScriptedChain;
use async_trait::async_trait;
use confirmd_core::{
    Address, AddressError, BlockHeader, BlockRef, ChainId, ChainProfile, ChainSource, EndpointStatus, FinalityTag, Height,
    SourceError, Transfer, WatchSet,
};

/// What transactions are called that pay nobody.
pub(super) const DECOYS: [&str; 2] = ["failed", "self"];
const PREFIX: &str = "sc";

#[derive(Debug)]
pub(super) struct ScriptedSource {
    pub(super) chain: ScriptedChain,
    pub(super) node: Node,
}

/// `sc-name-digit`, where the digit is a sum over the name.
pub(super) fn spelled(prefix: &str, name: &str) -> String {
    let sum: u32 = name.bytes().map(u32::from).sum();
    format!("{prefix}-{name}-{}", sum % 10)
}

fn read(text: &str) -> Result<String, &'static str> {
    let lower = text.to_ascii_lowercase();
    if lower != text && text.to_ascii_uppercase() != text {
        return Err("it mixes upper and lower case");
    }
    let mut parts = lower.split('-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(PREFIX), Some(name), Some(_), None) if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            if spelled(PREFIX, name) == lower {
                Ok(lower)
            } else {
                Err("it is mistyped")
            }
        }
        (Some(_), Some(_), Some(_), None) => Err("it is of another network"),
        _ => Err("it is no address"),
    }
}

#[async_trait]
impl ChainSource for ScriptedSource {
    fn profile(&self) -> &ChainProfile {
        self.chain.profile()
    }

    async fn identify(&self) -> Result<ChainId, SourceError> {
        self.node.request("the network").await?;
        self.chain.identify().await
    }

    async fn tip(&self) -> Result<BlockRef, SourceError> {
        self.node.request("the tip").await?;
        if self.node.faults().syncing {
            return Err(SourceError::transient("asked for the tip, the node is still syncing"));
        }
        self.chain.tip().await
    }

    async fn header_at(&self, height: Height) -> Result<Option<BlockHeader>, SourceError> {
        self.node.decoded("a header").await?;
        if self.node.faults().lost == Some(height) {
            return Err(SourceError::transient("asked for a header that the node named a moment ago"));
        }
        self.chain.header_at(height).await
    }

    async fn headers(&self, from: Height, to: Height) -> Result<Vec<BlockHeader>, SourceError> {
        self.node.decoded("headers").await?;
        self.chain.headers(from, to).await
    }

    async fn finalized(&self, tag: FinalityTag) -> Result<Option<BlockRef>, SourceError> {
        self.node.request("what is final").await?;
        self.chain.finalized(tag).await
    }

    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        self.node.decoded("payments").await?;
        let found = self.chain.transfers(from, to, watch).await?;
        let mut faults = self.node.faults();
        let touched = |height: &Height| *height >= from && *height <= to.height;
        if faults.pruned_below.is_some_and(|kept| from < kept) {
            return Err(SourceError::fatal("the node no longer has these blocks: use one that has, or a later start"));
        }
        if faults.lost.as_ref().is_some_and(touched) {
            return Err(SourceError::orphaned("the node does not know a block of the branch"));
        }
        if faults.spoilt.as_ref().is_some_and(touched) {
            return Err(SourceError::fatal("read a block twice, and neither was it"));
        }
        if faults.empty > 0 {
            faults.empty -= 1;
            return Err(SourceError::transient("the node's answer is empty, its block is not"));
        }
        let pays =
            |t: &Transfer| !t.payment.amount.is_zero() && !DECOYS.iter().any(|decoy| t.key.tx_id.as_str().starts_with(decoy));
        Ok(found.into_iter().filter(pays).collect())
    }

    fn parse_address(&self, text: &str) -> Result<Address, AddressError> {
        read(text).map(|canonical| ScriptedChain::address(&canonical)).map_err(|problem| AddressError {
            text: text.chars().take(100).collect(),
            network: self.chain.profile().chain.to_string(),
            problem: problem.to_owned(),
        })
    }

    async fn inspect(&self) -> Result<Vec<EndpointStatus>, SourceError> {
        self.node.request("the node's state").await?;
        self.chain.inspect().await
    }

    async fn transaction(
        &self,
        tx_id: &str,
        height: Option<Height>,
    ) -> Result<Option<confirmd_core::ShownTransaction>, SourceError> {
        self.node.request("a transaction").await?;
        self.chain.transaction(tx_id, height).await
    }

    fn connection(&self) -> u64 {
        self.chain.connection()
    }
}
