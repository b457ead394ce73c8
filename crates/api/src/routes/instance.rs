//! The instance: is it alive, is it ready, how does everything stand, what can be asked.

use super::{Answer, Api};
use crate::openapi;
use crate::view::{Health, Readiness, Reloaded, Status};
use axum::Json;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use http::{HeaderName, StatusCode, header};

/// Whether the process lives. Needs no token.
#[utoipa::path(get, path = "/healthz", tag = "instance", security(()), responses((status = 200, body = Health)))]
pub(super) async fn healthz(State(api): State<Api>) -> Json<Health> {
    Json(Health { status: "ok".to_owned(), instance: api.instance.to_string() })
}

/// Whether every chain does its work; if not, why, in words. Needs no token.
#[utoipa::path(get, path = "/readyz", tag = "instance", security(()),
    responses((status = 200, body = Readiness), (status = 503, description = "Not ready", body = Readiness)))]
pub(super) async fn readyz(State(api): State<Api>) -> Response {
    let reasons = match api.operator.status().await {
        Ok(status) => status.not_ready(),
        Err(error) => vec![error.text],
    };
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Readiness { ready: reasons.is_empty(), reasons })).into_response()
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "instance", responses((status = 200, body = Object)))]
pub(super) async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi::json().to_owned()).into_response()
}

/// This document as a page.
#[utoipa::path(get, path = "/v1/docs", tag = "instance",
    responses((status = 200, body = String, content_type = "text/html")))]
pub(super) async fn page() -> Response {
    const POLICY: HeaderName = header::CONTENT_SECURITY_POLICY;
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    ([(POLICY, policy)], Html(openapi::page())).into_response()
}

/// How every chain and consumer stands.
#[utoipa::path(get, path = "/v1/status", tag = "instance", responses((status = 200, body = Status)))]
pub(super) async fn status(State(api): State<Api>) -> Answer<Status> {
    api.operator.status().await.map(Json)
}

/// Read the configuration file again and take it over: all of it or, if any of it is refused, none. What did not change is not
/// disturbed. SIGHUP does the same.
#[utoipa::path(post, path = "/v1/reload", tag = "instance", responses((status = 200, body = Reloaded)))]
pub(super) async fn reload(State(api): State<Api>) -> Answer<Reloaded> {
    api.operator.reload().await.map(Json)
}
