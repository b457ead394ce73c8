//! A sink that writes lines to a stream.

use crate::StdoutConfig;
use async_trait::async_trait;
use confirmd_core::{ConfigError, DeliverError, Delivery, Sink, SinkBooks, SinkError, SinkErrorKind, SinkProfile};
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

/// Events in one call: each is flushed by itself, so more would save nothing.
const BATCH_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("invariant: 64 is not zero");

/// Writes each event's body as one line and flushes it. `W` is the standard output, or a stream of a test.
pub struct LineSink<W> {
    /// Held across a write: calls never overlap (concurrency 1), and lines must not mix if they do.
    stream: Mutex<Stream<W>>,
    timeout: Duration,
}

struct Stream<W> {
    writer: W,
    /// A line was begun and not known to be ended: by an error, or because the call was dropped.
    mid_line: bool,
}

impl<W> LineSink<W> {
    /// Writes to `writer`.
    ///
    /// # Errors
    /// When the configuration names a time-out of zero.
    pub fn new(writer: W, config: &StdoutConfig) -> Result<Self, ConfigError> {
        Ok(Self { stream: Mutex::new(Stream { writer, mid_line: false }), timeout: config.deadline()? })
    }

    fn timed_out(&self) -> SinkError {
        let timeout = confirmd_core::HumanDuration(self.timeout);
        transient(format!("writing a line to the standard output: not taken within {timeout}; does its reader still read?"))
    }
}

impl<W> fmt::Debug for LineSink<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineSink").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl<W: AsyncWrite + Unpin> Stream<W> {
    async fn write_line(&mut self, body: &[u8]) -> io::Result<()> {
        let mut line = Vec::with_capacity(body.len().saturating_add(2));
        if self.mid_line {
            line.push(b'\n');
        }
        line.extend_from_slice(body);
        line.push(b'\n');
        self.mid_line = true;
        self.writer.write_all(&line).await?;
        self.writer.flush().await?;
        self.mid_line = false;
        Ok(())
    }
}

#[async_trait]
impl<W: AsyncWrite + Unpin + Send> Sink for LineSink<W> {
    fn profile(&self) -> SinkProfile {
        SinkProfile { batch_max: BATCH_MAX, concurrency: NonZeroUsize::MIN }
    }

    fn books(&self) -> Option<&dyn SinkBooks> {
        None
    }

    async fn check(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn deliver(&self, batch: &[Delivery]) -> Result<(), DeliverError> {
        let deadline = Instant::now() + self.timeout;
        let Ok(mut stream) = timeout_at(deadline, self.stream.lock()).await else {
            return Err(DeliverError { accepted: 0, error: self.timed_out() });
        };
        for (accepted, delivery) in batch.iter().enumerate() {
            let failed = |error| DeliverError { accepted, error };
            if delivery.body.contains(&b'\n') {
                return Err(failed(SinkError::new(
                    SinkErrorKind::Rejected { retry_after: None },
                    format!("event {} holds a line break and can't be one line", delivery.event),
                )));
            }
            match timeout_at(deadline, stream.write_line(&delivery.body)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(failed(broken(&error))),
                Err(_) => return Err(failed(self.timed_out())),
            }
        }
        Ok(())
    }
}

fn broken(error: &io::Error) -> SinkError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return transient(format!("writing a line to the standard output: its reader has closed it ({error})"));
    }
    transient(format!("writing a line to the standard output: {error}"))
}

fn transient(context: String) -> SinkError {
    SinkError::new(SinkErrorKind::Transient { retry_after: None }, context)
}
