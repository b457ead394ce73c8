//! The store as its users see it, each rule by its id.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod cost;
mod crash;
mod damage;
mod history;
mod hostile;
mod opening;
mod outbox;
mod state;
pub(crate) mod support;
