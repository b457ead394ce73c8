//! The store as the engine sees it: each commit is shown to those who count or record commits.

use async_trait::async_trait;
use confirmd_core::{
    Archived, ChainId, ChainState, ChangeSet, CommitReceipt, DepositKey, Epoch, Height, Rescan, SettledDeposit, StateStore,
    StoreError, StoreId, WatchEntry,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// What an observer does once a commit was taken; dropped if it was not.
pub(super) type Taken = Box<dyn FnOnce() + Send>;

/// Looks on at commits. It can neither change nor delay them beyond its own work.
pub(super) trait CommitObserver: Debug + Send + Sync {
    /// A chain's state was read.
    fn loaded(&self, chain: &ChainId, state: &ChainState);
    /// A commit begins in a store of this epoch.
    fn begins(&self, changes: &ChangeSet, epoch: Epoch) -> Taken;
}

/// A store whose commits are looked on at.
#[derive(Debug)]
pub(super) struct ObservedState {
    inner: Arc<dyn StateStore>,
    observers: Vec<Arc<dyn CommitObserver>>,
}

impl ObservedState {
    /// Each observer stands within those before it: its time does not hold theirs.
    pub(super) fn around(inner: Arc<dyn StateStore>, observers: Vec<Arc<dyn CommitObserver>>) -> Arc<dyn StateStore> {
        Arc::new(Self { inner, observers })
    }
}

#[async_trait]
impl StateStore for ObservedState {
    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }

    fn identity(&self) -> StoreId {
        self.inner.identity()
    }

    async fn chains(&self) -> Result<Vec<ChainId>, StoreError> {
        self.inner.chains().await
    }

    async fn load(&self, chain: &ChainId) -> Result<Option<ChainState>, StoreError> {
        let state = self.inner.load(chain).await?;
        if let Some(state) = &state {
            self.observers.iter().for_each(|observer| observer.loaded(chain, state));
        }
        Ok(state)
    }

    async fn settled_among(&self, chain: &ChainId, keys: &[DepositKey]) -> Result<BTreeMap<DepositKey, Archived>, StoreError> {
        self.inner.settled_among(chain, keys).await
    }

    async fn settled_above(&self, chain: &ChainId, height: Height) -> Result<Vec<SettledDeposit>, StoreError> {
        self.inner.settled_above(chain, height).await
    }

    async fn watched(&self, chain: &ChainId, after: Option<&[u8]>, limit: usize) -> Result<Vec<WatchEntry>, StoreError> {
        self.inner.watched(chain, after, limit).await
    }

    async fn rescans(&self, chain: &ChainId) -> Result<Vec<Rescan>, StoreError> {
        self.inner.rescans(chain).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<CommitReceipt, StoreError> {
        let epoch = self.inner.epoch();
        let begun: Vec<Taken> = self.observers.iter().map(|observer| observer.begins(&changes, epoch)).collect();
        let receipt = self.inner.commit(changes).await?;
        begun.into_iter().rev().for_each(|taken| taken());
        Ok(receipt)
    }
}
