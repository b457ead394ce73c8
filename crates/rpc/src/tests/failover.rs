//! Several endpoints, and the notice that another node may be answering.

use super::node::{Manner, Node, Reply, network};
use super::{endpoint, limits};
use crate::{EndpointConfig, RpcClient, RpcError};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

fn two() -> [EndpointConfig; 2] {
    [endpoint("url = 'http://a.test'"), endpoint("url = 'http://b.test'")]
}

#[tokio::test(start_paused = true)]
async fn a_call_stays_with_its_endpoint_and_the_next_one_goes_on() {
    let down = Node::new(|_, _| Reply::new(503, "busy"));
    let up = Node::new(|_, seen| Reply::ok(seen, "1"));
    let client = network(&[("a.test", &down), ("b.test", &up)]).build(&two(), &limits("attempts = 3")).unwrap();
    assert!(matches!(client.call::<Value>("m", ()).await, Err(RpcError::Transient { .. })));
    assert_eq!((down.requests(), up.requests(), client.endpoint_index(), client.generation()), (3, 0, 1, 1));
    for _ in 0..3 {
        client.call::<u64>("m", ()).await.unwrap();
    }
    assert_eq!((down.requests(), up.requests(), client.endpoint_index(), client.generation()), (3, 3, 1, 1));
    let health = client.health();
    assert_eq!((health[0].active, health[1].active, health[0].throttled), (false, true, 3));
}

#[tokio::test(start_paused = true)]
async fn errors_about_a_call_and_bad_credentials_change_no_endpoint() {
    let node = Node::new(|n, seen| if n == 0 { Reply::old_error(seen, 500, -8, "out of range") } else { Reply::new(401, "") });
    let client = network(&[("a.test", &node)]).build(&two(), &limits("")).unwrap();
    assert!(matches!(client.call::<Value>("m", ()).await, Err(RpcError::Call(_))));
    assert!(matches!(client.call::<Value>("m", ()).await, Err(RpcError::Fatal { .. })));
    assert_eq!((client.endpoint_index(), client.generation()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn calls_that_fail_together_turn_one_page_only() {
    let down = Node::new(|_, _| Reply::manner(Manner::Close));
    let client = network(&[("a.test", &down), ("b.test", &down)]).build(&two(), &limits("attempts = 1")).unwrap();
    let call = || client.call::<Value>("m", ());
    let (first, second) = tokio::join!(call(), call());
    assert!(first.is_err() && second.is_err());
    assert_eq!((client.endpoint_index(), client.generation()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_first_success_after_a_lost_connection_is_noticed() {
    let up = Arc::new(AtomicBool::new(false));
    let node = Node::new({
        let up = up.clone();
        move |_, seen| if up.load(SeqCst) { Reply::ok(seen, "1") } else { Reply::manner(Manner::Close) }
    });
    let client = node.client(&limits("attempts = 1"));
    client.call::<Value>("m", ()).await.unwrap_err();
    assert_eq!(client.generation(), 0);
    up.store(true, SeqCst);
    client.call::<u64>("m", ()).await.unwrap();
    client.call::<u64>("m", ()).await.unwrap();
    assert_eq!(client.generation(), 1);
}

#[tokio::test]
async fn a_connection_that_had_to_be_made_anew_is_noticed_without_any_failure() {
    let node = Node::new(|n, seen| Reply {
        manner: if n == 1 { Manner::AnswerAndClose } else { Manner::Whole },
        ..Reply::ok(seen, "1")
    });
    let client = node.client(&limits(""));
    for _ in 0..2 {
        client.call::<u64>("m", ()).await.unwrap();
    }
    assert_eq!(client.generation(), 0);
    // Lets the client see the end of its connection, as time between two polls does.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    client.call::<u64>("m", ()).await.unwrap();
    assert_eq!(client.generation(), 1);
}

#[tokio::test]
async fn a_server_that_closes_after_each_answer_is_not_news_each_time() {
    let node =
        Node::new(|_, seen| Reply { manner: Manner::AnswerAndClose, ..Reply::ok(seen, "1") }.header("connection", "close"));
    let client = node.client(&limits(""));
    for _ in 0..5 {
        client.call::<u64>("m", ()).await.unwrap();
    }
    assert_eq!(client.generation(), 0);
}

#[tokio::test]
async fn a_refused_connection_is_transient_and_names_the_endpoint() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let client = RpcClient::new(&[endpoint(&format!("url = 'http://{free}'"))], &limits("attempts = 1")).unwrap();
    let error = client.call::<Value>("m", ()).await.unwrap_err();
    let RpcError::Transient { source, .. } = &error else { panic!("{error:?}") };
    assert!(error.to_string().contains(&free.to_string()) && source.to_string().contains("no connection"), "{error}: {source}");
}

#[tokio::test]
async fn https_to_a_server_without_tls_is_transient() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let client = RpcClient::new(&[endpoint(&format!("url = 'https://{address}'"))], &limits("attempts = 1")).unwrap();
    assert!(matches!(client.call::<Value>("m", ()).await, Err(RpcError::Transient { .. })));
}

#[test]
fn a_client_without_endpoints_is_refused_and_errors_name_the_endpoint() {
    assert_eq!(RpcClient::new(&[], &limits("")).unwrap_err().key, "rpc");
    let bad = endpoint("url = { env = 'CONFIRMD_TEST_NOT_SET' }");
    let [good, _] = two();
    assert_eq!(RpcClient::new(&[good, bad], &limits("")).unwrap_err().key, "rpc[1].url");
}
