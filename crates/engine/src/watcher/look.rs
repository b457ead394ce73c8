//! An instance whose turn it is not looks at its own node now and then: whoever reads may see less, or something else.

use super::read::{ReadError, Reading};
use super::run::Next;
use super::{Phase, WatchError, Watcher};
use confirmd_core::with_causes;
use tokio::time::Instant;

impl Watcher {
    /// What our node says while another instance reads. What extends the trail is decided: the other one may see nothing new. What
    /// contradicts it is left to whoever reads, unless it stays so for as long as a fork is waited for; and what would halt the chain
    /// is said of this instance alone. Returns whether there is more to read at once.
    pub(super) async fn look(&mut self, read: Result<Reading, ReadError>, connection: u64) -> Result<bool, WatchError> {
        let grace = self.deps.source.profile().fork_grace;
        let (tip, ancestor) = match &read {
            Ok(Reading::Seen { tip, reorg: Some((ancestor, _)), .. } | Reading::ShorterFork { tip, ancestor }) => {
                (tip.clone(), ancestor.clone())
            }
            Ok(Reading::Halt(reason)) => return Ok(self.left_to_others(reason.to_string())),
            Err(ReadError::Source(error)) => return Ok(self.left_to_others(with_causes(error))),
            _ => {
                self.contradicted(false);
                return self.decided_beside(read, connection).await;
            }
        };
        let longer = matches!(&read, Ok(Reading::Seen { .. }));
        if self.contradicted(longer).is_some_and(|since| longer && since.elapsed() >= grace) {
            return self.decided_beside(read, connection).await;
        }
        let since = self.deps.clock.now();
        self.publish_phase(tip, Phase::WaitingForFork { ancestor, since });
        Ok(false)
    }

    /// As a tick of ours; the next look follows at once while there is more.
    async fn decided_beside(&mut self, read: Result<Reading, ReadError>, connection: u64) -> Result<bool, WatchError> {
        let more = matches!(self.take_or_discard(read, connection).await?, Next::AtOnce);
        self.look_again(more);
        Ok(more)
    }

    /// Since when a longer chain of our node has contradicted what is followed, if it does.
    fn contradicted(&mut self, does: bool) -> Option<Instant> {
        let shared = self.shared.as_mut()?;
        shared.contradicted = does.then(|| shared.contradicted.unwrap_or_else(Instant::now));
        shared.contradicted
    }

    fn left_to_others(&mut self, error: String) -> bool {
        self.unreachable(error, "this instance's node is of no use; another instance reads");
        false
    }
}
