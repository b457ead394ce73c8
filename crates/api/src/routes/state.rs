//! The state as a whole.

use super::Api;
use crate::OperatorError;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use http::header;

/// Everything the state holds as it is at one moment, while the instance goes on.
///
/// The lines of a dump, for `confirmd state import`. Its last line says that it is whole: what ends before it was cut off. One export at a
/// time.
#[utoipa::path(get, path = "/v1/state/export", tag = "instance",
    responses((status = 200, body = String, content_type = "application/x-ndjson")))]
pub(super) async fn export(State(api): State<Api>) -> Result<Response, OperatorError> {
    let dump = api.operator.export().await?;
    let mut ending = api.ending.clone();
    let dump = dump.take_until(async move { drop(ending.wait_for(|ended| *ended).await) });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(dump)).into_response())
}
