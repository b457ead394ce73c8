//! Tells open pages that there is something new.

use super::Dashboard;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Instant;

/// Pages are told at least so often, for what depends on the time alone.
const AT_LEAST: Duration = Duration::from_secs(30);
/// A stream ends after so long; browsers come back by themselves, and are then asked again who they are.
const STREAM: Duration = Duration::from_secs(600);

/// `changed`, whenever something changed.
pub(super) async fn stream(State(page): State<Dashboard>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let until = Instant::now() + STREAM;
    let state = (page.samples.changes(), page.api.ending.clone());
    let events = futures::stream::unfold(state, move |(mut changes, mut ending)| async move {
        tokio::select! {
            _ = ending.wait_for(|ended| *ended) => return None,
            () = tokio::time::sleep_until(until) => return None,
            seen = changes.changed() => seen.ok()?,
            () = tokio::time::sleep(AT_LEAST) => {}
        }
        Some((Ok(changed()), (changes, ending)))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
}

/// Browsers hand on no event without data.
fn changed() -> Event {
    Event::default().event("changed").data("look")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use axum::response::IntoResponse;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_change_is_told_with_data_since_browsers_drop_an_event_without() {
        let one = futures::stream::iter([Ok::<_, Infallible>(changed())]);
        let body = Sse::new(one).into_response().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "event: changed\ndata: look\n\n");
    }
}
