//! Consumers, and what can be ordered for one.

use super::{Answer, Api};
use crate::extract::{At, Body, name};
use crate::orders_schema::{ReplaySchema, RequeueSchema};
use crate::schema::ConsumerNameSchema;
use crate::view::{ConsumerView, Counted, Done, Pause, Replay, Requeue, Skip, TestResult};
use axum::Json;
use axum::extract::State;
use confirmd_core::ConsumerName;

/// Every consumer with records.
#[utoipa::path(get, path = "/v1/consumers", tag = "consumers", responses((status = 200, body = Vec<ConsumerView>)))]
pub(super) async fn list(State(api): State<Api>) -> Answer<Vec<ConsumerView>> {
    api.operator.consumers().await.map(Json)
}

/// Queue undelivered events again with fresh attempts, each with what waits behind it in its key.
#[utoipa::path(post, path = "/v1/consumers/{consumer}/requeue", tag = "deliveries", params(("consumer" = ConsumerNameSchema, Path, description = "Its name")),
    request_body = RequeueSchema, responses((status = 200, body = Counted)))]
pub(super) async fn requeue(State(api): State<Api>, At(consumer): At<String>, Body(request): Body<Requeue>) -> Answer<Counted> {
    api.operator.requeue(&name::<ConsumerName>(&consumer)?, request).await.map(Json)
}

/// Give one undelivered event up for this consumer, on record.
#[utoipa::path(post, path = "/v1/consumers/{consumer}/skip", tag = "deliveries", params(("consumer" = ConsumerNameSchema, Path, description = "Its name")),
    request_body = Skip, responses((status = 200, body = Done)))]
pub(super) async fn skip(State(api): State<Api>, At(consumer): At<String>, Body(skip): Body<Skip>) -> Answer<Done> {
    api.operator.skip(&name::<ConsumerName>(&consumer)?, &skip.event).await.map(|()| Json(Done {}))
}

/// Stop attempts. Loses nothing. The first reason of a pause is kept.
#[utoipa::path(post, path = "/v1/consumers/{consumer}/pause", tag = "consumers", params(("consumer" = ConsumerNameSchema, Path, description = "Its name")),
    request_body = Pause, responses((status = 200, body = ConsumerView)))]
pub(super) async fn pause(State(api): State<Api>, At(consumer): At<String>, Body(pause): Body<Pause>) -> Answer<ConsumerView> {
    let why = pause.why.unwrap_or_else(|| "paused by an operator".to_owned());
    api.operator.pause(&name::<ConsumerName>(&consumer)?, Some(why)).await.map(Json)
}

/// Go on after a pause.
#[utoipa::path(post, path = "/v1/consumers/{consumer}/resume", tag = "consumers", params(("consumer" = ConsumerNameSchema, Path, description = "Its name")),
    responses((status = 200, body = ConsumerView)))]
pub(super) async fn resume(State(api): State<Api>, At(consumer): At<String>) -> Answer<ConsumerView> {
    api.operator.pause(&name::<ConsumerName>(&consumer)?, None).await.map(Json)
}

/// Send events again, delivered ones too: same ids, same bytes, in the order of each deposit, at a bounded rate.
#[utoipa::path(post, path = "/v1/consumers/{consumer}/replay", tag = "deliveries", params(("consumer" = ConsumerNameSchema, Path, description = "Its name")),
    request_body = ReplaySchema, responses((status = 200, body = Counted)))]
pub(super) async fn replay(State(api): State<Api>, At(consumer): At<String>, Body(request): Body<Replay>) -> Answer<Counted> {
    api.operator.replay(&name::<ConsumerName>(&consumer)?, request).await.map(Json)
}

/// Send one event that is marked as a test, and say how it went.
///
/// Its type is `confirmd.test`; it is no deposit and leaves no record.
#[utoipa::path(post, path = "/v1/consumers/{consumer}/test", tag = "consumers", params(("consumer" = ConsumerNameSchema, Path, description = "Its name")),
    responses((status = 200, body = TestResult)))]
pub(super) async fn test(State(api): State<Api>, At(consumer): At<String>) -> Answer<TestResult> {
    api.operator.test_event(&name::<ConsumerName>(&consumer)?).await.map(Json)
}
