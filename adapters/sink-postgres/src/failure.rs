//! Why a transaction did not take effect, and what to do about it.

use confirmd_core::{SinkError, SinkErrorKind};

/// How a transaction ended that was not committed, as far as we know.
#[derive(Debug)]
pub(crate) enum Failure {
    /// This event's own failure; nothing is written. Those before it may pass without it.
    At(usize, SinkError),
    /// A failure of several events together; nothing is written. One by one will tell whose.
    OfSeveral(SinkError),
    /// It lost against another transaction; nothing is written. The same may pass at once.
    Collision(SinkError),
    /// The connection was gone before anything could be committed. On a new one the same may pass.
    Lost(SinkError),
    /// Nothing is written, whatever the batch.
    Nothing(SinkError),
    /// The connection broke while the commit was out.
    Unknown(SinkError),
}

/// An event this sink or its statement refuses.
pub(crate) fn rejected(context: String) -> SinkError {
    SinkError::new(SinkErrorKind::Rejected { retry_after: None }, context)
}

/// May pass later.
pub(crate) fn transient(context: String) -> SinkError {
    SinkError::new(SinkErrorKind::Transient { retry_after: None }, context)
}

/// Needs an operator.
pub(crate) fn fatal(context: String) -> SinkError {
    SinkError::new(SinkErrorKind::Fatal, context)
}
