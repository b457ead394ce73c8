//! The control API over real sockets: who may ask, what the answers look like, and that both ends agree.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "support/mod.rs"]
mod support;

use confirmd_api::client::Found;
use confirmd_api::instance::InstanceAddress;
use confirmd_api::server::ServerOptions;
use confirmd_api::view::*;
use confirmd_api::{Client, Cursor, ErrorKind, Operator, server};
use confirmd_core::{ChainName, ConsumerName, EventId, Height};
use futures::StreamExt as _;
use std::net::SocketAddr;
use std::sync::Arc;
use support::{Recorder, raw, serve};

async fn started(operator: Arc<Recorder>) -> SocketAddr {
    serve(ServerOptions::new("127.0.0.1:0".parse().unwrap()), operator).await
}

#[tokio::test]
async fn a_request_whose_host_is_not_the_loopback_interface_at_our_port_is_refused() {
    let address = started(Arc::default()).await;
    let port = address.port();
    for host in
        ["evil.example".into(), format!("evil.example:{port}"), "127.0.0.1:1".into(), format!("127.0.0.1:{port}\r\nHost: x")]
    {
        let answer = raw(address, &format!("GET /v1/status HTTP/1.1\r\nHost: {host}"), "").await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{host}: {answer}");
        assert!(!answer.contains("epoch"), "{host}: {answer}");
    }
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let answer = raw(address, &format!("GET /v1/status HTTP/1.1\r\nHost: {host}:{port}"), "").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
    }
    let absolute = format!("GET http://evil.example:{port}/v1/status HTTP/1.1\r\nHost: 127.0.0.1:{port}");
    assert!(raw(address, &absolute, "").await.starts_with("HTTP/1.1 403"));
    let foreign = format!("GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: https://evil.example");
    assert!(raw(address, &foreign, "").await.starts_with("HTTP/1.1 403"));
}

