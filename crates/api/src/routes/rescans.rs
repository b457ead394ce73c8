//! Rescans of a chain.

use super::{Answer, Api};
use crate::OperatorError;
use crate::extract::{Asked, At, Body, name};
use crate::schema::ChainNameSchema;
use crate::view::{Coverage, CoverageQuery, Done, RescanOrder, RescanRequest, RescanView};
use axum::Json;
use axum::extract::State;
use confirmd_core::ChainName;

/// Rescans of a chain: those that are under way with their pace, and those that have ended.
#[utoipa::path(get, path = "/v1/chains/{chain}/rescans", tag = "rescans", params(("chain" = ChainNameSchema, Path, description = "The operator's name")),
    responses((status = 200, body = Vec<RescanView>)))]
pub(super) async fn list(State(api): State<Api>, At(chain): At<String>) -> Answer<Vec<RescanView>> {
    api.operator.rescans(&name::<ChainName>(&chain)?).await.map(Json)
}

/// Read past blocks again for what is watched already.
///
/// For every address, in every listed asset or in one. Only what is missing is told. Addresses with a history of their own are added with
/// `from_height`.
#[utoipa::path(post, path = "/v1/chains/{chain}/rescans", tag = "rescans", params(("chain" = ChainNameSchema, Path, description = "The operator's name")),
    request_body = RescanRequest, responses((status = 200, body = RescanView)))]
pub(super) async fn start(
    State(api): State<Api>,
    At(chain): At<String>,
    Body(request): Body<RescanRequest>,
) -> Answer<RescanView> {
    api.operator.rescan(&name::<ChainName>(&chain)?, request).await.map(Json)
}

/// Read nothing for a rescan for a while.
#[utoipa::path(post, path = "/v1/chains/{chain}/rescans/{id}/pause", tag = "rescans", params(("chain" = ChainNameSchema, Path, description = "The operator's name"),
    ("id" = u64, Path, description = "The rescan's number")), request_body = Done, responses((status = 200, body = RescanView)))]
pub(super) async fn pause(State(api): State<Api>, At((chain, id)): At<(String, String)>, _: Body<Done>) -> Answer<RescanView> {
    order(&api, &chain, &id, RescanOrder::Pause).await
}

/// Go on with a rescan that was paused or failed.
#[utoipa::path(post, path = "/v1/chains/{chain}/rescans/{id}/resume", tag = "rescans", params(("chain" = ChainNameSchema, Path, description = "The operator's name"),
    ("id" = u64, Path, description = "The rescan's number")), request_body = Done, responses((status = 200, body = RescanView)))]
pub(super) async fn resume(State(api): State<Api>, At((chain, id)): At<(String, String)>, _: Body<Done>) -> Answer<RescanView> {
    order(&api, &chain, &id, RescanOrder::Resume).await
}

/// Give a rescan up; what it found stays.
#[utoipa::path(post, path = "/v1/chains/{chain}/rescans/{id}/cancel", tag = "rescans", params(("chain" = ChainNameSchema, Path, description = "The operator's name"),
    ("id" = u64, Path, description = "The rescan's number")), request_body = Done, responses((status = 200, body = RescanView)))]
pub(super) async fn cancel(State(api): State<Api>, At((chain, id)): At<(String, String)>, _: Body<Done>) -> Answer<RescanView> {
    order(&api, &chain, &id, RescanOrder::Cancel).await
}

/// Which heights were read for an address, and by what.
#[utoipa::path(get, path = "/v1/chains/{chain}/coverage", tag = "rescans", params(("chain" = ChainNameSchema, Path, description = "The operator's name"), CoverageQuery),
    responses((status = 200, body = Coverage)))]
pub(super) async fn coverage(
    State(api): State<Api>,
    At(chain): At<String>,
    Asked(query): Asked<CoverageQuery>,
) -> Answer<Coverage> {
    api.operator.coverage(&name::<ChainName>(&chain)?, &query).await.map(Json)
}

async fn order(api: &Api, chain: &str, id: &str, order: RescanOrder) -> Answer<RescanView> {
    let number = id
        .parse()
        .map_err(|_| OperatorError::invalid(format!("{id:?} is not a rescan's number; the list shows those there are")))?;
    api.operator.order_rescan(&name::<ChainName>(chain)?, number, order).await.map(Json)
}
