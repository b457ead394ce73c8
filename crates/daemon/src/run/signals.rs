//! SIGTERM and Ctrl-C.

use crate::stop::Stop;
use anyhow::Context as _;
use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

/// The first signal stops cleanly; a second one ends the process at once, which is as safe as a crash.
pub(super) fn watch(stop: Stop) -> anyhow::Result<impl Future<Output = ()>> {
    let mut term = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for Ctrl-C")?;
    Ok(async move {
        for first in [true, false] {
            let name = tokio::select! {
                _ = term.recv() => "SIGTERM",
                _ = interrupt.recv() => "Ctrl-C",
            };
            if first {
                tracing::info!(signal = name, "told to stop");
                stop.now();
            } else {
                tracing::warn!(signal = name, "told to stop again: ending at once");
                std::process::exit(130);
            }
        }
    })
}
