//! What is counted: for `/metrics`, and for the dashboard's plots.

use crate::OperatorError;
use async_trait::async_trait;
use confirmd_core::{ChainName, ConsumerName, Timestamp};

/// Whoever counts. Asked once a scrape, so it may read what is only known when asked for.
#[async_trait]
pub trait Metrics: std::fmt::Debug + Send + Sync {
    /// Everything that is counted, in Prometheus' text format 0.0.4.
    async fn text(&self) -> Result<String, OperatorError>;

    /// What the dashboard shows of it. Counts begin with the process.
    async fn figures(&self) -> Result<Figures, OperatorError>;
}

/// What the dashboard shows of what is counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Of each configured chain.
    pub chains: Vec<ChainFigures>,
    /// Of each consumer with records.
    pub consumers: Vec<ConsumerFigures>,
}

/// Counts of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainFigures {
    /// The operator's name.
    pub chain: ChainName,
    /// Confirmed events decided since the start.
    pub confirmed: u64,
    /// Reverted events decided since the start.
    pub reverted: u64,
}

/// Counts of one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerFigures {
    /// Its name.
    pub consumer: ConsumerName,
    /// Events accepted by it since the start.
    pub delivered: u64,
    /// Milliseconds from decided to accepted, of all of these together.
    pub delivery_ms: u64,
    /// When the oldest event was decided that is queued or retrying.
    pub oldest: Option<Timestamp>,
    /// Since when every attempt fails, and what the last one said.
    pub failing: Option<(Timestamp, String)>,
}
