//! The routes: each handler stands beside its description, and both come from one list.

mod addresses;
mod chains;
mod consumers;
mod deliveries;
mod deposits;
mod events;
mod instance;
mod metrics;
mod rescans;
mod state;

use crate::dashboard::{self, Samples};
use crate::guard::{Guard, guard};
use crate::openapi;
use crate::problem::{Problem, ProblemType};
use crate::{Metrics, Operator, OperatorError};
use axum::extract::DefaultBodyLimit;
use axum::{Json, Router};
use std::sync::Arc;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Most requests are a few hundred bytes.
const BODY_MAX: usize = 64 * 1024;
/// Lists of addresses: some 100,000 in one request.
const LIST_BODY_MAX: usize = 16 * 1024 * 1024;

/// What the handlers work with.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(crate) operator: Arc<dyn Operator>,
    /// What `/metrics` shows, if anything is counted.
    pub(crate) metrics: Option<Arc<dyn Metrics>>,
    /// Names this run of the instance.
    pub(crate) instance: Arc<str>,
    /// True once the instance stops.
    pub(crate) ending: tokio::sync::watch::Receiver<bool>,
}

type Answer<T> = Result<Json<T>, OperatorError>;

/// Every route with its description.
fn described() -> (Router<Api>, OpenApi) {
    let lists = OpenApiRouter::new()
        .routes(routes!(addresses::list, addresses::add, addresses::remove))
        .layer(DefaultBodyLimit::max(LIST_BODY_MAX));
    let streams = OpenApiRouter::new().routes(routes!(addresses::import)).layer(DefaultBodyLimit::disable());
    let (router, document) = OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(instance::healthz))
        .routes(routes!(instance::readyz))
        .routes(routes!(instance::document))
        .routes(routes!(instance::page))
        .routes(routes!(instance::status))
        .routes(routes!(instance::reload))
        .routes(routes!(state::export))
        .routes(routes!(metrics::metrics))
        .routes(routes!(chains::list))
        .routes(routes!(chains::show))
        .routes(routes!(chains::preview))
        .routes(routes!(chains::resume))
        .routes(routes!(rescans::list, rescans::start))
        .routes(routes!(rescans::pause))
        .routes(routes!(rescans::resume))
        .routes(routes!(rescans::cancel))
        .routes(routes!(rescans::coverage))
        .routes(routes!(deposits::list))
        .routes(routes!(deposits::show))
        .routes(routes!(deposits::explain))
        .routes(routes!(events::list))
        .routes(routes!(events::stream))
        .routes(routes!(events::cursors))
        .routes(routes!(events::put_cursor, events::remove_cursor))
        .routes(routes!(deliveries::dead))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::show))
        .routes(routes!(consumers::list))
        .routes(routes!(consumers::requeue))
        .routes(routes!(consumers::replay))
        .routes(routes!(consumers::test))
        .routes(routes!(consumers::skip))
        .routes(routes!(consumers::pause))
        .routes(routes!(consumers::resume))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .merge(lists)
        .merge(streams)
        .split_for_parts();
    (router, openapi::completed(document))
}

/// The document of every route.
pub(crate) fn document() -> OpenApi {
    described().1
}

/// Every route, behind the guard; and the page's, behind its own.
pub(crate) fn router(api: Api, by: Guard, samples: Arc<Samples>) -> Router {
    let page = dashboard::router(api.clone(), by.clone(), samples);
    described()
        .0
        .fallback(|| async { OperatorError::not_found("there is nothing at this path; GET /v1/docs shows what there is") })
        .method_not_allowed_fallback(|| async {
            Problem::response(
                ProblemType::MethodNotAllowed,
                "this path does not take this method; GET /v1/docs shows what it takes",
            )
        })
        .layer(axum::middleware::from_fn_with_state(by, guard))
        .with_state(api)
        .merge(page)
}
