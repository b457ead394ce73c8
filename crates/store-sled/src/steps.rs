//! What a simulation needs of a store: whose threads work, and to be told how far a commit has come.

use std::fmt;
use std::sync::Arc;

/// Whose threads do the work that waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threads {
    /// Its own: nobody's runtime is ever blocked.
    #[default]
    Own,
    /// The caller's: the writer is a task of the caller's runtime, reads are made in place. Everything then happens in one
    /// order, which a simulation needs; a service must not, since its runtime would wait for the disk.
    Callers,
}

/// How far a commit has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Watched addresses that the commit changes are on the disk; the database does not know of them.
    Listed,
    /// The database has the batch; nothing is on its way to the disk yet.
    Applied,
    /// The database has handed everything to the system.
    Flushed,
    /// It is on the disk.
    Synced,
    /// The counter beside the database has it, too; nobody has been answered.
    Counted,
}

/// Is told of every step, on the thread that makes it.
#[derive(Clone, Default)]
pub struct Steps(Option<Arc<dyn Fn(Step) + Send + Sync>>);

impl Steps {
    /// Tells `listener`.
    pub fn to(listener: impl Fn(Step) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    pub(crate) fn reached(&self, step: Step) {
        if let Some(listener) = &self.0 {
            listener(step);
        }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Steps").field(&self.0.is_some()).finish()
    }
}
