//! Attempts, pauses, permits and the deadline, in paused time.

use super::limits;
use super::node::{Manner, Node, Reply};
use crate::{Failure, RpcError};
use serde_json::Value;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

fn transient(error: &RpcError) -> (Option<Duration>, u32, Failure) {
    let RpcError::Transient { retry_after, context, source } = error else { panic!("{error:?}") };
    (*retry_after, context.attempts, (**source).clone())
}

#[tokio::test(start_paused = true)]
async fn a_warming_up_node_is_asked_until_it_answers() {
    let node =
        Node::new(|n, seen| if n < 30 { Reply::old_error(seen, 500, -28, "Verifying blocks…") } else { Reply::ok(seen, "7") });
    let client = node.client(&limits("attempts = 31\ndeadline = '10m'"));
    assert_eq!(client.call::<u64>("getblockcount", ()).await.unwrap(), 7);
    let health = &client.health()[0];
    assert_eq!((health.requests, health.failures, health.retries, health.permits), (31, 30, 30, 31));
    assert_eq!((health.failures_in_a_row, &health.last_error), (0, &None));
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_and_the_last_error_is_returned_with_their_number() {
    let node = Node::new(|n, seen| Reply::old_error(seen, 500, -28, &format!("step {n}")));
    let client = node.client(&limits("attempts = 3"));
    let error = client.call::<Value>("getblockcount", ()).await.unwrap_err();
    let (retry_after, attempts, failure) = transient(&error);
    assert_eq!((retry_after, attempts, node.requests()), (None, 3, 3));
    assert!(failure.to_string().contains("step 2"), "{failure}");
    assert_eq!(error.to_string(), "asked http://node.test for getblockcount 3 times");
    let health = &client.health()[0];
    assert_eq!((health.requests, health.permits, health.throttled), (3, 3, 3), "each attempt takes a permit");
    assert!(health.last_error.as_ref().unwrap().contains("step 2"));
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_and_repeat_with_the_same_seed() {
    let run = || async {
        let node = Node::new(|_, _| Reply::new(503, "busy"));
        let client = node.client(&limits("attempts = 5"));
        let start = Instant::now();
        client.call::<Value>("m", ()).await.unwrap_err();
        start.elapsed()
    };
    let (first, second) = (run().await, run().await);
    assert_eq!(first, second);
    let (least, most) = (Duration::from_millis(250 + 500 + 1000 + 2000), Duration::from_millis(2 * 3750 + 5));
    assert!((least..=most).contains(&first), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_in_seconds_and_as_a_date() {
    for value in ["7", "Thu, 01 Jan 1970 00:01:47 GMT"] {
        let node = Node::new(
            move |n, seen| if n == 0 { Reply::new(429, "").header("retry-after", value) } else { Reply::ok(seen, "1") },
        );
        let client = super::node::network(&[("node.test", &node)])
            .wall_clock(|| SystemTime::UNIX_EPOCH + Duration::from_secs(100))
            .build(&[super::endpoint("url = 'http://node.test'")], &limits(""))
            .unwrap();
        let start = Instant::now();
        assert_eq!(client.call::<u64>("m", ()).await.unwrap(), 1);
        assert_eq!(start.elapsed().as_secs(), 7, "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_beyond_the_deadline_is_passed_on_at_once_and_kept() {
    let node = Node::new(|n, seen| if n == 0 { Reply::new(429, "").header("retry-after", "90") } else { Reply::ok(seen, "1") });
    let client = node.client(&limits("deadline = '30s'"));
    let start = Instant::now();
    let error = client.call::<Value>("m", ()).await.unwrap_err();
    assert_eq!(transient(&error).0, Some(Duration::from_secs(90)));
    assert!(start.elapsed() < Duration::from_secs(1));
    // A caller that comes back too early does not reach the node.
    let (retry_after, attempts, failure) = transient(&client.call::<Value>("m", ()).await.unwrap_err());
    assert_eq!((attempts, node.requests()), (0, 1));
    assert!(matches!(failure, Failure::Paused(_)) && retry_after > Some(Duration::from_secs(89)));
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(client.call::<u64>("m", ()).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_endless_retry_after_is_capped() {
    let node = Node::new(|_, _| Reply::new(503, "").header("retry-after", "86400"));
    let error = node.client(&limits("")).call::<Value>("m", ()).await.unwrap_err();
    assert_eq!(transient(&error).0, Some(crate::retry_after::RETRY_AFTER_MAX));
}

#[tokio::test(start_paused = true)]
async fn no_call_outlasts_its_deadline_whatever_the_node_does() {
    for manner in [Manner::Hang, Manner::Close] {
        let node = Node::new(move |_, _| Reply::manner(manner));
        let client = node.client(&limits("attempts = 1000\ndeadline = '12s'\nrequest_timeout = '5s'"));
        let start = Instant::now();
        let error = client.call::<Value>("m", ()).await.unwrap_err();
        assert!(start.elapsed() <= Duration::from_secs(12), "{manner:?} {:?}", start.elapsed());
        assert!(transient(&error).1 >= 2, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_one_endpoint_replaces_the_common_one() {
    let node = Node::new(|_, _| Reply::manner(Manner::Hang));
    let slow = super::endpoint("url = 'http://node.test'\ntimeout = '2s'");
    let client = node.client_with(&limits("attempts = 1"), &[slow]);
    let start = Instant::now();
    let error = client.call::<Value>("m", ()).await.unwrap_err();
    assert_eq!(transient(&error).2, Failure::TimedOut(Duration::from_secs(2)));
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn attempts_wait_for_permits_and_a_limit_without_room_asks_nobody() {
    let node = Node::new(|_, seen| Reply::ok(seen, "1"));
    let client = node.client(&limits("requests_per_second = 2\nburst = 1\ndeadline = '3s'"));
    let start = Instant::now();
    for _ in 0..5 {
        client.call::<u64>("m", ()).await.unwrap();
    }
    assert_eq!(start.elapsed().as_millis() / 100, 20);
    let calls = vec![("m", ()); 20];
    let (_, attempts, failure) = transient(&client.batch::<u64>(calls).await.unwrap_err());
    assert!(matches!(failure, Failure::NoPermit(_)), "{failure:?}");
    assert_eq!((attempts, node.requests(), client.generation()), (0, 5, 0));
}

#[tokio::test(start_paused = true)]
async fn calls_at_the_same_time_share_the_limit_and_get_their_own_answers() {
    let node =
        Node::new(|n, seen| if n % 3 == 0 { Reply::new(503, "busy") } else { Reply::ok(seen, &seen.ids()[0].to_string()) });
    let client = node.client(&limits("requests_per_second = 10\nburst = 5\nattempts = 30\ndeadline = '5m'"));
    let start = Instant::now();
    let answers = futures_of(&client, 40).await;
    assert!(answers.iter().all(Result::is_ok));
    let health = &client.health()[0];
    assert_eq!(health.permits, health.requests);
    assert!(start.elapsed() >= Duration::from_millis((health.requests - 5) * 100), "{:?}", start.elapsed());
}

async fn futures_of(client: &crate::RpcClient, calls: usize) -> Vec<Result<u64, RpcError>> {
    let mut running: Vec<_> = (0..calls).map(|_| Box::pin(client.call::<u64>("m", ()))).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|cx| {
        running.retain_mut(|call| match call.as_mut().poll(cx) {
            std::task::Poll::Ready(answer) => {
                done.push(answer);
                false
            }
            std::task::Poll::Pending => true,
        });
        if running.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_the_client_usable() {
    let node = Node::new(|n, seen| if n == 0 { Reply::manner(Manner::Hang) } else { Reply::ok(seen, "1") });
    let client = node.client(&limits("burst = 1\nrequests_per_second = 1"));
    assert!(tokio::time::timeout(Duration::from_millis(100), client.call::<u64>("m", ())).await.is_err());
    assert_eq!(node.requests(), 1);
    // One dropped while it waits for its permit, too.
    assert!(tokio::time::timeout(Duration::from_millis(100), client.call::<u64>("m", ())).await.is_err());
    assert_eq!(node.requests(), 1);
    assert_eq!(client.call::<u64>("m", ()).await.unwrap(), 1);
}

#[test]
fn calls_can_be_awaited_by_any_thread() {
    fn checked(_: impl Send) {}
    let client = Node::new(|_, _| Reply::manner(Manner::Close)).client(&limits(""));
    checked(client.call::<u64>("m", ("a", 1)));
    checked(client.batch::<Value>(vec![("m", Value::Null)]));
    checked(client.batch_in_parts::<Value>(vec![("m", Value::Null)], 1));
    checked(client.rest_get("/"));
}
