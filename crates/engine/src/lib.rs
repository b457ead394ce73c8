//! confirmd's behaviour, free of adapters, databases and HTTP: it sees [`confirmd_core::ChainSource`],
//! [`confirmd_core::StateStore`], [`confirmd_core::Outbox`] and [`confirmd_core::Sink`] only.
//!
//! One [`Watcher`] per chain reads, decides through the pure [`fold()`] and commits; one [`Pump`] per consumer delivers what
//! was committed. They share nothing but the store and a wake-up.
#![warn(missing_docs)]

mod contract;
mod due;
mod fold;
mod pump;
mod schedule;
mod shutdown;
mod walker;
mod watcher;

pub use contract::{Breach, check_answer};
pub use due::DueIndex;
pub use fold::{Observation, Rules, SeenBlock, fold};
pub use pump::{Pump, PumpDeps};
pub use schedule::RetrySchedule;
pub use walker::{ReorgWalker, Walk};
pub use watcher::{
    Added, ChainStatus, ConfigWatch, LastReorg, NewRescan, NewWatch, Phase, RescanOrder, RescanStatus, Resume, ResumeReport,
    SettledAbove, TakenOver, WatchError, Watcher, WatcherDeps, WatcherHandle, offline, take_over,
};
