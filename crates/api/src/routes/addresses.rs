//! Watched addresses.

use super::{Answer, Api};
use crate::extract::{Asked, Body};
use crate::import::{ImportError, LineReader};
use crate::view::{Counted, WatchAdd, WatchAdded, WatchQuery, WatchRemove, WatchRequest, Watched};
use crate::{OperatorError, Page, merge};
use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State;
use http_body_util::BodyExt;

/// Addresses taken over at a time: the memory a stream of any length needs, some 20 MB. A watcher whose node does not answer
/// takes one such part a second.
const PART: usize = 50_000;
/// Bytes of a stream that are held before they are taken over: labels may be long.
const HELD_MAX: usize = 8 * 1024 * 1024;

/// Watched addresses in the order of the chains, then of their bytes.
#[utoipa::path(get, path = "/v1/addresses", tag = "addresses", params(WatchQuery), responses((status = 200, body = Page<Watched>)))]
pub(super) async fn list(State(api): State<Api>, Asked(query): Asked<WatchQuery>) -> Answer<Page<Watched>> {
    api.operator.watched(&query).await.map(Json)
}

/// Watch addresses, all of them or, if one is refused, none.
///
/// The answer names, per chain, the first height from which all of them are covered.
#[utoipa::path(post, path = "/v1/addresses", tag = "addresses", request_body = WatchAdd, responses((status = 200, body = Vec<WatchAdded>)))]
pub(super) async fn add(State(api): State<Api>, Body(add): Body<WatchAdd>) -> Answer<Vec<WatchAdded>> {
    api.operator.watch_add(add.entries).await.map(Json)
}

/// Take no new deposits to these addresses; what is held for them still ends.
#[utoipa::path(delete, path = "/v1/addresses", tag = "addresses", request_body = WatchRemove, responses((status = 200, body = Counted)))]
pub(super) async fn remove(State(api): State<Api>, Body(remove): Body<WatchRemove>) -> Answer<Counted> {
    api.operator.watch_remove(&remove.chain, remove.addresses).await.map(Json)
}

/// Watch the addresses of a stream of any length: one JSON object a line.
///
/// Taken over in parts of some thousand lines while it is read. An error names its line; what was added before it stays, and sending
/// the whole stream again is harmless.
#[utoipa::path(post, path = "/v1/addresses/import", tag = "addresses",
    request_body(content = String, content_type = "application/x-ndjson"), responses((status = 200, body = Vec<WatchAdded>)))]
pub(super) async fn import(State(api): State<Api>, body: HttpBody) -> Answer<Vec<WatchAdded>> {
    let (mut lines, mut body) = (LineReader::default(), body);
    let (mut waiting, mut added, mut held) = (Vec::new(), Vec::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| OperatorError::invalid(format!("the stream broke off: {error}; send it again")))?;
        let Ok(data) = frame.into_data() else { continue };
        lines.push(&data, &mut waiting).map_err(|error| refused(&error, &added))?;
        held = held.saturating_add(data.len());
        while waiting.len() >= PART || (held >= HELD_MAX && !waiting.is_empty()) {
            held = 0;
            let rest = waiting.split_off(PART.min(waiting.len()));
            take(&api, std::mem::replace(&mut waiting, rest), &mut added).await?;
        }
    }
    lines.end(&mut waiting).map_err(|error| refused(&error, &added))?;
    if !waiting.is_empty() {
        take(&api, waiting, &mut added).await?;
    }
    Ok(Json(added))
}

async fn take(api: &Api, entries: Vec<WatchRequest>, added: &mut Vec<WatchAdded>) -> Result<(), OperatorError> {
    let new = api.operator.watch_add(entries).await.map_err(|mut error| {
        error.text = format!("{}{}", error.text, kept(added));
        error
    })?;
    new.into_iter().for_each(|new| merge(added, new));
    Ok(())
}

fn refused(error: &ImportError, added: &[WatchAdded]) -> OperatorError {
    OperatorError::invalid(format!("{error}{}", kept(added)))
}

/// What stays of a stream that was not taken whole.
fn kept(added: &[WatchAdded]) -> String {
    let count = added.iter().fold(0_u64, |sum, one| sum.saturating_add(one.count));
    if count == 0 { String::new() } else { format!("; {count} addresses before it were added and stay") }
}
