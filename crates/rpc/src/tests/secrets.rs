//! Secrets appear nowhere (S17, E19).

use super::node::{Manner, Node, Reply};
use super::{endpoint, limits};
use crate::RpcError;
use confirmd_core::{SourceError, SourceErrorKind};
use serde_json::Value;
use std::cell::RefCell;
use std::error::Error;

const SECRETS: [&str; 5] = ["hunter2pw", "SECRETKEY", "tokenvalue", "HEADERKEY", "aHVudGVy"];

thread_local! {
    static LOGGED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Records every event and span of its thread at every level, except that jsonrpsee traces the results themselves: what a
/// node says as a result can't be changed. Global, because a scoped subscriber misses events while other tests run.
struct Log;

struct Text(String);

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Text {
    fn keep(self, target: &str) {
        if !(target.starts_with("jsonrpsee") && self.0.contains("\"result\"")) {
            LOGGED.with_borrow_mut(|logged| logged.push_str(&self.0));
        }
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut text = Text(String::new());
        span.record(&mut text);
        text.keep("");
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        let mut text = Text(String::new());
        values.record(&mut text);
        text.keep("");
    }
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        text.keep(event.metadata().target());
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

fn all_texts(error: &RpcError) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    text
}

#[tokio::test(start_paused = true)]
async fn no_error_health_or_debug_output_shows_a_secret_even_if_the_node_quotes_it() {
    let url = tempfile::NamedTempFile::new().unwrap();
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(url.path(), "http://user:hunter2pw@node.test:8545/v3/SECRETKEY?token=tokenvalue").unwrap();
    std::fs::write(key.path(), "Bearer HEADERKEY").unwrap();
    let config =
        endpoint(&format!("url = {{ file = {:?} }}\nheaders = {{ X-Api-Key = {{ file = {:?} }} }}", url.path(), key.path()));
    let quote = "no project /v3/SECRETKEY?token=tokenvalue for user:hunter2pw with HEADERKEY";
    let node = Node::new(move |n, seen| match n {
        0 => {
            assert!(seen.head.starts_with("POST /v3/SECRETKEY?token=tokenvalue "), "{}", seen.head);
            assert!(seen.header("x-api-key").is_some() && seen.header("authorization").is_some());
            Reply::old_error(seen, 500, -3, quote)
        }
        1 => Reply::new(502, format!("<html>{quote}</html>")),
        2 => Reply::new(200, format!("<html>{quote}</html>")),
        3 | 4 => Reply::new(200, quote),
        5 | 6 => Reply::ok(seen, &format!("\"{quote}\"")),
        7 => Reply::new(401, quote),
        8 => Reply::manner(Manner::Close),
        9 => Reply::new(429, format!("{{\"error\":{{\"code\":1,\"message\":\"{quote}\",\"data\":\"{quote}\"}},\"id\":null}}")),
        n => panic!("request {n}"),
    });
    tracing::subscriber::set_global_default(Log).unwrap();
    let client = node.client_with(&limits("attempts = 1"), std::slice::from_ref(&config));
    let mut texts = format!("{config:?} {client:?}");
    for _ in 0..8 {
        let error = client.call::<u64>("m", ()).await.unwrap_err();
        texts.push_str(&all_texts(&error));
        texts.push_str(&format!("{:?} {}", client.health(), serde_json::to_string(&client.health()).unwrap()));
        let error = SourceError::from(error);
        texts.push_str(&format!("{error} {error:?}"));
    }
    assert_eq!(node.requests(), 10);
    let logged = LOGGED.take();
    assert!(logged.contains("asking again"), "the log was recorded: {logged}");
    texts.push_str(&logged);
    assert_eq!(client.health()[0].throttled, 2, "502 and 429");
    for secret in SECRETS {
        assert!(!texts.contains(secret), "{secret} in {texts}");
    }
    assert!(texts.contains("http://node.test:8545/…") && texts.contains("***"), "{texts}");
}

#[tokio::test(start_paused = true)]
async fn a_source_error_has_the_kind_the_caller_acts_on() {
    let kind = |status: u16, headers: &'static str, body: &'static str| async move {
        let node = Node::new(move |_, seen| {
            let reply = Reply::new(status, body.replace("ID", &seen.ids()[0].to_string()));
            if headers.is_empty() { reply } else { reply.header("retry-after", headers) }
        });
        SourceError::from(node.client(&limits("attempts = 1")).call::<Value>("m", ()).await.unwrap_err()).kind
    };
    let transient =
        |seconds: Option<u64>| SourceErrorKind::Transient { retry_after: seconds.map(std::time::Duration::from_secs) };
    assert_eq!(kind(429, "9", "").await, transient(Some(9)));
    assert_eq!(kind(503, "", "Work queue depth exceeded").await, transient(None));
    assert_eq!(kind(401, "", "").await, SourceErrorKind::Fatal);
    assert_eq!(kind(200, "", "{}").await, SourceErrorKind::Fatal);
    assert_eq!(
        kind(500, "", r#"{"id":ID,"error":{"code":-1,"message":"Block not available (pruned data)"}}"#).await,
        SourceErrorKind::Fatal
    );
    assert_eq!(kind(200, "", r#"{"id":ID,"error":{"code":-32000,"message":"header not found"}}"#).await, transient(None));
}
