//! Several instances on one state: whose turn it is to read the node, and catching up with what others committed. Nothing here
//! decides; a change set made from a state that has moved on is refused by the store, and made anew.

use super::{Phase, WatchError, Watcher};
use crate::DueIndex;
use confirmd_core::{ChainId, Sharing, StoreError, Turn};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A turn is held for some polls, at least and at most so long: then whoever has it counts as gone.
const HOLD_POLLS: u32 = 2;
const HOLD_MIN: Duration = Duration::from_secs(3);
const HOLD_MAX: Duration = Duration::from_secs(60);
/// Others than the one whose turn ends don't all ask at the same moment.
const JITTER_MAX: Duration = Duration::from_millis(500);

/// Whoever reads may see less than we do: we look at our own node when the state has stood still for so many holds, and this
/// often in any case, so that an instance whose node is ill says so.
const LOOK_STILL_HOLDS: u32 = 3;
const LOOK_HOLDS: u32 = 10;

/// What an instance does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Reads the node and decides.
    Ours,
    /// Looks at its node once, then leaves others to it for so long.
    Look(Duration),
    /// Leaves others to it for so long.
    Theirs(Duration),
}

/// What is shared, and how we stand to the others.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) sharing: Arc<dyn Sharing>,
    ours: bool,
    /// Somebody may have committed.
    stale: bool,
    /// Our node does not serve: others go first until then.
    yield_until: Option<Instant>,
    /// When we looked last, and when the state moved last.
    looked: Option<Instant>,
    look_again: bool,
    moved: Option<Instant>,
    /// Since when our node contradicts what the others follow.
    pub(super) contradicted: Option<Instant>,
}

impl Watcher {
    /// Other instances decide on the same state: takes turns with them and follows what they commit.
    #[must_use]
    pub fn sharing(mut self, sharing: Arc<dyn Sharing>) -> Self {
        self.shared = Some(Shared {
            sharing,
            ours: false,
            stale: true,
            yield_until: None,
            looked: None,
            look_again: false,
            moved: None,
            contradicted: None,
        });
        self
    }

    fn hold(&self) -> Duration {
        let hold = self.deps.source.profile().poll_interval.saturating_mul(HOLD_POLLS);
        hold.saturating_add(Duration::from_secs(1)).clamp(HOLD_MIN, HOLD_MAX)
    }

    /// Before a tick.
    pub(super) async fn wait_for_turn(&mut self) -> Result<Standing, WatchError> {
        let hold = self.hold();
        let chain = self.rules.chain.clone();
        let Some(shared) = &mut self.shared else { return Ok(Standing::Ours) };
        if let Some(until) = shared.yield_until.filter(|until| Instant::now() < *until) {
            let left = until.duration_since(Instant::now());
            self.follow().await?;
            return Ok(Standing::Theirs(left));
        }
        shared.yield_until = None;
        let turn = shared.sharing.turn(&chain, hold).await?;
        let before = std::mem::replace(&mut shared.ours, turn == Turn::Ours);
        if turn == Turn::Ours && !before {
            // What the others committed last may not have been heard of.
            shared.stale = true;
            tracing::info!(chain = %self.rules.chain_name, "this instance reads the chain's node");
        }
        self.follow().await?;
        let Turn::Theirs { left } = turn else { return Ok(Standing::Ours) };
        if before {
            tracing::info!(chain = %self.rules.chain_name, "another instance reads the chain's node");
        }
        self.stand_by();
        let jitter = u64::try_from(JITTER_MAX.as_millis()).unwrap_or_default();
        let left = left.saturating_add(Duration::from_millis(fastrand::u64(0..=jitter)));
        let look = !self.state.trail.is_empty() && self.shared.as_mut().is_some_and(|shared| shared.looks(hold));
        Ok(if look { Standing::Look(left) } else { Standing::Theirs(left) })
    }

