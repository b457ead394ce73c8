//! SIGTERM and Ctrl-C end the instance, SIGHUP takes its configuration over again.

use crate::operator::ReloadOrders;
use crate::stop::Stop;
use anyhow::Context as _;
use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

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

/// A hang-up orders a reload. One that comes while another waits is that one.
pub(super) fn reload(orders: ReloadOrders) -> anyhow::Result<impl Future<Output = ()>> {
    let mut hang_up = signal(SignalKind::hangup()).context("listen for SIGHUP")?;
    Ok(async move {
        while hang_up.recv().await.is_some() {
            tracing::info!(signal = "SIGHUP", "told to take the configuration over again");
            // What comes of it is logged where it is done.
            let (answer, _) = oneshot::channel();
            let _ = orders.try_send(answer);
        }
    })
}
