//! The store suite: the rules T1 to T17 of `docs/contracts/store.md`.
//!
//! A store's author implements [`StoreHarness`] (what can be done to a store in a test) and [`StoreRig`] (one place for a store),
//! and gives the harness to [`store_trials`].

mod commits;
mod deliveries;
mod dump;
mod everything;
mod failures;
mod opening;
mod order;
mod power_cut;
mod reading;
mod retention;
mod rules;
mod support;
mod world;

pub use dump::{DumpHarness, DumpPlace, Dumpable, dump_trials, dumped, made_of};
pub use everything::{Everything, Sampled};
pub use power_cut::{OpenStore, commit_if_recorded, power_cut_trials};
pub use rules::{store_rules, store_trials};

use super::Broken;
use async_trait::async_trait;
use confirmd_core::{History, Outbox, StateStore, StoreError};
use std::sync::Arc;

/// The three traits of one store.
pub trait Store: StateStore + Outbox + History {}

impl<T: StateStore + Outbox + History + ?Sized> Store for T {}

/// What a test may be able to do to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreTest {
    /// Open what a process that was killed this moment would leave.
    Crash,
    /// Open what a machine whose power was cut this moment would leave: what was not synced is gone.
    PowerCut,
    /// Let the next commit fail in the middle of its write.
    FailCommit,
    /// Damage a closed store.
    Damage,
}

/// One way to damage a closed store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// What is done: `the file db is missing`.
    pub what: String,
    /// Whether opening must be refused; otherwise the damage may also be harmless.
    pub must_be_refused: bool,
}

/// What can be done to a kind of store in a test; makes one rig per trial.
#[async_trait]
pub trait StoreHarness: Send + Sync {
    /// A place for a store, with nothing in it.
    async fn start(&self) -> Result<Box<dyn StoreRig>, Broken>;

    /// Why this can't be done, if it can't: the trials that need it are then ignored for that reason.
    fn unable(&self, test: StoreTest) -> Option<String>;

    /// How many random histories each property is tried with.
    fn cases(&self) -> u32;
}

/// A place for one store. The handles it gives out are dropped to close them.
#[async_trait]
pub trait StoreRig: Send {
    /// Opens the store at this place. With `init` a new one is made where there is none. Asked again while a handle is open, it
    /// is a second owner's attempt.
    async fn open(&mut self, init: bool) -> Result<Arc<dyn Store>, StoreError>;

    /// From here on this place holds what a process killed this moment would leave. Open handles stay with what was before.
    async fn crash(&mut self) -> Result<(), Broken>;

    /// From here on this place holds what a power cut at this moment would leave. Open handles stay with what was before.
    async fn power_cut(&mut self) -> Result<(), Broken>;

    /// The next commit fails in the middle of its write; whether its content is there after the store was opened again is open.
    async fn fail_next_commit(&mut self) -> Result<(), Broken>;

    /// The ways to damage this store.
    fn damages(&self) -> Vec<Damage>;

    /// Damages the closed store in the way of this number.
    async fn damage(&mut self, number: usize) -> Result<(), Broken>;
}
