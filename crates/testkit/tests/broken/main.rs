//! The kit catches real mistakes: what breaks one rule of a contract fails the suite with that rule's id, and what keeps
//! them all passes it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod catching;
mod sinks;
mod sources;
mod stores;
