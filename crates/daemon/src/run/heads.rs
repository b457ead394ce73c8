//! What a node tells of its own accord, turned into looks at it.

use confirmd_core::{ChainName, NewHeads, with_causes};
use std::time::Duration;
use tokio::time::sleep;

/// After an error; doubled with each one that follows, up to `PAUSE_MAX`. The polls go on meanwhile.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Wakes the watcher whenever the node tells of something. Never ends; dropped with the watcher.
pub(super) async fn follow(chain: &ChainName, heads: &dyn NewHeads, wake: impl Fn()) {
    let mut pause = None;
    loop {
        match heads.next().await {
            Ok(()) => {
                if pause.take().is_some() {
                    tracing::info!(%chain, "the node tells of new blocks again");
                }
                wake();
            }
            Err(error) => {
                if pause.is_none() {
                    tracing::warn!(%chain, error = with_causes(&error),
                        "the node does not tell of new blocks; until it does they are found at the next poll");
                }
                let wait = pause.map_or(PAUSE_FIRST, |last: Duration| (last * 2).min(PAUSE_MAX));
                pause = Some(wait);
                sleep(wait).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use confirmd_core::SourceError;
    use tokio::sync::{Mutex, mpsc};
    use tokio::time::Instant;

    /// Says what it is told to say.
    #[derive(Debug)]
    struct Told(Mutex<mpsc::Receiver<Result<(), SourceError>>>);

    #[async_trait::async_trait]
    impl NewHeads for Told {
        async fn next(&self) -> Result<(), SourceError> {
            self.0.lock().await.recv().await.unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn errors_are_followed_by_pauses_that_double_until_the_node_tells_again() {
        let (say, told) = mpsc::channel(1);
        let task = tokio::spawn(async move { follow(&ChainName::new("dev").unwrap(), &Told(Mutex::new(told)), || ()).await });
        let failing = || say.send(Err(SourceError::transient("closed")));
        let mut waited = Vec::new();
        for _ in 0..8 {
            let start = Instant::now();
            failing().await.unwrap();
            // Taken only when it asks again.
            say.reserve().await.unwrap();
            waited.push(start.elapsed().as_secs());
        }
        task.abort();
        assert_eq!(waited, [0, 1, 2, 4, 8, 16, 32, 60]);
    }
}
