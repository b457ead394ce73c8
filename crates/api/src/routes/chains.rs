//! Chains.

use super::{Answer, Api};
use crate::extract::{At, Body, name};
use crate::schema::ChainNameSchema;
use crate::view::{ChainDetail, ChainView, ResumeRequest, ResumeView};
use axum::Json;
use axum::extract::State;
use confirmd_core::ChainName;

/// Every configured chain: what it does, how far it is, what is wrong.
#[utoipa::path(get, path = "/v1/chains", tag = "chains", responses((status = 200, body = Vec<ChainView>)))]
pub(super) async fn list(State(api): State<Api>) -> Answer<Vec<ChainView>> {
    api.operator.status().await.map(|status| Json(status.chains))
}

/// One chain, looked at closely.
///
/// Its node is asked, within a few seconds: lag in seconds, endpoints and their health, past reorgs.
#[utoipa::path(get, path = "/v1/chains/{chain}", tag = "chains", params(("chain" = ChainNameSchema, Path, description = "The operator's name")),
    responses((status = 200, body = ChainDetail)))]
pub(super) async fn show(State(api): State<Api>, At(chain): At<String>) -> Answer<ChainDetail> {
    api.operator.chain(&name::<ChainName>(&chain)?).await.map(Json)
}

/// What resuming a halted chain would revert, drop and list.
///
/// Changes nothing. The acknowledgement is not asked for.
#[utoipa::path(post, path = "/v1/chains/{chain}/resume/preview", tag = "chains", params(("chain" = ChainNameSchema, Path, description = "The operator's name")),
    request_body = ResumeRequest, responses((status = 200, body = ResumeView)))]
pub(super) async fn preview(
    State(api): State<Api>,
    At(chain): At<String>,
    Body(request): Body<ResumeRequest>,
) -> Answer<ResumeView> {
    api.operator.preview(&name::<ChainName>(&chain)?, request).await.map(Json)
}

/// Resume a halted chain.
///
/// A reorg below the floor must be accepted by name.
#[utoipa::path(post, path = "/v1/chains/{chain}/resume", tag = "chains", params(("chain" = ChainNameSchema, Path, description = "The operator's name")),
    request_body = ResumeRequest, responses((status = 200, body = ResumeView)))]
pub(super) async fn resume(
    State(api): State<Api>,
    At(chain): At<String>,
    Body(request): Body<ResumeRequest>,
) -> Answer<ResumeView> {
    api.operator.resume(&name::<ChainName>(&chain)?, request).await.map(Json)
}
