//! The page's door: sessions, forms, and what no other page can make a browser do.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "support/mod.rs"]
mod support;

use confirmd_api::Access;
use confirmd_api::server::ServerOptions;
use confirmd_core::Secret;
use std::net::SocketAddr;
use std::sync::Arc;
use support::{Recorder, raw, serve, status_of};

const EVENT: &str = "evt_00000000000000000000000000000000";

/// Every order of the page.
fn orders() -> Vec<(String, String)> {
    let of = |path: &str, fields: &str| (path.to_owned(), fields.to_owned());
    vec![
        of("/chains/btc/resume", ""),
        of("/deliveries/requeue", "scope=all&consumer=ledger"),
        of(&format!("/deliveries/{EVENT}/skip"), "consumer=ledger&sure=yes"),
        of("/consumers/ledger/pause", "why=x"),
        of("/consumers/ledger/resume", ""),
        of("/consumers/ledger/test", ""),
        of("/addresses/add", "chain=btc&entries=a"),
        of("/addresses/remove", "only=btc+a"),
    ]
}

fn pages() -> [&'static str; 7] {
    ["/", "/chains/btc", "/deposits", "/deliveries", "/addresses", "/transactions?explain-chain=btc&tx=a", "/deposits?q=x"]
}

async fn open(operator: Arc<Recorder>) -> SocketAddr {
    serve(ServerOptions::new("127.0.0.1:0".parse().unwrap()), operator).await
}

async fn guarded(operator: Arc<Recorder>) -> SocketAddr {
    let (admin, read) = (Secret::new("a".repeat(32)), Secret::new("r".repeat(32)));
    let mut options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
    options.access = Access::new(Some(&admin), Some(&read)).unwrap();
    serve(options, operator).await
}

async fn get(address: SocketAddr, path: &str, more: &str) -> String {
    raw(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}{more}"), "").await
}

async fn post(address: SocketAddr, path: &str, more: &str, body: &str) -> String {
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/x-www-form-urlencoded{more}");
    raw(address, &head, body).await
}

/// What stands in a page's forms.
fn csrf(page: &str) -> String {
    let behind = page.split("name=\"csrf\" value=\"").nth(1).unwrap_or_else(|| panic!("no form in {page}"));
    behind.split('"').next().unwrap().to_owned()
}

/// Signs in; the cookie's line and its `name=value`.
async fn sign_in(address: SocketAddr, token: &str, more: &str) -> (String, String) {
    let form = csrf(&get(address, "/login", "").await);
    let answer = post(address, "/login", more, &format!("csrf={form}&token={token}&next=/deposits")).await;
    assert!(status_of(&answer) == 303 && answer.contains("location: /deposits"), "{answer}");
    let line = answer.lines().find(|line| line.starts_with("set-cookie: ")).unwrap().to_owned();
    let pair = line["set-cookie: ".len()..].split(';').next().unwrap().to_owned();
    (line, pair)
}

#[tokio::test]
async fn a_form_is_taken_only_with_the_word_that_was_written_into_it() {
    let operator = Arc::<Recorder>::default();
    let address = open(operator.clone()).await;
    let page = get(address, "/addresses", "").await;
    let good = csrf(&page);
    let before = operator.asked().len();
    for (path, fields) in orders() {
        for word in ["", "&csrf=", "&csrf=0", &format!("&csrf={good}0"), &format!("&csrf={}", "0".repeat(good.len()))] {
            let answer = post(address, &path, "", &format!("{fields}{word}")).await;
            assert!(status_of(&answer) == 403 && answer.contains("not of this session"), "{path} {word}: {answer}");
        }
        for foreign in ["https://evil.example", "null"] {
            let answer = post(address, &path, &format!("\r\nOrigin: {foreign}"), &format!("{fields}&csrf={good}")).await;
            assert_eq!(status_of(&answer), 403, "{path}: {answer}");
        }
        let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: text/plain");
        assert_eq!(status_of(&raw(address, &head, &format!("{fields}&csrf={good}")).await), 400);
        assert_eq!(status_of(&get(address, &path, "").await) / 100, 4, "a link orders nothing: {path}");
    }
    assert_eq!(operator.asked().len(), before, "{:?}", operator.asked());
    for (path, fields) in orders() {
        let asked = operator.asked().len();
        let answer = post(address, &path, "", &format!("csrf={good}&{fields}")).await;
        assert!(operator.asked().len() > asked, "{path}: {answer}");
    }
}

