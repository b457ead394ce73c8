//! The wish to stop, as every loop waits for it.

use tokio::sync::watch;

/// Returns when a stop is asked for, or when nobody is left to ask for one.
pub(crate) async fn stopped(shutdown: &mut watch::Receiver<bool>) {
    // Not inline in a `select!`: the guard that `wait_for` returns must not live across an await.
    let _ = shutdown.wait_for(|stop| *stop).await;
}
