//! The page for people: how everything stands, and buttons for what an operator orders.
//!
//! Rendered here, complete without JavaScript; `page.js` only keeps marked regions fresh. Every text of the outside goes through
//! maud's escaping; there is no way to put markup in but this module's own templates.

mod addresses;
mod chain;
mod consumers;
mod deliveries;
mod delivery;
mod deposit;
mod deposits;
mod door;
mod fields;
mod format;
mod layout;
mod live;
mod login;
mod overview;
mod plot;
mod reorgs;
mod requeue;
mod rescans;
mod resume;
mod samples;
mod sessions;

pub(crate) use samples::Samples;

use crate::guard::Guard;
use crate::routes::Api;
use axum::Router;
use axum::extract::FromRef;
use axum::routing::{get, post};
use confirmd_core::{Clock, SystemClock, Timestamp};
use door::Door;
use http::header;
use std::sync::Arc;

/// What the page's handlers work with.
#[derive(Debug, Clone)]
pub(crate) struct Dashboard {
    api: Api,
    samples: Arc<Samples>,
    door: Arc<Door>,
}

impl Dashboard {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// What is counted, if anything is.
    async fn figures(&self) -> crate::Figures {
        match &self.api.metrics {
            Some(metrics) => metrics.figures().await.unwrap_or_default(),
            None => crate::Figures::default(),
        }
    }
}

impl FromRef<Dashboard> for Arc<Door> {
    fn from_ref(page: &Dashboard) -> Self {
        page.door.clone()
    }
}

/// The page's routes behind their own door.
pub(crate) fn router(api: Api, guard: Guard, samples: Arc<Samples>) -> Router {
    let door = Arc::new(Door::new(guard));
    let page = Dashboard { api, samples, door: door.clone() };
    Router::new()
        .route("/", get(overview::show))
        .route("/login", get(login::form).post(login::enter))
        .route("/logout", post(login::leave))
        .route("/chains/{chain}", get(chain::show))
        .route("/chains/{chain}/resume", get(resume::preview).post(resume::resume))
        .route("/deposits", get(deposits::list))
        .route("/deposits/{chain}/{tx_id}/{output_index}", get(deposit::show))
        .route("/transactions", get(deposits::explain))
        .route("/deliveries", get(deliveries::list))
        .route("/deliveries/requeue", post(requeue::requeue))
        .route("/deliveries/{event}", get(delivery::show))
        .route("/deliveries/{event}/skip", post(delivery::skip))
        .route("/consumers/{consumer}/pause", post(consumers::pause))
        .route("/consumers/{consumer}/resume", post(consumers::resume))
        .route("/consumers/{consumer}/test", post(consumers::test))
        .route("/addresses", get(addresses::list))
        .route("/addresses/add", post(addresses::add))
        .route("/addresses/remove", post(addresses::remove))
        .route("/live", get(live::stream))
        .route("/page.css", get(|| asset("text/css; charset=utf-8", include_str!("page.css"))))
        .route("/page.js", get(|| asset("text/javascript; charset=utf-8", include_str!("page.js"))))
        .route("/page.svg", get(|| asset("image/svg+xml", include_str!("page.svg"))))
        .layer(axum::middleware::from_fn_with_state(door, door::door))
        .with_state(page)
}

async fn asset(kind: &'static str, text: &'static str) -> ([(http::HeaderName, &'static str); 2], &'static str) {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text)
}