    /// After a tick. Whoever sees nothing lets somebody else try.
    pub(super) async fn keep_or_pass_turn(&mut self) -> Result<(), WatchError> {
        let phase = self.status.borrow().phase.clone();
        let blind = matches!(phase, Phase::Behind { .. } | Phase::WaitingForFork { .. } | Phase::Unreachable { .. });
        let hold = self.hold();
        let chain = self.rules.chain.clone();
        if let Some(shared) = self.shared.as_mut().filter(|shared| blind && shared.ours) {
            shared.ours = false;
            shared.yield_until = Some(Instant::now() + hold);
            shared.sharing.pass(&chain).await?;
        }
        Ok(())
    }

    /// Returns when others may have committed; never, if there are none.
    pub(super) async fn others(shared: Option<(Arc<dyn Sharing>, ChainId)>) {
        match shared {
            Some((sharing, chain)) => sharing.changed(&chain).await,
            None => std::future::pending().await,
        }
    }

    /// What `others` needs, apart from the watcher.
    pub(super) fn heard_by(&self) -> Option<(Arc<dyn Sharing>, ChainId)> {
        self.shared.as_ref().map(|shared| (Arc::clone(&shared.sharing), self.rules.chain.clone()))
    }

    /// There is more to see than one look showed.
    pub(super) fn look_again(&mut self, more: bool) {
        if let Some(shared) = &mut self.shared {
            shared.look_again = more;
        }
    }

    /// Others may have committed.
    pub(super) fn is_stale(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.stale = true;
        }
    }

    /// Catches up if others may have committed.
    pub(super) async fn follow(&mut self) -> Result<(), WatchError> {
        if self.shared.as_ref().is_some_and(|shared| shared.stale) {
            self.catch_up().await?;
        }
        Ok(())
    }

    /// Takes over what others committed: by their change sets, or by loading. Whatever was being decided is to be decided anew.
    pub(super) async fn catch_up(&mut self) -> Result<(), WatchError> {
        if let Some(shared) = &mut self.shared {
            shared.stale = false;
            let sets = shared.sharing.changes_since(&self.rules.chain, self.state.version).await?;
            if let Some(sets) = sets {
                let moved = !sets.is_empty();
                sets.iter().for_each(|set| self.apply(set));
                self.moved_on(moved);
                return Ok(());
            }
        }
        self.state = self.deps.store.load(&self.rules.chain).await?.unwrap_or_default();
        self.due = DueIndex::of(&self.state);
        self.rescans.reset(&self.state);
        self.refold = true;
        self.moved_on(true);
        Ok(())
    }

    fn moved_on(&mut self, moved: bool) {
        if !moved {
            return;
        }
        if let Some(shared) = &mut self.shared {
            shared.moved = Some(Instant::now());
        }
        let halt = self.state.halt.clone();
        self.publish(|status| match (halt, &status.phase) {
            (Some(halt), _) => status.phase = Phase::Halted { halt },
            (None, Phase::Halted { .. }) => status.phase = Phase::Starting,
            _ => {}
        });
    }

    /// What is known while another instance reads the node: that the state moves.
    fn stand_by(&self) {
        let idle = matches!(self.status.borrow().phase, Phase::Starting | Phase::Behind { .. });
        if idle && self.state.halt.is_none() && !self.state.trail.is_empty() {
            self.publish(|status| status.phase = Phase::Following);
        }
    }
}

impl Shared {
    /// Whether it is time for a look; then the time begins anew.
    fn looks(&mut self, hold: Duration) -> bool {
        let now = Instant::now();
        let looked = *self.looked.get_or_insert(now);
        let moved = *self.moved.get_or_insert(now);
        let again = std::mem::take(&mut self.look_again);
        let due = again || now >= looked.max(moved) + hold * LOOK_STILL_HOLDS || now >= looked + hold * LOOK_HOLDS;
        if due {
            self.looked = Some(now);
        }
        due
    }
}

/// Whether the state was decided on by somebody else meanwhile.
pub(super) fn is_conflict(error: &WatchError) -> bool {
    matches!(error, WatchError::Store(StoreError::Conflict { .. }))
}
