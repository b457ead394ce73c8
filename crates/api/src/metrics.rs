//! Where `/metrics` comes from.

use crate::OperatorError;
use async_trait::async_trait;

/// Whoever counts. Asked once a scrape, so it may read what is only known when asked for.
#[async_trait]
pub trait Metrics: std::fmt::Debug + Send + Sync {
    /// Everything that is counted, in Prometheus' text format 0.0.4.
    async fn text(&self) -> Result<String, OperatorError>;
}
