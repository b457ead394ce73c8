//! Deposits.

use super::{Answer, Api};
use crate::Page;
use crate::extract::Asked;
use crate::view::{DepositQuery, DepositView};
use axum::Json;
use axum::extract::State;

/// Deposits, newest first by the time they were first seen.
#[utoipa::path(get, path = "/v1/deposits", tag = "deposits", params(DepositQuery), responses((status = 200, body = Page<DepositView>)))]
pub(super) async fn list(State(api): State<Api>, Asked(query): Asked<DepositQuery>) -> Answer<Page<DepositView>> {
    api.operator.deposits(&query).await.map(Json)
}
