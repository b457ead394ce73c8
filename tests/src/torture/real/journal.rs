//! What the actors of a round did, with times: to be read when it fails.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Lines with the milliseconds since the round began. Clones write to the same one.
#[derive(Debug, Clone)]
pub(super) struct Journal {
    begun: Instant,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Journal {
    /// Empty; the time begins now.
    pub(super) fn begin() -> Self {
        Self { begun: Instant::now(), lines: Arc::default() }
    }

    /// Adds a line.
    pub(super) fn note(&self, who: &str, what: &str) {
        let line = format!("{:>6} ms  {who:<9} {what}", self.begun.elapsed().as_millis());
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    /// Everything so far.
    pub(super) fn text(&self) -> String {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).join("\n") + "\n"
    }
}
