//! Rescans: past blocks are read for addresses and assets that were added later, beside the live watch and through the same commit.
//!
//! The watcher stays the chain's only writer. A step's *reads* run as a task of their own, one at a time, within a share of the time;
//! what they found is decided on between ticks, against the state of that moment, and only if the trail still holds the tip they were
//! read under. See `docs/adr/0015-history-jobs.md`.

mod ask;
mod memory;
mod read;
mod status;
mod step;

pub(super) use ask::{Asking, order, start};
pub use ask::{NewRescan, RescanOrder};
pub(super) use memory::Rescans;
pub use status::RescanStatus;
#[cfg(test)]
pub(super) use step::StepEnd;
