//! confirmd's embedded state: [`SledStore`] is `StateStore`, `Outbox` and `History` over one sled database.
//!
//! One directory per instance, one owner at a time, one tree, one atomic batch per commit. sled's own `flush` is not
//! durable on Linux, so every group of commits ends with `sync_data` on the database file before anybody is answered.
//! Everything that changes runs on one writer thread (`writer`); that thread also answers everything that reads the
//! delivery queues, so nothing past the last synced commit is ever handed out.
//!
//! What lies in the directory: `db`, `conf`, `blobs` and `snap.*` are sled's; `lock` holds the owner's process id; `commits`
//! remembers how many commits were synced, so that a tail which the database silently dropped is noticed at the next start
//! (what it dropped elsewhere is noticed by `census`); `watched.*` are the lists of watched addresses (`watch`);
//! `making` stands there only while a new store is being made.
#![warn(missing_docs)]

mod census;
mod consumers;
mod counter;
mod damage;
mod deposit_index;
mod deposits;
mod disk;
mod events;
mod handout;
mod heads;
mod history;
mod images;
mod import;
mod keys;
mod listing;
mod lives;
mod lock;
mod outbox;
mod plan;
mod prune;
mod reader;
mod record;
mod rows;
mod smalls;
mod snapshot;
mod state;
mod steps;
mod store;
mod watch;
mod writer;

pub use steps::{Step, Steps, Threads};
pub use store::{OpenOptions, SledStore};

#[cfg(test)]
mod tests;