#[tokio::test]
async fn a_change_needs_json_and_our_header_so_that_no_web_page_can_post_it() {
    let operator = Arc::<Recorder>::default();
    let address = started(operator.clone()).await;
    let body = "{\"entries\":[{\"chain\":\"btc\",\"address\":\"a\"}]}";
    let post = |headers: &str| format!("POST /v1/addresses HTTP/1.1\r\nHost: {address}{headers}");
    for headers in [
        "",
        "\r\nContent-Type: application/json",
        "\r\nX-Confirmd-Request: 1",
        "\r\nX-Confirmd-Request: 1\r\nContent-Type: text/plain",
        "\r\nX-Confirmd-Request: 0\r\nContent-Type: application/json",
    ] {
        let answer = raw(address, &post(headers), body).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("application/problem+json"), "{headers}: {answer}");
    }
    let preflight = format!("OPTIONS /v1/addresses HTTP/1.1\r\nHost: {address}\r\nOrigin: https://evil.example");
    let answer = raw(address, &preflight, "").await;
    assert!(answer.starts_with("HTTP/1.1 403") && !answer.to_lowercase().contains("access-control"), "{answer}");
    assert!(operator.asked.lock().unwrap().is_empty());
    let good = post("\r\nX-Confirmd-Request: 1\r\nContent-Type: application/json; charset=utf-8");
    assert!(raw(address, &good, body).await.starts_with("HTTP/1.1 200"));
    assert_eq!(operator.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn errors_are_problems_that_say_what_is_wrong() {
    let address = started(Arc::default()).await;
    let change = format!("Host: {address}\r\nX-Confirmd-Request: 1\r\nContent-Type: application/json");
    for (head, body, status, part) in [
        (format!("GET /nowhere HTTP/1.1\r\nHost: {address}"), "", 404, "/v1/docs"),
        (format!("DELETE /v1/status HTTP/1.1\r\n{change}"), "", 405, "method"),
        (format!("POST /v1/addresses HTTP/1.1\r\n{change}"), "{\"entires\":[]}", 400, "entires"),
        (format!("POST /v1/addresses HTTP/1.1\r\n{change}"), "nonsense", 400, "body"),
        (format!("GET /v1/deposits?chian=btc HTTP/1.1\r\nHost: {address}"), "", 400, "chian"),
        (format!("GET /v1/deliveries/evt_1 HTTP/1.1\r\nHost: {address}"), "", 400, "32 hex digits"),
        (format!("POST /v1/addresses/import HTTP/1.1\r\n{change}"), "{\"chain\":\"btc\"}", 400, "line 1"),
        (format!("POST /v1/chains/btc/resume HTTP/1.1\r\n{change}"), "", 409, "not halted"),
    ] {
        let answer = raw(address, &head, body).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {answer}");
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["status"], status, "{head}");
        assert!(problem["detail"].as_str().unwrap().contains(part), "{head}: {problem}");
        assert!(problem["type"].as_str().unwrap().starts_with("urn:confirmd:") && problem["title"].is_string());
    }
    let big = "x".repeat(70_000);
    let answer = raw(address, &format!("POST /v1/consumers/a/skip HTTP/1.1\r\n{change}"), &big).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn readiness_says_why_not_in_words() {
    let ready = started(Arc::default()).await;
    let answer = raw(ready, &format!("GET /readyz HTTP/1.1\r\nHost: {ready}"), "").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"ready\":true"), "{answer}");
    let operator = Recorder { alarm: Some("halted: a deep reorg".into()), ..Recorder::default() };
    let halted = started(Arc::new(operator)).await;
    let answer = raw(halted, &format!("GET /readyz HTTP/1.1\r\nHost: {halted}"), "").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("btc: halted: a deep reorg"), "{answer}");
    let answer = raw(halted, &format!("GET /healthz HTTP/1.1\r\nHost: {halted}"), "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn the_client_reaches_every_operation_and_gets_the_errors_kind_back() {
    let operator = Arc::<Recorder>::default();
    let client = Client::new(started(operator.clone()).await);
    let (chain, consumer) = (ChainName::new("btc").unwrap(), ConsumerName::new("ledger").unwrap());
    let event = EventId::new(format!("evt_{}", "0".repeat(32))).unwrap();
    assert_eq!(client.status().await.unwrap().epoch, 5);
    let query =
        WatchQuery { chain: Some(chain.clone()), after: Some(Cursor::new("a_b-c")), limit: Some(3), ..WatchQuery::default() };
    let page = client.watched(&query).await.unwrap();
    assert_eq!(page.next.unwrap().place::<(String, u8)>().unwrap(), ("btc".into(), 5));
    let entry = WatchRequest {
        chain: chain.clone(),
        address: "a&b =ü".into(),
        reference: Some("r".into()),
        from_height: None,
        line: None,
    };
    assert_eq!(client.watch_add(vec![entry.clone()]).await.unwrap()[0].from_height, Height(9));
    assert_eq!(client.watch_add(vec![entry; 45_000]).await.unwrap()[0].count, 45_000);
    client.watch_remove(&chain, vec!["a".into()]).await.unwrap();
    let deposits = DepositQuery { reference: Some("a&b =ü".into()), ..DepositQuery::default() };
    client.deposits(&deposits).await.unwrap();
    client.deliveries(&DeliveryQuery { consumer: Some(consumer.clone()), ..DeliveryQuery::default() }).await.unwrap();
    assert_eq!(client.delivery(&event).await.unwrap_err().kind, ErrorKind::NotFound);
    client.requeue(&consumer, Requeue { events: vec![event.clone()], ..Requeue::default() }).await.unwrap();
    client.skip(&consumer, &event).await.unwrap();
    client.pause(&consumer, Some("migration".into())).await.unwrap();
    client.pause(&consumer, None).await.unwrap();
    client.chain(&chain).await.unwrap();
    client.preview(&chain, ResumeRequest::default()).await.unwrap();
    assert_eq!(client.deposit(&chain, "withdrawal:7/?", 3).await.unwrap_err().kind, ErrorKind::NotFound);
    client.explain(&chain, "0xab", &ExplainQuery { height: Some(Height(5)), address: None }).await.unwrap();
    assert_eq!(client.events(&EventsQuery::default()).await.unwrap().events.len(), 1);
    let name = confirmd_core::CursorName::new("reader").unwrap();
    let expired = client.events(&EventsQuery { cursor: Some(name.clone()), ..EventsQuery::default() }).await.unwrap_err();
    assert_eq!(expired.kind, ErrorKind::Expired);
    client.put_cursor(&name, PutCursor { start: Some(CursorStart::Now), after: None }).await.unwrap();
    client.remove_cursor(&name).await.unwrap();
    client.dead_letters(&DeadQuery { consumer: Some(consumer.clone()) }).await.unwrap();
    assert_eq!(client.replay(&consumer, Replay { events: vec![event.clone()], ..Replay::default() }).await.unwrap().count, 2);
    assert_eq!(client.test_event(&consumer).await.unwrap_err().kind, ErrorKind::NotFound);
    assert!(operator.asked().contains(&format!("{:?}", (&chain, "withdrawal:7/?", 3))));
    let refused = client.resume(&chain, ResumeRequest { accept_reorg: true, ..ResumeRequest::default() }).await.unwrap_err();
    assert_eq!((refused.kind, refused.text.as_str()), (ErrorKind::Conflict, "not halted"));
    assert!(client.rename(&consumer, &consumer).await.unwrap_err().text.contains("stop it"));
    let asked = operator.asked.lock().unwrap();
    assert_eq!(asked[0], format!("{query:?}"));
    assert!(asked.contains(&format!("{deposits:?}")));
    assert!(asked.contains(&format!("{:?}", (&consumer, Some("migration")))));
    assert!(asked.iter().any(|text| text.contains("accept_reorg: true")));
}

