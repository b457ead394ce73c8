//! What is wrong with the node, and how it shows to a reader that retries within bounds.

use confirmd_core::{Height, SourceError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(super) const ATTEMPTS: u32 = 2;
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(30);
pub(super) const DEADLINE: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) throttled: Option<Duration>,
    pub(super) silent: u32,
    pub(super) warming_up: bool,
    pub(super) syncing: bool,
    pub(super) refuses: bool,
    pub(super) errs: bool,
    pub(super) garbled: u32,
    pub(super) empty: u32,
    pub(super) lost: Option<Height>,
    pub(super) pruned_below: Option<Height>,
    pub(super) spoilt: Option<Height>,
    pub(super) requests: u64,
}

/// Clones are the same node.
#[derive(Debug, Clone, Default)]
pub(super) struct Node(Arc<Mutex<Faults>>);

impl Node {
    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn repair(&self) {
        let mut faults = self.faults();
        let requests = faults.requests;
        *faults = Faults { requests, ..Faults::default() };
    }

    /// One request, with its attempts.
    pub(super) async fn request(&self, what: &str) -> Result<(), SourceError> {
        for _ in 0..ATTEMPTS {
            // A call is never done at once: whoever drops it drops it in the middle.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            if !self.is_silent() {
                return self.answer(what);
            }
            tokio::time::sleep(ATTEMPT_TIMEOUT).await;
        }
        Err(SourceError::transient(format!("asked {ATTEMPTS} times for {what}, no answer")))
    }

    fn is_silent(&self) -> bool {
        let mut faults = self.faults();
        faults.requests += 1;
        let silent = faults.silent > 0;
        faults.silent = faults.silent.saturating_sub(1);
        silent
    }

    fn answer(&self, what: &str) -> Result<(), SourceError> {
        let faults = self.faults();
        if let Some(wish) = faults.throttled {
            return Err(SourceError::transient(format!("asked for {what}: too many requests")).after(Some(wish)));
        }
        if faults.warming_up || faults.errs {
            return Err(SourceError::transient(format!("asked for {what}, the node can't say now")));
        }
        if faults.refuses {
            return Err(SourceError::fatal(format!("asked for {what}, the node refuses our credentials")));
        }
        Ok(())
    }

    /// A request whose answer is read a second time if it can't be decoded.
    pub(super) async fn decoded(&self, what: &str) -> Result<(), SourceError> {
        self.request(what).await?;
        for _ in 0..2 {
            let mut faults = self.faults();
            if faults.garbled == 0 {
                return Ok(());
            }
            faults.garbled -= 1;
        }
        Err(SourceError::fatal(format!("read {what} twice, and could decode neither answer")))
    }
}
