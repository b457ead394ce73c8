//! Notes when payments are read, on their way from a chain's source.

use super::{Traces, span::Nanos};
use async_trait::async_trait;
use confirmd_core::{
    Address, AddressError, BlockHeader, BlockRef, ChainId, ChainProfile, ChainSource, EndpointStatus, FinalityTag, Height,
    ShownTransaction, SourceError, Transfer, WatchSet,
};
use std::sync::Arc;

/// A source whose payments are noted.
#[derive(Debug)]
pub(crate) struct TracedSource {
    inner: Arc<dyn ChainSource>,
    traces: Arc<Traces>,
}

impl TracedSource {
    pub(crate) fn around(inner: Arc<dyn ChainSource>, traces: Arc<Traces>) -> Arc<dyn ChainSource> {
        traces.know(inner.profile());
        Arc::new(Self { inner, traces })
    }
}

#[async_trait]
impl ChainSource for TracedSource {
    fn profile(&self) -> &ChainProfile {
        self.inner.profile()
    }

    async fn identify(&self) -> Result<ChainId, SourceError> {
        self.inner.identify().await
    }

    async fn tip(&self) -> Result<BlockRef, SourceError> {
        self.inner.tip().await
    }

    async fn header_at(&self, height: Height) -> Result<Option<BlockHeader>, SourceError> {
        self.inner.header_at(height).await
    }

    async fn headers(&self, from: Height, to: Height) -> Result<Vec<BlockHeader>, SourceError> {
        self.inner.headers(from, to).await
    }

    async fn finalized(&self, tag: FinalityTag) -> Result<Option<BlockRef>, SourceError> {
        self.inner.finalized(tag).await
    }

    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        let asked = Nanos::now();
        let transfers = self.inner.transfers(from, to, watch).await?;
        self.traces.read(&self.inner.profile().chain, &transfers, (asked, Nanos::now()));
        Ok(transfers)
    }

    fn parse_address(&self, text: &str) -> Result<Address, AddressError> {
        self.inner.parse_address(text)
    }

    async fn inspect(&self) -> Result<Vec<EndpointStatus>, SourceError> {
        self.inner.inspect().await
    }

    async fn transaction(&self, tx_id: &str, height: Option<Height>) -> Result<Option<ShownTransaction>, SourceError> {
        self.inner.transaction(tx_id, height).await
    }

    fn connection(&self) -> u64 {
        self.inner.connection()
    }
}
