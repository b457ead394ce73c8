//! Counts what is committed, on its way to the store.

use super::{Decision, Metrics};
use async_trait::async_trait;
use confirmd_core::{
    Archived, ChainId, ChainState, Change, ChangeSet, CommitReceipt, DepositKey, Epoch, Height, Rescan, SettledDeposit,
    StateStore, StoreError, StoreId, WatchEntry,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A store whose commits are counted.
#[derive(Debug)]
pub(crate) struct MeteredState {
    inner: Arc<dyn StateStore>,
    metrics: Arc<Metrics>,
    /// Where each trail ends.
    tips: Mutex<BTreeMap<ChainId, Height>>,
}

impl MeteredState {
    pub(crate) fn around(inner: Arc<dyn StateStore>, metrics: Arc<Metrics>) -> Arc<dyn StateStore> {
        Arc::new(Self { inner, metrics, tips: Mutex::default() })
    }

    fn tip(&self, chain: &ChainId) -> Option<Height> {
        self.tips.lock().unwrap_or_else(PoisonError::into_inner).get(chain).copied()
    }
}

/// How many heights a change set goes back from a tip, and the tip after it.
fn moved(tip: Option<Height>, changes: &[Change]) -> (u64, Option<Height>) {
    let (mut depth, mut tip) = (0, tip);
    for change in changes {
        match change {
            Change::TrailCut(to) => {
                depth = depth.max(tip.map_or(0, |tip| tip.0.saturating_sub(to.0)));
                tip = tip.map(|tip| tip.min(*to));
            }
            Change::Reanchored(to) => {
                depth = depth.max(tip.map_or(0, |tip| tip.0.saturating_sub(to.height.0)));
                tip = Some(to.height);
            }
            Change::TrailPushed(block) | Change::TrailJumped(block) => tip = Some(block.height),
            _ => {}
        }
    }
    (depth, tip)
}

#[async_trait]
impl StateStore for MeteredState {
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
        if let Some(tip) = state.as_ref().and_then(|state| state.trail.tip()) {
            self.tips.lock().unwrap_or_else(PoisonError::into_inner).insert(chain.clone(), tip.height);
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
        let (depth, tip) = moved(self.tip(&changes.chain), &changes.changes);
        let (chain, began) = (changes.chain.clone(), Instant::now());
        let events: Vec<Decision> =
            changes.events.iter().map(|(event, _)| (event.id.clone(), event.kind(), event.decided_at)).collect();
        let receipt = self.inner.commit(changes).await?;
        self.metrics.committed(&chain, events, began.elapsed(), depth);
        if let Some(tip) = tip {
            self.tips.lock().unwrap_or_else(PoisonError::into_inner).insert(chain, tip);
        }
        Ok(receipt)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use confirmd_core::{BlockHash, BlockRef};

    fn block(height: u64) -> BlockRef {
        BlockRef { height: Height(height), hash: BlockHash::new(format!("{height:064x}")).unwrap() }
    }

    #[test]
    fn the_depth_of_a_reorg_is_the_heights_it_goes_back() {
        let cut = [Change::TrailCut(Height(7)), Change::TrailPushed(block(8)), Change::TrailPushed(block(9))];
        assert_eq!(moved(Some(Height(10)), &cut), (3, Some(Height(9))));
        assert_eq!(moved(Some(Height(10)), &[Change::TrailPushed(block(11))]), (0, Some(Height(11))));
        assert_eq!(moved(Some(Height(10)), &[Change::Reanchored(block(4))]), (6, Some(Height(4))));
        assert_eq!(moved(None, &[Change::TrailPushed(block(1))]), (0, Some(Height(1))));
    }
}
