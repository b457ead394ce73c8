//! A case: what happens, step by step. Every step means something in every state, so a case stays one when steps are taken out.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// A schedule. Printed as JSON when it fails; every file in `cases/` is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Why it is kept; empty for a random one.
    #[serde(default)]
    pub(crate) about: String,
    /// At the end the operator reverts settled deposits of a too deep reorg, or leaves them.
    pub(crate) revert_settled: bool,
    /// In order.
    pub(crate) steps: Vec<Step>,
}

/// One payment to be mined, or mined again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Paid {
    /// Outputs of one transaction, all to one address.
    pub(crate) outputs: u8,
    /// Which address (of 4).
    pub(crate) to: u8,
    /// Which asset (of 3).
    pub(crate) asset: u8,
    /// The chain's own confirmations; 0 for none.
    pub(crate) maturity: u8,
}

/// What one call of the source does instead of answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SourceDoes {
    Answer,
    Throttle {
        after_ms: u16,
    },
    Orphaned,
    Fatal,
    /// No header, the first half of the headers, no finality, no or half of the payments.
    Empty,
    Half,
    /// The source stands so many blocks lower for this call.
    Flap {
        blocks: u8,
    },
    /// The answer takes so long.
    Slow {
        ms: u16,
    },
    /// Blocks are replaced before the call is answered.
    Fork {
        depth: u8,
    },
    /// The branch that was left last is the best chain again before the call is answered.
    Return,
    /// Another endpoint answers from here on.
    Reconnect,
    /// The endpoint serves another network from here on, or the right one again.
    Network,
}

/// What a consumer does with the next event it is handed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SinkDoes {
    Take,
    Fail {
        after_ms: u16,
    },
    Reject,
    /// It takes the event, and the answer is lost.
    TakeAndFail,
    /// Bad credentials, say.
    Fatal,
    Slow {
        ms: u16,
    },
}

/// Where a write of the store stops the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cut {
    /// Nothing was written; the store says that it does not know.
    BeforeAndSay,
    /// All of it was written; the store says that it does not know.
    AfterAndSay,
    /// Nothing was written; the process is gone.
    Before,
    /// All of it was written; the process is gone.
    After,
}

/// The configuration of one chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Confirmations per asset, each 1 to the reorg depth.
    pub(crate) confirmations: [u8; 3],
    /// Bit n: asset n is delisted.
    pub(crate) delisted: u8,
    /// The third asset's tag: none, safe, finalized.
    pub(crate) tag: u8,
    /// Bit n: address n (of the first 2) stands in the configuration.
    pub(crate) watch: u8,
    /// Each asset's minimum, of [`MINIMUMS`].
    #[serde(default)]
    pub(crate) minimum: [u8; 3],
}

/// None; what the third payment of a chain exactly is; what only payments that were executed anew reach.
pub(crate) const MINIMUMS: [Option<u64>; 3] = [None, Some(30), Some(1_000_000)];

impl Default for Setup {
    fn default() -> Self {
        Self { confirmations: [2, 4, 1], delisted: 0, tag: 0, watch: 3, minimum: [0; 3] }
    }
}

