//! `kind = "file"`: every event as one line of a JSON Lines file, synced to disk before it counts as accepted.
//!
//! The line is the event's frozen body, byte for byte, and a line break. A batch is appended by one write and made durable by
//! one `fdatasync`; a batch that fails is cut off again, so that it took effect whole or not at all (K3, K10).
//!
//! What the reader must know:
//!
//! * **K5, duplicates.** A crash (or a time-out) between the sync and the acknowledgement in confirmd's own state repeats the
//!   last batch. The lines are then the same, byte for byte: drop an `id` that was seen before, and follow the rule of
//!   (epoch, sequence) per key.
//! * A line without its line break is not written yet. After a crash such a tail is cut off at the next open; its event comes
//!   again. A tail that is none of ours is left alone and the consumer pauses.
//! * Rotation is the operator's: rename or remove the file (logrotate's `create` or `nocreate`), and the next batch opens the
//!   path anew; truncating it in place works too, but loses what the reader had not read.
//! * One writer per file: it is locked (advisory) while confirmd has it open; reading it is free.
#![warn(missing_docs)]

mod config;
mod line_file;
mod sink;
mod tail;
#[cfg(test)]
mod tests;

pub use config::FileConfig;
pub use sink::FileSink;

use confirmd_core::{ConfigError, Sink, SinkContext, SinkKind, parse_table};
use std::sync::Arc;

/// The kind `file`.
pub const KIND: SinkKind = SinkKind {
    name: "file",
    summary: "appends each event to a JSON Lines file, synced to disk",
    example: r#"[sinks.archive]
kind = "file"
path = "./deposits.jsonl"               # its directory must exist
# timeout = "15s"                       # how long one append may take
"#,
    build,
};

fn build(_context: SinkContext, table: toml::Table) -> Result<Arc<dyn Sink>, ConfigError> {
    let config: FileConfig = parse_table(table)?;
    Ok(Arc::new(FileSink::new(&config)?))
}
