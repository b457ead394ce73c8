//! Events for readers that pull them: page by page, or as a stream.

use super::{Answer, Api};
use crate::extract::{Asked, At, Body, name};
use crate::schema::{CursorNameSchema, StreamedEventSchema};
use crate::view::{CursorView, Done, EventsPage, EventsQuery, PutCursor};
use crate::{Cursor, OperatorError, WAIT_MAX};
use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use confirmd_core::CursorName;
use http::HeaderMap;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

/// How long one question of a stream waits, in seconds.
const STREAM_WAIT: u32 = 15;
/// A line of comment this often keeps proxies from closing a quiet stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Events in the order they were decided.
///
/// The pull alternative to a webhook: works behind NAT and survives any outage of the reader. Ids and bodies are the webhook's. Keep
/// `next` once the events are taken, and ask with it; or let a named cursor keep it.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(EventsQuery), responses((status = 200, body = EventsPage)))]
pub(super) async fn list(State(api): State<Api>, Asked(query): Asked<EventsQuery>) -> Answer<EventsPage> {
    let mut ending = api.ending.clone();
    tokio::select! {
        page = api.operator.events(&query) => page.map(Json),
        _ = ending.wait_for(|ended| *ended) => Err(OperatorError::unavailable("the instance stops; ask again once it runs")),
    }
}

/// Events as they are decided, as a stream of server-sent events.
///
/// `id` is the place behind the event: a reader that reconnects with `Last-Event-ID` goes on there. `data` is the webhook's body.
#[utoipa::path(get, path = "/v1/events/stream", tag = "events", params(EventsQuery),
    responses((status = 200, body = StreamedEventSchema, content_type = "text/event-stream")))]
pub(super) async fn stream(
    State(api): State<Api>,
    headers: HeaderMap,
    Asked(mut query): Asked<EventsQuery>,
) -> Result<Response, OperatorError> {
    if let Some(last) = headers.get("last-event-id").and_then(|value| value.to_str().ok()) {
        (query.after, query.cursor) = (Some(Cursor::new(last)), None);
    }
    if query.wait.is_some_and(|wait| wait > WAIT_MAX) {
        return Err(OperatorError::invalid(format!("wait is longer than {WAIT_MAX} seconds; a stream waits by itself")));
    }
    // What is wrong with the question is answered as a problem, not within the stream.
    query.wait = None;
    let first = api.operator.events(&query).await?;
    (query.after, query.cursor, query.wait) = (Some(first.next.clone()), None, Some(STREAM_WAIT));
    let state = (api, query, queued(first));
    let events = futures::stream::unfold(state, |(api, mut query, mut waiting)| async move {
        let mut ending = api.ending.clone();
        while waiting.is_empty() {
            let page = tokio::select! {
                page = api.operator.events(&query) => page.ok()?,
                _ = ending.wait_for(|ended| *ended) => return None,
            };
            query.after = Some(page.next.clone());
            waiting = queued(page);
        }
        let event = waiting.pop_front()?;
        Some((Ok::<Event, Infallible>(event), (api, query, waiting)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

fn queued(page: EventsPage) -> VecDeque<Event> {
    let events = page.events.iter().zip(&page.places);
    events.map(|(body, place)| Event::default().id(place.as_str()).data(body.get())).collect()
}

/// Every named cursor: readers' places that hold what is behind them.
#[utoipa::path(get, path = "/v1/cursors", tag = "events", responses((status = 200, body = Vec<CursorView>)))]
pub(super) async fn cursors(State(api): State<Api>) -> Answer<Vec<CursorView>> {
    api.operator.cursors().await.map(Json)
}

/// Put a named cursor at a place, new or known: everything up to it was taken.
#[utoipa::path(put, path = "/v1/cursors/{cursor}", tag = "events", params(("cursor" = CursorNameSchema, Path, description = "The reader's name for it")),
    request_body = PutCursor, responses((status = 200, body = CursorView)))]
pub(super) async fn put_cursor(State(api): State<Api>, At(cursor): At<String>, Body(put): Body<PutCursor>) -> Answer<CursorView> {
    api.operator.put_cursor(&name::<CursorName>(&cursor)?, put).await.map(Json)
}

/// Forget a named cursor: it holds nothing any more.
#[utoipa::path(delete, path = "/v1/cursors/{cursor}", tag = "events", params(("cursor" = CursorNameSchema, Path, description = "The reader's name for it")),
    responses((status = 200, body = Done)))]
pub(super) async fn remove_cursor(State(api): State<Api>, At(cursor): At<String>) -> Answer<Done> {
    api.operator.remove_cursor(&name::<CursorName>(&cursor)?).await.map(|()| Json(Done {}))
}
