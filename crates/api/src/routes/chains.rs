//! Chains.

use super::{Answer, Api};
use crate::extract::{At, Body, name};
use crate::view::{ChainView, ResumeRequest, ResumeView};
use axum::Json;
use axum::extract::State;
use confirmd_core::ChainName;

/// Every configured chain: what it does, how far it is, what is wrong.
#[utoipa::path(get, path = "/v1/chains", tag = "chains", responses((status = 200, body = Vec<ChainView>)))]
pub(super) async fn list(State(api): State<Api>) -> Answer<Vec<ChainView>> {
    api.operator.status().await.map(|status| Json(status.chains))
}

/// Resume a halted chain.
///
/// A reorg below the floor must be accepted by name.
#[utoipa::path(post, path = "/v1/chains/{chain}/resume", tag = "chains", params(("chain" = String, Path, description = "The operator's name")),
    request_body = ResumeRequest, responses((status = 200, body = ResumeView)))]
pub(super) async fn resume(
    State(api): State<Api>,
    At(chain): At<String>,
    Body(request): Body<ResumeRequest>,
) -> Answer<ResumeView> {
    api.operator.resume(&name::<ChainName>(&chain)?, request).await.map(Json)
}
