//! What a trial asks of the network and the node, beside paying and mining.

use crate::Remine;
use crate::conform::Broken;
use confirmd_core::Height;
use std::time::Duration;

use super::Ability;

/// How a block's bytes, or what stands for them, are not the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoil {
    /// The end is missing: bytes, transactions or receipts.
    Cut,
    /// There is more behind the end.
    Padded,
    /// It is another block's.
    Another,
}

/// One act. Those of the node and its answers last until [`repair`](super::SourceHarness::repair).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Replaces the last `depth` blocks by `depth + 1` new ones.
    Fork {
        /// Blocks that are replaced; at least 1.
        depth: u32,
        /// What becomes of their transactions. `Keep`, `Drop`, `Later(1)` and `AnotherPosition` are asked for.
        remine: Remine,
    },
    /// The next height has no block.
    SkipSlot,
    /// Everything this network knows that looks like a payment to the address and is none (S10): failed transactions, zero
    /// amounts, unlisted tokens, payments to itself … The next block mined has them.
    PayDecoys {
        /// An address of the harness.
        to: String,
    },
    /// A payment that the chain itself locks (a coinbase output, say). The next block mined has it, whatever the amount.
    PayLocked {
        /// An address of the harness.
        to: String,
    },
    /// The chain calls this block, which is on the best chain, final by every tag.
    Finalize(Height),
    /// The node does not know what is final (or safe), as before the chain's first final block.
    ForgetFinality,
    /// The node answers as if the last so many blocks had not reached it.
    Lag(u32),
    /// The node lost this block of its best chain.
    Lose(Height),
    /// The node is pruned: blocks below this height are gone.
    Prune(Height),
    /// The node says that it is still syncing.
    Sync,
    /// A node of another network answers at the same endpoint.
    ChangeNetwork,
    /// The connections are closed; the next are to a node that could be another one.
    Reconnect,
    /// Every request is throttled, with the wish to be asked again after this.
    Throttle {
        /// Whole seconds.
        wish: Duration,
    },
    /// The next so many requests are never answered.
    Hang {
        /// At least 1.
        requests: u32,
    },
    /// The node says that it is starting.
    WarmUp,
    /// Every request is refused for its credentials.
    RefuseCredentials,
    /// The next so many answers of each method that tells of headers or blocks can't be decoded.
    Garble {
        /// 1, or more than any source asks.
        answers: u32,
    },
    /// The next so many answers of what tells of payments are empty: a list without items, or null.
    Empty {
        /// At least 1.
        answers: u32,
    },
    /// What the node gives for the block at this height is not the block.
    Spoil {
        /// How.
        how: Spoil,
        /// On the best chain; it has a payment. Nothing else is read meanwhile.
        height: Height,
    },
    /// Answers of one request come in another order, where the protocol allows it.
    Reorder,
    /// Every request fails, and the server's text repeats the secret that it was sent.
    RepeatSecret,
}

impl Act {
    /// What a harness needs to be able to do.
    pub fn ability(&self) -> Ability {
        match self {
            Self::Fork { .. } => Ability::Fork,
            Self::SkipSlot => Ability::SkipSlot,
            Self::PayDecoys { .. } => Ability::Decoys,
            Self::PayLocked { .. } => Ability::Locked,
            Self::Finalize(_) | Self::ForgetFinality => Ability::Finality,
            Self::Lag(_) => Ability::Lag,
            Self::Lose(_) => Ability::Lose,
            Self::Prune(_) => Ability::Prune,
            Self::Sync => Ability::Sync,
            Self::ChangeNetwork => Ability::ChangeNetwork,
            Self::Reconnect => Ability::Reconnect,
            Self::Throttle { .. } => Ability::Throttle,
            Self::Hang { .. } => Ability::Hang,
            Self::WarmUp => Ability::WarmUp,
            Self::RefuseCredentials => Ability::RefuseCredentials,
            Self::Garble { .. } => Ability::Garble,
            Self::Empty { .. } => Ability::Empty,
            Self::Spoil { .. } => Ability::Spoil,
            Self::Reorder => Ability::Reorder,
            Self::RepeatSecret => Ability::RepeatSecret,
        }
    }

    /// What a harness answers to an act that its lab says it can't do.
    ///
    /// # Errors
    /// Always.
    pub fn impossible(&self) -> Result<(), Broken> {
        Err(Broken::new(format!("the harness can't do this: {self:?}; its lab must say so in cannot()")))
    }
}
