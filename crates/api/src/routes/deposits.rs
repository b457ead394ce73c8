//! Deposits.

use super::{Answer, Api};
use crate::Page;
use crate::extract::{Asked, At, name};
use crate::schema::ChainNameSchema;
use crate::view::{DepositLife, DepositQuery, DepositView, ExplainQuery, Explanation};
use axum::Json;
use axum::extract::State;
use confirmd_core::ChainName;

/// Deposits, newest first by the time they were first seen.
#[utoipa::path(get, path = "/v1/deposits", tag = "deposits", params(DepositQuery), responses((status = 200, body = Page<DepositView>)))]
pub(super) async fn list(State(api): State<Api>, Asked(query): Asked<DepositQuery>) -> Answer<Page<DepositView>> {
    api.operator.deposits(&query).await.map(Json)
}

/// One deposit and its whole life within history.
///
/// The blocks it lived in, decisions with the rule that made them, reorgs, and delivery attempts where more than one was needed.
#[utoipa::path(get, path = "/v1/chains/{chain}/deposits/{tx_id}/{output_index}", tag = "deposits",
    params(("chain" = ChainNameSchema, Path, description = "The operator's name"), ("tx_id" = String, Path, description = "The transaction"),
        ("output_index" = u32, Path, description = "The output")),
    responses((status = 200, body = DepositLife)))]
pub(super) async fn show(
    State(api): State<Api>,
    At((chain, tx_id, output_index)): At<(String, String, u32)>,
) -> Answer<DepositLife> {
    api.operator.deposit(&name::<ChainName>(&chain)?, &tx_id, output_index).await.map(Json)
}

/// Why a transaction produced what it did, or nothing.
///
/// Says from our records what it can; with `height` (and better `address`) the node is asked for that block. What it can't tell it says.
#[utoipa::path(get, path = "/v1/chains/{chain}/transactions/{tx_id}/explanation", tag = "deposits",
    params(("chain" = ChainNameSchema, Path, description = "The operator's name"), ("tx_id" = String, Path, description = "The transaction"), ExplainQuery),
    responses((status = 200, body = Explanation)))]
pub(super) async fn explain(
    State(api): State<Api>,
    At((chain, tx_id)): At<(String, String)>,
    Asked(query): Asked<ExplainQuery>,
) -> Answer<Explanation> {
    api.operator.explain(&name::<ChainName>(&chain)?, &tx_id, &query).await.map(Json)
}
