//! A delivery to a receiver: judged against the chains at once, then met as the receiver's weather has it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::Response;
use confirmd_testkit::receiver::{EventType, WireEvent};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::weather::{Weather, behaviour};
use super::world::World;

struct Desk {
    world: Arc<World>,
    host: String,
    receiver: usize,
    life: u64,
}

/// Serves a receiver to one life.
pub(super) fn router(world: Arc<World>, host: String, receiver: usize, life: u64) -> Router {
    Router::new().fallback(answer).with_state(Arc::new(Desk { world, host, receiver, life }))
}

async fn answer(State(desk): State<Arc<Desk>>, request: Request<Body>) -> Response {
    let (world, life) = (&desk.world, desk.life);
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes) else { return closed() };
    world.only_for(life).await;
    let condition = world.condition(&desk.host);
    if condition.weather == Weather::Down {
        return closed();
    }
    world.deliveries.fetch_add(1, SeqCst);
    world.record.fact(&world.clock, &format!("{} <-", desk.host), &body);
    if let Ok(event) = serde_json::from_slice(&body) {
        judge(world, &event);
    }
    world.point("delivery");
    let Some(receiver) = world.receivers.get(desk.receiver) else { return closed() };
    let behaviour = behaviour(condition.weather, &world.luck);
    world.record.fact(&world.clock, &format!("{} {behaviour:?}", desk.host), b"");
    receiver.next(1, behaviour);
    // What has arrived is carried out, even if who sent it dies meanwhile.
    let carried_out = tokio::spawn(receiver.app().oneshot(Request::from_parts(head, Body::from(body))));
    let Ok(Ok(response)) = carried_out.await else { return closed() };
    world.record.fact(&world.clock, &format!("{} -> {}", desk.host, response.status()), b"");
    world.point("acknowledgement");
    world.only_for(life).await;
    response
}

fn closed() -> Response {
    confirmd_testkit::http::close_connection()
}

/// What may be said of an event the moment it is told.
pub(super) fn judge(world: &World, event: &WireEvent) {
    let Some(chain) = world.chains.iter().find(|chain| chain.id() == event.chain) else {
        return world.problem(format!("{}: {} is no chain of this run", event.id, event.chain));
    };
    match event.kind {
        EventType::Confirmed => {
            let most = chain.highest().saturating_sub(event.block.height).saturating_add(1);
            if event.confirmations < chain.confirmations || event.confirmations > most {
                let (told, asked) = (event.confirmations, chain.confirmations);
                world.problem(format!("{}: confirmed with {told} confirmations, asked for {asked}, possible {most}", event.id));
            }
        }
        EventType::Reverted => {
            if !chain.was_orphaned(&event.block.hash) {
                world.problem(format!("{}: reverted, but block {} never left the best chain", event.id, event.block.hash));
            }
        }
    }
}
