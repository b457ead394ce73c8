//! One way for every part to end the instance.

use confirmd_core::{StoreError, with_causes};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::watch;

/// Tells everything to stop, and remembers why if something failed. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    flag: Arc<watch::Sender<bool>>,
    failure: Arc<Mutex<Option<String>>>,
    /// Flags of parts that can also be stopped alone.
    parts: Arc<Mutex<Vec<Weak<watch::Sender<bool>>>>>,
    /// Of a part: stops everything.
    whole: Option<Arc<Stop>>,
}

impl Stop {
    /// Nothing is stopped yet.
    pub(crate) fn new() -> Self {
        Self { flag: Arc::new(watch::Sender::new(false)), failure: Arc::default(), parts: Arc::default(), whole: None }
    }

    /// For a part: it stops with everything, or alone by its own `now`. What fails in it still stops everything.
    pub(crate) fn part(&self) -> Self {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|part| part.strong_count() > 0);
        let flag = Arc::new(watch::Sender::new(self.is_stopped()));
        parts.push(Arc::downgrade(&flag));
        Self { flag, failure: self.failure.clone(), parts: Arc::default(), whole: Some(Arc::new(self.clone())) }
    }

    /// Stops everything; of a part, the part.
    pub(crate) fn now(&self) {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        self.flag.send_replace(true);
        for part in parts.iter().filter_map(Weak::upgrade) {
            part.send_replace(true);
        }
    }

    /// Stops everything because of a failure; the first one is kept.
    pub(crate) fn fail(&self, why: impl Into<String>) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why.into());
        self.whole.as_deref().unwrap_or(self).now();
    }

    /// Stops everything if the store can't be trusted any more; other store errors are the caller's alone.
    pub(crate) fn on(&self, error: &StoreError) {
        if matches!(error, StoreError::Unknown { .. }) {
            self.fail(with_causes(error));
        }
    }

    /// Follows the flag.
    pub(crate) fn receiver(&self) -> watch::Receiver<bool> {
        self.flag.subscribe()
    }

    /// Returns once everything is to stop.
    pub(crate) async fn stopped(&self) {
        let mut receiver = self.receiver();
        // The sender lives in self: an error can't happen.
        let _ = receiver.wait_for(|stop| *stop).await;
    }

    /// Whether everything is to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.flag.borrow()
    }

    /// The first failure.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_store_whose_content_is_unknown_stops_everything_and_the_first_reason_is_kept() {
        let stop = Stop::new();
        stop.on(&StoreError::Invalid("no such consumer".into()));
        assert!(!stop.is_stopped());
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        stop.on(&StoreError::Unknown { context: "writing a commit".into(), source: Some(full.into()) });
        stop.fail("later");
        assert!(stop.is_stopped());
        let why = stop.failure().unwrap_or_default();
        assert!(why.starts_with("writing a commit") && why.contains("no storage space"), "{why}");
    }

    #[test]
    fn a_part_stops_alone_or_with_everything_and_its_failure_is_everybodys() {
        let stop = Stop::new();
        let (one, other) = (stop.part(), stop.part());
        one.now();
        assert!(one.is_stopped() && !other.is_stopped() && !stop.is_stopped());
        other.fail("broken");
        assert!(other.is_stopped() && stop.is_stopped() && *stop.part().receiver().borrow());
        assert_eq!(stop.failure().as_deref(), Some("broken"));
    }
}