#[tokio::test]
async fn without_a_session_nothing_is_seen_and_with_a_readers_nothing_is_ordered() {
    let operator = Arc::<Recorder>::default();
    let address = guarded(operator.clone()).await;
    for path in pages() {
        let answer = get(address, path, "").await;
        assert!(status_of(&answer) == 303 && answer.contains("location: /login?next=%2F"), "{path}: {answer}");
    }
    assert_eq!(status_of(&get(address, "/live", "").await), 303);
    for (path, fields) in orders() {
        assert_eq!(status_of(&post(address, &path, "", &fields).await), 403, "{path}");
    }
    let form = csrf(&get(address, "/login", "").await);
    assert_eq!(status_of(&post(address, "/login", "", &format!("token={}", "a".repeat(32))).await), 403, "without its word");
    let wrong = post(address, "/login", "", &format!("csrf={form}&token=nonsense")).await;
    assert!(status_of(&wrong) == 401 && !wrong.contains("set-cookie"), "{wrong}");

    let (line, reader) = sign_in(address, &"r".repeat(32), "").await;
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(line.contains(part) && !line.contains("Secure"), "{line}");
    }
    let (line, _) = sign_in(address, &"r".repeat(32), &format!("\r\nOrigin: https://localhost:{}", address.port())).await;
    assert!(line.ends_with("; Secure"), "behind TLS: {line}");
    let cookie = format!("\r\nCookie: other=1; {reader}");
    let page = get(address, "/", &cookie).await;
    assert!(status_of(&page) == 200 && page.contains("read only"), "{page}");
    for path in pages() {
        let page = get(address, path, &cookie).await;
        assert_eq!(page.matches("method=\"post\"").count(), 1, "only to sign out: {path}: {page}");
    }
    let before = operator.asked().len();
    for (path, fields) in orders() {
        let answer = post(address, &path, &cookie, &format!("csrf={}&{fields}", csrf(&page))).await;
        assert!(status_of(&answer) == 403 && answer.contains("may only read"), "{path}: {answer}");
    }
    assert_eq!(operator.asked().len(), before);

    // One session's word does not open another's forms; an ended session opens nothing.
    let (_, admin) = sign_in(address, &"a".repeat(32), "").await;
    let cookie = format!("\r\nCookie: {admin}");
    assert_eq!(status_of(&post(address, "/consumers/ledger/pause", &cookie, &format!("csrf={}", csrf(&page))).await), 403);
    let word = csrf(&get(address, "/", &cookie).await);
    assert_eq!(status_of(&post(address, "/consumers/ledger/pause", &cookie, &format!("csrf={word}")).await), 303);
    let left = post(address, "/logout", &cookie, &format!("csrf={word}")).await;
    assert!(status_of(&left) == 303 && left.contains("Max-Age=0"), "{left}");
    assert_eq!(status_of(&get(address, "/", &cookie).await), 303);
    // A session is for the page alone; the API asks for the token.
    assert_eq!(status_of(&get(address, "/v1/status", &format!("\r\nCookie: {reader}")).await), 401);
}

#[tokio::test]
async fn every_answer_forbids_what_is_not_ours() {
    let address = open(Arc::default()).await;
    let mut paths = pages().map(str::to_owned).to_vec();
    paths.extend(
        ["/page.css", "/page.js", "/page.svg", "/deliveries/nonsense", "/chains/NO", "/deposits?chain=NO"].map(str::to_owned),
    );
    for path in paths {
        let answer = get(address, &path, "").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let policy = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';";
        for part in [policy, "frame-ancestors 'none'", "x-content-type-options: nosniff", "referrer-policy: same-origin"] {
            assert!(head.contains(part), "{path}: {head}");
        }
        assert!(!head.contains("unsafe"), "{head}");
        for foreign in ["style=\"", "onclick", "https://", "<style", "javascript:"] {
            assert!(path.ends_with(".js") || !body.contains(foreign), "{path} holds {foreign}");
        }
        if !path.starts_with("/page.") {
            assert!(head.contains("cache-control: no-store") && body.contains("<!DOCTYPE html>"), "{path}: {answer}");
        }
    }
    let foreign = raw(address, "GET / HTTP/1.1\r\nHost: evil.example", "").await;
    assert!(status_of(&foreign) == 403 && !foreign.contains("csrf"), "{foreign}");
}

#[tokio::test]
async fn what_the_query_says_was_done_is_one_of_our_words() {
    let address = open(Arc::default()).await;
    let page = get(address, "/?done=%3Cb%3Ecall+this+number&count=5", "").await;
    assert!(!page.contains("call this number"), "{page}");
    assert!(get(address, "/?done=paused", "").await.contains("Paused. Events wait"));
    let page = get(address, "/deposits?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&chain=btc", "").await;
    assert!(page.contains("&quot;&gt;&lt;script&gt;") && !page.contains("<script>alert"), "{page}");
}
