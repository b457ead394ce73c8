//! A customer's server with a ledger to look into, by the documented rule or with one mistake.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use confirmd_testkit::http::{LoopbackServer, client};
use confirmd_testkit::receiver::Now;
use confirmd_testkit::{Receiver, ReceiverOptions};
use serde_json::{Value, json};

/// What every webhook of the trials is signed with; see the trials' configurations.
const SECRET: &str = "whsec_ZW5kLXRvLWVuZC10cmlhbHMtb2YtY29uZmlybWQtMDE=";

/// One mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    AcceptsAnySignature,
    IgnoresTime,
    IgnoresVersions,
    RefusesRepetitions,
    RemembersRefusals,
    RefusesTests,
    AnswersFirst,
    CreditsTwice,
    LastOneWins,
    ForgetsTheEpoch,
    ForgetsTheOutput,
    CountsInFloats,
}

type Key = (String, String, u64);

#[derive(Debug, Clone, Default)]
struct Row {
    order: (u64, u64),
    /// What stands, in base units; decimal.
    credited: String,
}

#[derive(Default)]
struct Books {
    rows: BTreeMap<Key, Row>,
    seen: Vec<Value>,
    ids: BTreeSet<String>,
    refused: BTreeSet<String>,
    waiting: Option<Value>,
}

struct Inner {
    flaw: Option<Flaw>,
    /// Checks signatures, by the documented rule; its own ledger is not looked at.
    guard: Receiver,
    books: Mutex<Books>,
}

/// A running desk.
pub(super) struct Desk {
    inner: Arc<Inner>,
    server: LoopbackServer,
}

impl Desk {
    pub(super) async fn start(flaw: Option<Flaw>) -> Result<Self> {
        let system: Now = Arc::new(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
        let now = (flaw != Some(Flaw::IgnoresTime)).then_some(system);
        let guard = Receiver::start(ReceiverOptions { secrets: vec![SECRET.to_owned()], now }).await?;
        let inner = Arc::new(Inner { flaw, guard, books: Mutex::default() });
        let app = Router::new().route("/hooks", post(receive)).route("/credits", get(look_up)).with_state(Arc::clone(&inner));
        Ok(Self { inner, server: LoopbackServer::start(app).await.context("start the desk")? })
    }

    pub(super) fn hooks(&self) -> String {
        format!("http://{}/hooks", self.server.address())
    }

    pub(super) fn ledger(&self) -> String {
        format!("http://{}/credits?tenant=7", self.server.address())
    }

    /// Every body that came in.
    pub(super) fn seen(&self) -> Vec<Value> {
        self.inner.books().seen.clone()
    }
}

impl Inner {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    async fn signed(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        let text = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
            let ours = name.as_str().starts_with("webhook-") || name.as_str().starts_with("x-confirmd-");
            ours.then(|| (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned()))
        };
        let headers: Vec<_> = headers.iter().filter_map(text).collect();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        client::post(&self.guard.url(), &headers, body).await.is_ok_and(|reply| reply.status == 204)
    }

    fn key(&self, event: &Value) -> Key {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let output = event["key"]["output_index"].as_u64().unwrap_or_default();
        (text(&event["chain"]), text(&event["key"]["tx_id"]), if self.is(Flaw::ForgetsTheOutput) { 0 } else { output })
    }

    /// The documented rule, or what somebody made of it.
    fn apply(&self, books: &mut Books, event: &Value) {
        let number = |name: &str| event[name].as_u64().unwrap_or_default();
        let order = (if self.is(Flaw::ForgetsTheEpoch) { 0 } else { number("epoch") }, number("sequence"));
        let stands = event["type"].as_str().is_some_and(|kind| kind.ends_with(".confirmed"));
        let mut amount = event["amount"].as_str().unwrap_or_default().to_owned();
        if self.is(Flaw::CountsInFloats) {
            amount = format!("{:.0}", amount.parse::<f64>().unwrap_or_default());
        }
        let row = books.rows.entry(self.key(event)).or_default();
        let repeated = order <= row.order;
        row.order = row.order.max(order);
        let standing: Option<u128> = row.credited.parse().ok();
        match self.flaw {
            Some(Flaw::CreditsTwice) if stands => {
                let sum = standing.unwrap_or_default().checked_add(amount.parse().unwrap_or_default());
                row.credited = sum.unwrap_or_default().to_string();
            }
            Some(Flaw::LastOneWins) => row.credited = if stands { amount } else { "0".to_owned() },
            _ if repeated => {}
            _ => row.credited = if stands { amount } else { "0".to_owned() },
        }
    }
}

async fn receive(State(desk): State<Arc<Inner>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let Ok(event) = serde_json::from_slice::<Value>(&body) else { return StatusCode::BAD_REQUEST };
    let signed = desk.signed(&headers, &body).await || desk.is(Flaw::AcceptsAnySignature);
    let id = event["id"].as_str().unwrap_or_default().to_owned();
    let mut books = desk.books();
    books.seen.push(event.clone());
    if let Some(waiting) = books.waiting.take() {
        desk.apply(&mut books, &waiting);
    }
    if desk.is(Flaw::RemembersRefusals) && books.refused.contains(&id) {
        return StatusCode::CONFLICT;
    }
    let known = event["version"] == 1 || desk.is(Flaw::IgnoresVersions);
    let refused = if !signed {
        Some(StatusCode::UNAUTHORIZED)
    } else if !known || desk.is(Flaw::RefusesTests) {
        Some(StatusCode::UNPROCESSABLE_ENTITY)
    } else {
        None
    };
    if let Some(status) = refused {
        books.refused.insert(id);
        return status;
    }
    if !books.ids.insert(id) && desk.is(Flaw::RefusesRepetitions) {
        return StatusCode::CONFLICT;
    }
    if desk.is(Flaw::AnswersFirst) {
        books.waiting = Some(event);
    } else {
        desk.apply(&mut books, &event);
    }
    StatusCode::NO_CONTENT
}

async fn look_up(State(desk): State<Arc<Inner>>, Query(asked): Query<BTreeMap<String, String>>) -> Response {
    let text = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let event = json!({ "chain": text("chain"),
        "key": { "tx_id": text("tx_id"), "output_index": text("output_index").parse::<u64>().unwrap_or(u64::MAX) } });
    match desk.books().rows.get(&desk.key(&event)) {
        Some(row) if text("tenant") == "7" => axum::Json(json!({ "credited": row.credited, "currency": "TEST" })).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}
