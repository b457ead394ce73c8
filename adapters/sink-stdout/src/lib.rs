//! `kind = "stdout"`: every event as one JSON line on the standard output, for a pipe, a log collector or a first look.
//!
//! The line is the event's frozen body, byte for byte, and a line break; it is flushed before the event counts as accepted.
//!
//! What the reader must know:
//!
//! * **K5, duplicates.** An event is written again when confirmd could not tell whether its line went through (a time-out, a
//!   closed pipe, a crash before the acknowledgement was stored). The line is then the same, byte for byte: drop an `id` that
//!   was seen before, and follow the rule of (epoch, sequence) per key.
//! * **K10, durability.** A pipe tells when it took the bytes, not when its reader stored them. Use it where the loss of a
//!   few lines in the reader's crash is acceptable; money belongs behind `webhook` or `postgres`.
//! * A line that broke off (the pipe was closed in the middle) is ended by a line break before the next one, so a reader may
//!   meet one line that is no JSON, or an empty one. The event of that line follows whole.
#![warn(missing_docs)]

mod config;
mod sink;
#[cfg(test)]
mod tests;

pub use config::StdoutConfig;
pub use sink::LineSink;

use confirmd_core::{ConfigError, Sink, SinkContext, SinkKind, parse_table};
use std::sync::Arc;

/// The kind `stdout`.
pub const KIND: SinkKind = SinkKind {
    name: "stdout",
    summary: "prints each event as a JSON line on the standard output",
    example: r#"[sinks.lines]
kind = "stdout"
# timeout = "15s"                       # how long a full pipe may block one call
"#,
    build,
};

fn build(_context: SinkContext, table: toml::Table) -> Result<Arc<dyn Sink>, ConfigError> {
    let config: StdoutConfig = parse_table(table)?;
    Ok(Arc::new(LineSink::new(tokio::io::stdout(), &config)?))
}
