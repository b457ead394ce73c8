//! A request to a node: seen, perhaps spoilt, answered as the endpoint's view has it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use http_body_util::BodyExt;
use hyper::body::Frame;
use serde_json::Value;
use tower::ServiceExt;

use super::weather::{NodeFault, Weather};
use super::world::World;

struct Endpoint {
    world: Arc<World>,
    host: String,
    chain: usize,
    life: u64,
}

/// Serves one endpoint of a chain to one life.
pub(super) fn router(world: Arc<World>, host: String, chain: usize, life: u64) -> Router {
    Router::new().fallback(answer).with_state(Arc::new(Endpoint { world, host, chain, life }))
}

async fn answer(State(endpoint): State<Arc<Endpoint>>, request: Request<Body>) -> Response {
    let (world, life) = (&endpoint.world, endpoint.life);
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes) else { return closed() };
    world.only_for(life).await;
    world.record.fact(&world.clock, &format!("{} <-", endpoint.host), &body);
    world.point("request");
    world.only_for(life).await;
    if asks_for_the_tip(&body) {
        world.ticks.fetch_add(1, SeqCst);
    }
    delay(world).await;
    let condition = world.condition(&endpoint.host);
    if condition.weather == Weather::Down {
        return closed();
    }
    let fault = NodeFault::next(condition.weather, &world.luck);
    if let NodeFault::Slow(time) = fault {
        tokio::time::sleep(time).await;
    }
    let Some(chain) = world.chains.get(endpoint.chain) else { return closed() };
    let asked = Request::from_parts(head, Body::from(body.clone()));
    // The node answers at once or never: the view holds only for the moment of the answer.
    let answered = chain.seen_by(&condition.view, || chain.app().oneshot(asked).now_or_never());
    let Some(Ok(answered)) = answered else { return closed() };
    let status = answered.status();
    let Ok(text) = answered.into_body().collect().await.map(http_body_util::Collected::to_bytes) else { return closed() };
    let response = spoil(world, fault, &body, status, text).await;
    world.record.fact(&world.clock, &format!("{} -> {fault:?} {}", endpoint.host, response.0), &response.1);
    world.point("response");
    world.only_for(life).await;
    delay(world).await;
    world.only_for(life).await;
    response.into_response(fault)
}

/// What goes back: status, text, `Retry-After`.
struct Answer(StatusCode, Bytes, Option<u64>);

impl Answer {
    fn into_response(self, fault: NodeFault) -> Response {
        let Self(status, text, retry_after) = self;
        let json = [(header::CONTENT_TYPE, "application/json")];
        match fault {
            NodeFault::Close => closed(),
            NodeFault::CutOff => {
                (status, json, Body::new(Half(text.get(..text.len() / 2).map(Bytes::copy_from_slice)))).into_response()
            }
            _ => {
                let mut response = (status, json, text).into_response();
                if let Some(seconds) = retry_after {
                    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
                }
                response
            }
        }
    }
}

async fn spoil(world: &World, fault: NodeFault, asked: &[u8], status: StatusCode, text: Bytes) -> Answer {
    match fault {
        NodeFault::Hang => std::future::pending().await,
        NodeFault::Throttled(seconds) => Answer(StatusCode::TOO_MANY_REQUESTS, "slow down".into(), Some(seconds)),
        NodeFault::Page(code) => {
            let status = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
            Answer(status, "<html><body>Bad gateway</body></html>".into(), None)
        }
        NodeFault::Garbage => {
            let end = usize::try_from(world.luck.below(u64::try_from(text.len()).unwrap_or(0))).unwrap_or(0);
            Answer(status, text.slice(..end), None)
        }
        NodeFault::Null => Answer(status, rewritten(&text, asked, |_| Some(Value::Null)), None),
        NodeFault::Empty => Answer(status, rewritten(&text, asked, emptied), None),
        NodeFault::None | NodeFault::Close | NodeFault::Slow(_) | NodeFault::CutOff => Answer(status, text, None),
    }
}

/// An empty list for the logs of one block. Of a range far below the tip only the end is proven (S9): a node that leaves
/// something out there is believed, and a run that lies so would test nothing.
fn emptied(call: &Value) -> Option<Value> {
    let filter = call.get("params").and_then(|params| params.get(0));
    let of_a_block = filter.and_then(|filter| filter.get("blockHash")).is_some();
    let logs = call.get("method").and_then(Value::as_str) == Some("eth_getLogs");
    (logs && of_a_block).then(|| Value::Array(Vec::new()))
}

/// The answer with other results where `result` has one for the call.
fn rewritten(text: &Bytes, asked: &[u8], result: impl Fn(&Value) -> Option<Value>) -> Bytes {
    let (Ok(calls), Ok(mut answer)) = (serde_json::from_slice::<Value>(asked), serde_json::from_slice::<Value>(text)) else {
        return text.clone();
    };
    let calls: Vec<&Value> = calls.as_array().map_or_else(|| vec![&calls], |calls| calls.iter().collect());
    let replies: Vec<&mut Value> = match &mut answer {
        Value::Array(replies) => replies.iter_mut().collect(),
        one => vec![one],
    };
    for reply in replies {
        let call = calls.iter().find(|call| call.get("id") == reply.get("id"));
        let other = call.and_then(|call| result(call));
        if let (Some(other), Some(place)) = (other, reply.get_mut("result")) {
            *place = other;
        }
    }
    serde_json::to_vec(&answer).map_or_else(|_| text.clone(), Bytes::from)
}

fn asks_for_the_tip(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    text.contains("getblockchaininfo") || text.contains("\"latest\"")
}

/// Networks take their time, now and then.
async fn delay(world: &World) {
    if world.luck.percent(30) {
        tokio::time::sleep(world.luck.up_to_ms(60)).await;
    } else if world.luck.percent(1) {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

fn closed() -> Response {
    confirmd_testkit::http::close_connection()
}

/// The first half of an answer, then the connection breaks.
struct Half(Option<Bytes>);

impl hyper::body::Body for Half {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(Some(self.0.take().map(Frame::data).ok_or_else(|| io::Error::other("cut on purpose"))))
    }
}
