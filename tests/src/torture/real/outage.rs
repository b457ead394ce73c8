//! How a node goes away and comes back.

use super::dice::Dice;

/// One way to be away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    /// The way to it is cut: connections end at once, the node itself goes on.
    Cut,
    /// SIGSTOP, later SIGCONT: it takes connections and never answers.
    Silent,
    /// The process ends and is started again on its files.
    Restart,
}

impl Outage {
    /// Restarts cost most and are rarest.
    pub(super) fn any(dice: &mut Dice) -> Self {
        *dice.pick(&[Self::Cut, Self::Cut, Self::Silent, Self::Silent, Self::Restart])
    }
}
