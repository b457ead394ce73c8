//! The routes.

use crate::problem::Problem;
use crate::view::{
    ChainView, ConsumerView, Counted, DeliveryDetail, DeliveryQuery, DeliveryView, DepositQuery, DepositView, Requeue,
    ResumeRequest, ResumeView, Skip, Status, WatchAdd, WatchAdded, WatchQuery, WatchRemove, Watched,
};
use crate::{Operator, OperatorError, Page, guard, import};
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use confirmd_core::{ChainName, ConsumerName, EventId};
use http::{StatusCode, request::Parts};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Most requests are a few hundred bytes.
const BODY_MAX: usize = 64 * 1024;
/// Lists of addresses: some 100,000 in one request.
const LIST_BODY_MAX: usize = 16 * 1024 * 1024;

/// What the handlers work with.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(crate) operator: Arc<dyn Operator>,
    /// Names this run of the instance.
    pub(crate) instance: Arc<str>,
    pub(crate) port: u16,
}

type Answer<T> = Result<Json<T>, OperatorError>;

/// Every route, behind the guard.
pub(crate) fn router(api: Api) -> Router {
    let port = api.port;
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/v1/status", get(status))
        .route("/v1/chains", get(chains))
        .route("/v1/chains/{name}/resume", post(resume))
        .route("/v1/deposits", get(deposits))
        .route("/v1/deliveries", get(deliveries))
        .route("/v1/deliveries/{event}", get(delivery))
        .route("/v1/consumers", get(consumers))
        .route("/v1/consumers/{name}/requeue", post(requeue))
        .route("/v1/consumers/{name}/skip", post(skip))
        .route("/v1/consumers/{name}/pause", post(pause))
        .route("/v1/consumers/{name}/resume", post(unpause))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .merge(
            Router::new()
                .route("/v1/watch", get(watched).post(watch_add).delete(watch_remove))
                .route("/v1/watch/import", post(watch_import))
                .layer(DefaultBodyLimit::max(LIST_BODY_MAX)),
        )
        .fallback(|| async { OperatorError::not_found("there is nothing at this path; GET /v1/status shows the instance") })
        .method_not_allowed_fallback(|| async {
            Problem::response("invalid", StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method")
        })
        .layer(axum::middleware::from_fn_with_state(port, guard::guard))
        .with_state(api)
}

/// A JSON body, its errors as problems.
struct Body<T>(T);

impl<T: DeserializeOwned> FromRequest<Api> for Body<T> {
    type Rejection = Response;
    async fn from_request(request: Request, state: &Api) -> Result<Self, Response> {
        let bytes = read(request, state).await?;
        let bytes = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| OperatorError::invalid(format!("the body is not what this path takes: {error}")).into_response())
    }
}

async fn read(request: Request, state: &Api) -> Result<Bytes, Response> {
    Bytes::from_request(request, state).await.map_err(|rejection| {
        let status = rejection.status();
        let text = match status {
            StatusCode::PAYLOAD_TOO_LARGE => "the body is too large; split the list".to_owned(),
            _ => rejection.body_text(),
        };
        Problem::response("invalid", status, &text)
    })
}

/// The query, its errors as problems.
struct Asked<T>(T);

impl<T: DeserializeOwned> FromRequestParts<Api> for Asked<T> {
    type Rejection = OperatorError;
    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, OperatorError> {
        let query = Query::try_from_uri(&parts.uri);
        query.map(|Query(query)| Self(query)).map_err(|error| OperatorError::invalid(error.body_text()))
    }
}

fn name<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, OperatorError> {
    text.parse().map_err(|error: T::Err| OperatorError::invalid(error.to_string()))
}

async fn healthz(State(api): State<Api>) -> Json<serde_json::Value> {
    Json(serde_json::json!({ "status": "ok", "instance": &*api.instance }))
}

async fn readyz(State(api): State<Api>) -> Response {
    let reasons = match api.operator.status().await {
        Ok(status) => status.not_ready(),
        Err(error) => vec![error.text],
    };
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(serde_json::json!({ "ready": reasons.is_empty(), "reasons": reasons }))).into_response()
}

async fn status(State(api): State<Api>) -> Answer<Status> {
    api.operator.status().await.map(Json)
}

async fn chains(State(api): State<Api>) -> Answer<Vec<ChainView>> {
    api.operator.status().await.map(|status| Json(status.chains))
}

async fn resume(State(api): State<Api>, Path(chain): Path<String>, Body(request): Body<ResumeRequest>) -> Answer<ResumeView> {
    api.operator.resume(&name::<ChainName>(&chain)?, request).await.map(Json)
}

async fn watched(State(api): State<Api>, Asked(query): Asked<WatchQuery>) -> Answer<Page<Watched>> {
    api.operator.watched(&query).await.map(Json)
}

async fn watch_add(State(api): State<Api>, Body(add): Body<WatchAdd>) -> Answer<Vec<WatchAdded>> {
    api.operator.watch_add(add.entries).await.map(Json)
}

async fn watch_import(State(api): State<Api>, request: Request) -> Result<Json<Vec<WatchAdded>>, Response> {
    let bytes = read(request, &api).await?;
    let text = std::str::from_utf8(&bytes).map_err(|_| OperatorError::invalid("the list is not UTF-8").into_response())?;
    let entries = import::json_lines(text).map_err(|error| OperatorError::invalid(error.to_string()).into_response())?;
    api.operator.watch_add(entries).await.map(Json).map_err(IntoResponse::into_response)
}

async fn watch_remove(State(api): State<Api>, Body(remove): Body<WatchRemove>) -> Answer<Counted> {
    api.operator.watch_remove(&remove.chain, remove.addresses).await.map(Json)
}

async fn deposits(State(api): State<Api>, Asked(query): Asked<DepositQuery>) -> Answer<Page<DepositView>> {
    api.operator.deposits(&query).await.map(Json)
}

async fn deliveries(State(api): State<Api>, Asked(query): Asked<DeliveryQuery>) -> Answer<Page<DeliveryView>> {
    api.operator.deliveries(&query).await.map(Json)
}

async fn delivery(State(api): State<Api>, Path(event): Path<String>) -> Answer<DeliveryDetail> {
    api.operator.delivery(&name::<EventId>(&event)?).await.map(Json)
}

async fn consumers(State(api): State<Api>) -> Answer<Vec<ConsumerView>> {
    api.operator.consumers().await.map(Json)
}

async fn requeue(State(api): State<Api>, Path(consumer): Path<String>, Body(request): Body<Requeue>) -> Answer<Counted> {
    api.operator.requeue(&name::<ConsumerName>(&consumer)?, request).await.map(Json)
}

async fn skip(State(api): State<Api>, Path(consumer): Path<String>, Body(skip): Body<Skip>) -> Answer<()> {
    api.operator.skip(&name::<ConsumerName>(&consumer)?, &skip.event).await.map(Json)
}

/// Why a consumer is paused.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Pause {
    why: Option<String>,
}

async fn pause(State(api): State<Api>, Path(consumer): Path<String>, Body(pause): Body<Pause>) -> Answer<()> {
    let why = pause.why.unwrap_or_else(|| "paused by an operator".to_owned());
    api.operator.pause(&name::<ConsumerName>(&consumer)?, Some(why)).await.map(Json)
}

async fn unpause(State(api): State<Api>, Path(consumer): Path<String>) -> Answer<()> {
    api.operator.pause(&name::<ConsumerName>(&consumer)?, None).await.map(Json)
}
