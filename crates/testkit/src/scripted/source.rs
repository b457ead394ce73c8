//! The scripted chain as a source.

use super::{Block, Script, ScriptedChain, length};
use async_trait::async_trait;
use confirmd_core::{
    Address, AddressError, BlockHash, BlockHeader, BlockRef, ChainId, ChainProfile, ChainSource, EndpointStatus, FinalityTag,
    Height, ShownPayment, ShownTransaction, SourceError, Transfer, WatchSet,
};

impl Script {
    /// Counts the call and fails it if the script says so.
    fn enter(&mut self, what: &str) -> Result<(), SourceError> {
        self.requests += 1;
        match self.errors.pop_front() {
            None => Ok(()),
            Some(kind) => Err(SourceError { kind, context: format!("scripted failure of {what}"), source: None }),
        }
    }

    fn visible(&self) -> &[Option<BlockHash>] {
        let end = self.best.len().saturating_sub(self.lag).max(1);
        self.best.get(..end).unwrap_or_default()
    }

    fn block_at(&self, height: Height) -> Option<&Block> {
        self.visible().get(length(height))?.as_ref().and_then(|hash| self.blocks.get(hash))
    }

    fn tip(&self) -> BlockRef {
        let hash = self.visible().iter().rev().flatten().next().expect("invariant: genesis is always visible");
        self.blocks.get(hash).expect("invariant: every hash has a block").header.block.clone()
    }
}

#[async_trait]
impl ChainSource for ScriptedChain {
    fn profile(&self) -> &ChainProfile {
        &self.profile
    }

    async fn identify(&self) -> Result<ChainId, SourceError> {
        let mut script = self.script();
        script.enter("identify")?;
        Ok(script.network.clone())
    }

    async fn tip(&self) -> Result<BlockRef, SourceError> {
        self.fork_if_due("tip");
        let mut script = self.script();
        script.enter("tip")?;
        Ok(script.tip())
    }

    async fn header_at(&self, height: Height) -> Result<Option<BlockHeader>, SourceError> {
        let mut script = self.script();
        script.enter("header_at")?;
        if script.withheld == Some(height) {
            return Ok(None);
        }
        Ok(script.block_at(height).map(|block| block.header.clone()))
    }

    async fn headers(&self, from: Height, to: Height) -> Result<Vec<BlockHeader>, SourceError> {
        let mut script = self.script();
        script.enter("headers")?;
        let heights = (from.0..=to.0).map(Height);
        Ok(heights.filter_map(|height| script.block_at(height)).map(|block| block.header.clone()).collect())
    }

    async fn finalized(&self, tag: FinalityTag) -> Result<Option<BlockRef>, SourceError> {
        let mut script = self.script();
        script.enter("finalized")?;
        Ok(script.marks.get(&tag).cloned())
    }

    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        self.fork_if_due("transfers");
        let mut script = self.script();
        script.enter("transfers")?;
        if script.block_at(to.height).is_none_or(|block| block.header.block != *to) {
            return Err(SourceError::orphaned(format!("block {to} is not on the best chain")));
        }
        if script.empty_answers > 0 {
            script.empty_answers -= 1;
            return Ok(Vec::new());
        }
        let blocks = (from.0..=to.height.0).filter_map(|height| script.block_at(Height(height)));
        let transfers = blocks.flat_map(|block| &block.transfers);
        let wanted = |t: &&Transfer| watch.get(t.payment.address.bytes()).is_some() && watch.asset(&t.payment.asset).is_some();
        Ok(transfers.filter(wanted).cloned().collect())
    }

    fn parse_address(&self, text: &str) -> Result<Address, AddressError> {
        if text.is_empty() {
            let network = self.profile.chain.to_string();
            return Err(AddressError { text: text.to_owned(), network, problem: "it is empty".to_owned() });
        }
        Ok(Self::address(text))
    }

    async fn inspect(&self) -> Result<Vec<EndpointStatus>, SourceError> {
        self.script().enter("inspect")?;
        Ok(vec![EndpointStatus { subject: "node".to_owned(), ok: true, text: "scripted".to_owned() }])
    }

    async fn transaction(&self, tx_id: &str, height: Option<Height>) -> Result<Option<ShownTransaction>, SourceError> {
        let mut script = self.script();
        script.enter("transaction")?;
        // It knows payments only, and finds them by their block.
        let Some(block) = height.and_then(|height| script.block_at(height)) else { return Ok(None) };
        let of_it = block.transfers.iter().filter(|transfer| transfer.key.tx_id.as_str() == tx_id);
        let shown = |transfer: &Transfer| ShownPayment {
            output_index: transfer.key.output_index,
            address: Some(transfer.payment.address.clone()),
            asset: transfer.payment.asset.clone(),
            amount: transfer.payment.amount,
            remark: None,
        };
        let payments: Vec<_> = of_it.map(shown).collect();
        let block = Some(block.header.block.clone());
        Ok((!payments.is_empty()).then_some(ShownTransaction { block, failed: false, payments, left_out: None }))
    }

    fn connection(&self) -> u64 {
        self.script().connection
    }
}
