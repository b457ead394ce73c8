//! Counts what is committed.

use super::super::observed::{CommitObserver, Taken};
use super::{Decision, Metrics};
use confirmd_core::{ChainId, ChainState, Change, ChangeSet, Epoch, Height};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Counts each commit.
#[derive(Debug)]
pub(crate) struct CountedCommits {
    metrics: Arc<Metrics>,
    tips: Arc<Tips>,
}

/// Where each trail ends.
#[derive(Debug, Default)]
struct Tips(Mutex<BTreeMap<ChainId, Height>>);

impl Tips {
    fn of(&self, chain: &ChainId) -> Option<Height> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(chain).copied()
    }

    fn set(&self, chain: ChainId, tip: Height) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(chain, tip);
    }
}

impl CountedCommits {
    pub(crate) fn observer(metrics: Arc<Metrics>) -> Arc<dyn CommitObserver> {
        Arc::new(Self { metrics, tips: Arc::default() })
    }
}

impl CommitObserver for CountedCommits {
    fn loaded(&self, chain: &ChainId, state: &ChainState) {
        if let Some(tip) = state.trail.tip() {
            self.tips.set(chain.clone(), tip.height);
        }
    }

    fn begins(&self, changes: &ChangeSet, _epoch: Epoch) -> Taken {
        let (depth, tip) = moved(self.tips.of(&changes.chain), &changes.changes);
        let events: Vec<Decision> =
            changes.events.iter().map(|(event, _)| (event.id.clone(), event.kind(), event.decided_at)).collect();
        let (metrics, tips, chain) = (self.metrics.clone(), self.tips.clone(), changes.chain.clone());
        let began = Instant::now();
        Box::new(move || {
            metrics.committed(&chain, events, began.elapsed(), depth);
            if let Some(tip) = tip {
                tips.set(chain, tip);
            }
        })
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