/// What happens next. Chains and consumers are named by number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// A block with new payments, and so many of the orphaned ones again, in `other` amounts.
    Mine { chain: u8, pays: Vec<Paid>, again: u8, other: bool },
    /// The last `depth` blocks are replaced by `length` others; of their transactions those with a bit in `kept` come
    /// again `later` blocks higher, in `other` amounts.
    Fork { chain: u8, depth: u8, length: u8, kept: u8, later: u8, other: bool },
    /// The branch that was left last is the best chain again, `longer` blocks longer.
    Return { chain: u8, longer: u8 },
    /// A height without a block.
    Skip { chain: u8 },
    /// The chain calls what lies so many blocks below its tip safe, or final.
    Mark { chain: u8, last: bool, below: u8 },
    /// The source admits its last blocks no more.
    Lag { chain: u8, blocks: u8 },
    /// The next calls of the source.
    Source { chain: u8, does: Vec<SourceDoes> },
    /// The next deliveries of a consumer (1: the failing one, 2: the late one).
    Sink { consumer: u8, does: Vec<SinkDoes> },
    /// So many seconds pass, that is as many polls.
    Wait { seconds: u8 },
    /// The process ends, in order or killed, and starts again.
    Restart { kill: bool },
    /// The process starts again with another configuration.
    Configure { chain: u8, setup: Setup },
    /// The store's `writes`-th write from here on stops the process.
    Crash { writes: u8, cut: Cut },
    /// A command adds or removes one of the other 2 addresses.
    Watch { chain: u8, address: u8, add: bool },
    /// A command resumes a halted chain, at the running instance or a stopped one.
    Resume { chain: u8, accept: bool, revert: bool, offline: bool },
    /// The operator looks after a consumer: goes on after a pause, requeues dead letters.
    Tend { consumer: u8 },
    /// The operator gives up a consumer's dead letters, or its first undelivered event whatever its state.
    GiveUp { consumer: u8, dead: bool },
    /// A consumer goes on under another name.
    Rename { consumer: u8 },
    /// A consumer leaves, with its records.
    Purge { consumer: u8 },
    /// A consumer is added: the late one, or one that left.
    Join { beginning: bool },
    /// The chain's endpoint serves another network, which shares the first blocks, or the right one again.
    Network { chain: u8, wrong: bool },
    /// The wall clock jumps.
    Clock { minutes: i16 },
    /// The state is lost; the chains are read from zero under a new epoch.
    Rebuild,
}

fn chain() -> impl Strategy<Value = u8> {
    prop_oneof![5 => Just(0u8), 1 => Just(1u8)]
}

fn paid() -> impl Strategy<Value = Paid> {
    let maturity = prop_oneof![6 => Just(0u8), 1 => 1..12u8];
    let outputs = prop_oneof![4 => Just(1u8), 1 => 2..4u8];
    (outputs, 0..4u8, 0..3u8, maturity).prop_map(|(outputs, to, asset, maturity)| Paid { outputs, to, asset, maturity })
}

fn source_does() -> impl Strategy<Value = SourceDoes> {
    prop_oneof![
        8 => Just(SourceDoes::Answer),
        2 => (0..4000u16).prop_map(|after_ms| SourceDoes::Throttle { after_ms }),
        2 => Just(SourceDoes::Orphaned),
        1 => Just(SourceDoes::Fatal),
        2 => Just(SourceDoes::Empty),
        2 => Just(SourceDoes::Half),
        2 => (1..12u8).prop_map(|blocks| SourceDoes::Flap { blocks }),
        1 => (0..4000u16).prop_map(|ms| SourceDoes::Slow { ms }),
        2 => (1..7u8).prop_map(|depth| SourceDoes::Fork { depth }),
        1 => Just(SourceDoes::Return),
        1 => Just(SourceDoes::Reconnect),
        1 => Just(SourceDoes::Network),
    ]
}

fn sink_does() -> impl Strategy<Value = SinkDoes> {
    prop_oneof![
        3 => Just(SinkDoes::Take),
        3 => (0..3000u16).prop_map(|after_ms| SinkDoes::Fail { after_ms }),
        2 => Just(SinkDoes::Reject),
        2 => Just(SinkDoes::TakeAndFail),
        1 => Just(SinkDoes::Fatal),
        2 => (1..4000u16).prop_map(|ms| SinkDoes::Slow { ms }),
    ]
}

fn cut() -> impl Strategy<Value = Cut> {
    prop_oneof![Just(Cut::BeforeAndSay), Just(Cut::AfterAndSay), Just(Cut::Before), Just(Cut::After)]
}

