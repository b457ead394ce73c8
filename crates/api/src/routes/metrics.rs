//! What is counted, for Prometheus.

use super::Api;
use crate::OperatorError;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;

/// What is counted, in Prometheus' text format. `docs/metrics.md` lists it.
#[utoipa::path(get, path = "/metrics", tag = "instance",
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(api): State<Api>) -> Result<Response, OperatorError> {
    let Some(metrics) = &api.metrics else {
        return Err(OperatorError::not_found("this instance counts nothing"));
    };
    let text = metrics.text().await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
