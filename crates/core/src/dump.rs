//! A dump: everything a store holds as it was at one moment, as lines of text that any kind of store can take.
//!
//! One JSON object a line: a head, records in one fixed order, an end with their numbers and a checksum. What a store can derive (indexes,
//! sums) is not in it, nor is what only one kind of store knows (who reads a node right now). Two stores that hold the same give the same
//! lines behind the head.

mod hex;
mod lines;
mod order;
mod reader;
mod record;

pub use lines::{DUMP_FORMAT, DumpHead, DumpSummary, DumpWriter};
pub use reader::{DumpError, DumpReader};
pub use record::{
    DumpRecord, DumpedArchive, DumpedAttempt, DumpedChain, DumpedConsumer, DumpedEvent, DumpedHeld, DumpedOpen, DumpedSkip,
    DumpedStep, DumpedStore,
};

use crate::StoreError;
use async_trait::async_trait;
use std::sync::Arc;

/// A store that can be written out whole while it goes on.
#[async_trait]
pub trait Snapshots: std::fmt::Debug + Send + Sync {
    /// What kind of store it is, as `state.backend` names it.
    fn backend(&self) -> &'static str;

    /// Everything that was durable at one moment between call and answer; what is committed afterwards is not in it. `Invalid` if the
    /// store can't give another one now.
    async fn snapshot(self: Arc<Self>) -> Result<Box<dyn StoreSnapshot>, StoreError>;
}

/// A store as it was at one moment.
#[async_trait]
pub trait StoreSnapshot: std::fmt::Debug + Send {
    /// The next records, in the order of a dump, in bounded memory; none at the end. After an error, or a dropped future, the
    /// snapshot is of no more use.
    async fn next(&mut self) -> Result<Vec<DumpRecord>, StoreError>;

    /// Whether others than the asker were seen at work on the store at that moment.
    fn is_shared(&self) -> bool;
}

/// A store that is being made from a dump. Nobody sees anything of it before `finish` returns; dropped before, it leaves no store.
#[async_trait]
pub trait StoreImport: std::fmt::Debug + Send {
    /// Takes the next records, in the order of a dump. After an error only dropping is left.
    async fn put(&mut self, records: Vec<DumpRecord>) -> Result<(), StoreError>;

    /// Makes the store out of what was put, in one durable step. `Unknown`: it may be there.
    async fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests;