#[tokio::test]
async fn a_dump_comes_as_a_stream_and_one_that_breaks_off_is_an_error_not_an_end() {
    let client = Client::new(started(Arc::default()).await);
    let parts: Vec<_> = client.export().await.unwrap().collect().await;
    let whole: Vec<u8> = parts.into_iter().flat_map(|part| part.unwrap()).collect();
    assert_eq!(whole, b"{\"line\":1}\n{\"end\":1}\n");
    let broken = Arc::new(Recorder { alarm: Some("the disk said no".into()), ..Recorder::default() });
    let client = Client::new(started(broken).await);
    // It may break before the first piece is on its way.
    if let Ok(dump) = client.export().await {
        let parts: Vec<_> = dump.collect().await;
        assert!(parts.last().is_some_and(|part| part.is_err()), "{parts:?}");
    }
}

#[tokio::test]
async fn only_the_instance_that_the_states_folder_names_is_found() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Client::find(dir.path()).await, Found::Nothing));
    let address = started(Arc::default()).await;
    InstanceAddress { address, instance: "run-1".into() }.write(dir.path()).unwrap();
    assert!(matches!(Client::find(dir.path()).await, Found::Running(_)));
    InstanceAddress { address, instance: "run-2".into() }.write(dir.path()).unwrap();
    assert!(matches!(Client::find(dir.path()).await, Found::Nothing));
}

#[tokio::test]
async fn a_port_in_use_or_open_to_other_machines_is_refused_with_what_to_do() {
    let taken = started(Arc::default()).await;
    let error = server::bind(ServerOptions::new(taken)).await.unwrap_err();
    assert!(error.text.contains(&taken.to_string()) && error.text.contains("api.listen"), "{error}");
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let error = server::bind(ServerOptions::new(open.parse().unwrap())).await.unwrap_err();
        assert!(error.text.contains("127.0.0.1") && error.text.contains("token"), "{error}");
    }
}

#[tokio::test]
async fn events_come_as_a_stream_with_the_place_behind_each_and_the_webhooks_bytes() {
    let address = started(Arc::default()).await;
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!("GET /v1/events/stream HTTP/1.1\r\nHost: {address}\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.unwrap();
    let (mut text, mut part) = (String::new(), [0_u8; 4096]);
    while !text.contains("\n\n") {
        let read = tokio::io::AsyncReadExt::read(&mut stream, &mut part).await.unwrap();
        text.push_str(std::str::from_utf8(&part[..read]).unwrap());
    }
    assert!(text.contains("text/event-stream"), "{text}");
    assert!(text.contains("id: next\ndata: {\"id\":\"evt_1\",  \"amount\":\"5\"}\n\n"), "{text}");
    let expired = raw(address, &format!("GET /v1/events/stream?cursor=old HTTP/1.1\r\nHost: {address}"), "").await;
    assert!(expired.starts_with("HTTP/1.1 410") && expired.contains("urn:confirmd:expired"), "{expired}");
}
