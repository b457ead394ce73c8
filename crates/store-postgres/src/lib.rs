//! Watcher state, outbox and history in PostgreSQL, for any number of instances with the same configuration.
//!
//! Nobody leads. Every change set is committed under a check of its chain's version, in one transaction with its events, whose
//! places come from a counter in the same transaction. Deliveries are claimed for a time, under a token; what is reported after
//! somebody else took over is passed over. [`PgStore`] is all three contracts, and [`confirmd_core::Sharing`].
#![warn(missing_docs)]

mod chain;
mod claim;
mod commit;
mod consumers;
mod deposits;
mod error;
mod held;
mod history;
mod import;
mod listen;
mod listing;
mod lives;
mod outbox;
mod outcome;
mod prune;
mod session;
mod sharing;
mod smalls;
mod snapshot;
mod state;
mod store;
mod tails;
mod work;

pub use store::{PgOptions, PgStore};
