//! Answers that go wrong in their body.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame};

/// One piece of an answer without end.
static PIECE: [u8; 16 * 1024] = [b'x'; 16 * 1024];

/// A body that never ends, or does not reach its end.
#[derive(Debug)]
pub(super) enum SpoiltBody {
    /// Counts what it gave.
    WithoutEnd(Arc<AtomicU64>),
    /// Its beginning comes, then the connection breaks.
    BrokenOff { begun: bool },
}

impl SpoiltBody {
    pub(super) fn without_end(given: Arc<AtomicU64>) -> Self {
        Self::WithoutEnd(given)
    }

    pub(super) fn broken_off() -> Self {
        Self::BrokenOff { begun: false }
    }
}

impl Body for SpoiltBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = match &mut *self {
            Self::WithoutEnd(given) => {
                given.fetch_add(u64::try_from(PIECE.len()).unwrap_or(0), Ordering::Relaxed);
                Bytes::from_static(&PIECE)
            }
            Self::BrokenOff { begun: true } => return Poll::Ready(Some(Err(io::Error::other("broken off on purpose")))),
            Self::BrokenOff { begun } => {
                *begun = true;
                Bytes::from_static(b"{\"taken\":")
            }
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}
