//! Deliveries.

use super::{Answer, Api};
use crate::Page;
use crate::extract::{Asked, At, name};
use crate::schema::EventIdSchema;
use crate::view::{DeadGroup, DeadQuery, DeliveryDetail, DeliveryQuery, DeliveryView};
use axum::Json;
use axum::extract::State;
use confirmd_core::EventId;

/// Undelivered and skipped deliveries in outbox order; what was delivered by consumer and newest first, if that is asked for; of one
/// event, all.
#[utoipa::path(get, path = "/v1/deliveries", tag = "deliveries", params(DeliveryQuery),
    responses((status = 200, body = Page<DeliveryView>)))]
pub(super) async fn list(State(api): State<Api>, Asked(query): Asked<DeliveryQuery>) -> Answer<Page<DeliveryView>> {
    api.operator.deliveries(&query).await.map(Json)
}

/// One event: its body, and how it went with each consumer, attempt by attempt.
#[utoipa::path(get, path = "/v1/deliveries/{event}", tag = "deliveries", params(("event" = EventIdSchema, Path, description = "The event's id")),
    responses((status = 200, body = DeliveryDetail)))]
pub(super) async fn show(State(api): State<Api>, At(event): At<String>) -> Answer<DeliveryDetail> {
    api.operator.delivery(&name::<EventId>(&event)?).await.map(Json)
}

/// Dead letters grouped by consumer, last status and error, largest group first.
#[utoipa::path(get, path = "/v1/dead-letters", tag = "deliveries", params(DeadQuery), responses((status = 200, body = Vec<DeadGroup>)))]
pub(super) async fn dead(State(api): State<Api>, Asked(query): Asked<DeadQuery>) -> Answer<Vec<DeadGroup>> {
    api.operator.dead_letters(&query).await.map(Json)
}
