//! What a harness may be able to do.

use std::fmt;

/// One thing that some trials need and not every network or level can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ability {
    /// One transaction pays several times, also to one address.
    SeveralOutputs,
    /// [`Act::Fork`](super::Act::Fork).
    Fork,
    /// [`Act::SkipSlot`](super::Act::SkipSlot).
    SkipSlot,
    /// [`Act::PayDecoys`](super::Act::PayDecoys).
    Decoys,
    /// [`Act::PayLocked`](super::Act::PayLocked).
    Locked,
    /// [`Act::Finalize`](super::Act::Finalize) and [`Act::ForgetFinality`](super::Act::ForgetFinality).
    Finality,
    /// [`Act::Lag`](super::Act::Lag).
    Lag,
    /// [`Act::Lose`](super::Act::Lose).
    Lose,
    /// A block that the node lost shows in a range far below the tip, too. A source that reads such ranges by an index, of
    /// which only the end is proven, can't do that.
    ProvenRanges,
    /// [`Act::Prune`](super::Act::Prune).
    Prune,
    /// [`Act::Sync`](super::Act::Sync).
    Sync,
    /// [`Act::ChangeNetwork`](super::Act::ChangeNetwork).
    ChangeNetwork,
    /// [`Act::Reconnect`](super::Act::Reconnect).
    Reconnect,
    /// [`Act::Throttle`](super::Act::Throttle).
    Throttle,
    /// [`Act::Hang`](super::Act::Hang).
    Hang,
    /// [`Act::WarmUp`](super::Act::WarmUp).
    WarmUp,
    /// [`Act::RefuseCredentials`](super::Act::RefuseCredentials).
    RefuseCredentials,
    /// [`Act::Garble`](super::Act::Garble).
    Garble,
    /// [`Act::Empty`](super::Act::Empty).
    Empty,
    /// [`Act::Spoil`](super::Act::Spoil).
    Spoil,
    /// [`Act::Reorder`](super::Act::Reorder).
    Reorder,
    /// [`Act::RepeatSecret`](super::Act::RepeatSecret).
    RepeatSecret,
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SeveralOutputs => "several payments in one transaction",
            Self::Fork => "forks",
            Self::SkipSlot => "slots without a block",
            Self::Decoys => "what only looks like a deposit",
            Self::Locked => "payments that the chain locks",
            Self::Finality => "the chain's own finality",
            Self::Lag => "a lagging node",
            Self::Lose => "a lost block",
            Self::ProvenRanges => "ranges far below the tip of which every block is proven",
            Self::Prune => "a pruned node",
            Self::Sync => "a syncing node",
            Self::ChangeNetwork => "another network at the same endpoint",
            Self::Reconnect => "lost connections",
            Self::Throttle => "throttling",
            Self::Hang => "silence",
            Self::WarmUp => "a node warming up",
            Self::RefuseCredentials => "refused credentials",
            Self::Garble => "answers that can't be decoded",
            Self::Empty => "empty answers",
            Self::Spoil => "spoilt blocks",
            Self::Reorder => "answers in another order",
            Self::RepeatSecret => "a server that repeats the secret",
        })
    }
}
