//! Everything that is logged while a trial runs, as text.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The lines so far. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    text: Arc<Mutex<String>>,
}

impl Log {
    /// Collects what this thread logs until the guard is dropped.
    pub(super) fn collect(&self) -> tracing::subscriber::DefaultGuard {
        tracing::subscriber::set_default(Collector { log: self.clone(), spans: AtomicU64::new(1) })
    }

    pub(super) fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, record: impl FnOnce(&mut Line<'_>)) {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        record(&mut Line(&mut text));
        text.push('\n');
    }
}

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

struct Collector {
    log: Log,
    spans: AtomicU64,
}

impl Subscriber for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.log.add(|line| attributes.record(line));
        Id::from_u64(self.spans.fetch_add(1, Relaxed))
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        self.log.add(|line| values.record(line));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.log.add(|line| event.record(line));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