fn setup() -> impl Strategy<Value = Setup> {
    let delisted = prop_oneof![3 => Just(0u8), 1 => 0..8u8];
    let minimum = prop::array::uniform3(prop_oneof![3 => Just(0u8), 1 => 1..3u8]);
    (prop::array::uniform3(1..7u8), delisted, 0..3u8, 0..4u8, minimum).prop_map(|parts| {
        let (confirmations, delisted, tag, watch, minimum) = parts;
        Setup { confirmations, delisted, tag, watch, minimum }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let depth = prop_oneof![6 => 1..6u8, 2 => 6..12u8, 1 => 12..40u8];
    prop_oneof![
        12 => (chain(), prop::collection::vec(paid(), 0..4), 0..3u8, any::<bool>())
            .prop_map(|(chain, pays, again, other)| Step::Mine { chain, pays, again, other }),
        7 => (chain(), depth, 0..4u8, any::<u8>(), 0..3u8, any::<bool>(), any::<bool>()).prop_map(
            |(chain, depth, more, kept, later, other, shorter)| {
                let length = if shorter { depth.saturating_sub(more) } else { depth + more };
                Step::Fork { chain, depth, length, kept, later, other }
            }
        ),
        2 => (chain(), 0..3u8).prop_map(|(chain, longer)| Step::Return { chain, longer }),
        1 => chain().prop_map(|chain| Step::Skip { chain }),
        3 => (chain(), any::<bool>(), 0..8u8).prop_map(|(chain, last, below)| Step::Mark { chain, last, below }),
        1 => (chain(), 0..10u8).prop_map(|(chain, blocks)| Step::Lag { chain, blocks }),
        3 => (chain(), prop::collection::vec(source_does(), 1..16)).prop_map(|(chain, does)| Step::Source { chain, does }),
        3 => (1..3u8, prop::collection::vec(sink_does(), 1..8)).prop_map(|(consumer, does)| Step::Sink { consumer, does }),
        16 => (1..4u8).prop_map(|seconds| Step::Wait { seconds }),
        1 => any::<bool>().prop_map(|kill| Step::Restart { kill }),
        1 => (chain(), setup()).prop_map(|(chain, setup)| Step::Configure { chain, setup }),
        3 => (1..10u8, cut()).prop_map(|(writes, cut)| Step::Crash { writes, cut }),
        2 => (chain(), 0..2u8, any::<bool>()).prop_map(|(chain, address, add)| Step::Watch { chain, address, add }),
        6 => (chain(), prop::bool::weighted(0.7), any::<bool>(), any::<bool>())
            .prop_map(|(chain, accept, revert, offline)| Step::Resume { chain, accept, revert, offline }),
        1 => (1..3u8).prop_map(|consumer| Step::Tend { consumer }),
        1 => (1..3u8, any::<bool>()).prop_map(|(consumer, dead)| Step::GiveUp { consumer, dead }),
        1 => (0..3u8).prop_map(|consumer| Step::Rename { consumer }),
        1 => (1..3u8).prop_map(|consumer| Step::Purge { consumer }),
        2 => any::<bool>().prop_map(|beginning| Step::Join { beginning }),
        2 => (chain(), prop::bool::weighted(0.4)).prop_map(|(chain, wrong)| Step::Network { chain, wrong }),
        1 => (-1500..1500i16).prop_map(|minutes| Step::Clock { minutes }),
    ]
}

/// Random cases; one in eight loses its state on the way, one in three begins with another configuration (a finality tag keeps the
/// floor down until the chain says something, so most begin without).
pub(crate) fn case(steps_max: usize) -> impl Strategy<Value = Case> {
    let rebuild = prop_oneof![7 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    let first = prop_oneof![2 => Just(None), 1 => setup().prop_map(Some)];
    let parts = (any::<bool>(), first, prop::collection::vec(step(), 1..steps_max), rebuild);
    parts.prop_map(|(revert_settled, first, mut steps, rebuild)| {
        if let Some(setup) = first {
            steps.insert(0, Step::Configure { chain: 0, setup });
        }
        if let Some(at) = rebuild {
            steps.insert(at.index(steps.len()), Step::Rebuild);
        }
        Case { about: String::new(), revert_settled, steps }
    })
}
