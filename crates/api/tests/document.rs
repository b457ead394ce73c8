//! The document and the routes are the same thing seen twice; tokens and limits hold for all of them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "support/mod.rs"]
mod support;

use confirmd_api::server::{self, ServerOptions};
use confirmd_api::{Access, openapi};
use confirmd_core::Secret;
use serde_json::Value;
use std::num::NonZeroU32;
use support::{Recorder, head, raw, serve, started, status_of};

fn document() -> Value {
    serde_json::from_str(openapi::json()).unwrap()
}

/// A path of the document with something in the place of each parameter.
fn filled(path: &str) -> String {
    let event = format!("evt_{}", "0".repeat(32));
    path.replace("{event}", &event)
        .split('/')
        .map(|part| if part.starts_with('{') { "x" } else { part })
        .collect::<Vec<_>>()
        .join("/")
}

#[tokio::test]
async fn every_operation_of_the_document_is_answered_and_no_path_takes_another_method() {
    let address = started().await;
    let operations = openapi::operations();
    assert!(operations.len() > 15, "{operations:?}");
    // The stream does not end.
    for (_, path) in operations.iter().filter(|(_, path)| !path.ends_with("/stream")) {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let described = operations.iter().any(|(known, at)| known == &method && at == path);
            let body = if method == "GET" { "" } else { "{}" };
            let status = status_of(&raw(address, &head(method, &filled(path), address, ""), body).await);
            assert_eq!(status != 405, described, "{method} {path} answers {status}");
        }
    }
}

#[test]
fn every_handler_of_the_source_is_in_the_document() {
    let list = include_str!("../src/routes/mod.rs");
    assert!(!list.contains(".route("), "a route stands outside of the described ones");
    let inside = |line: &str| Some(line.split_once("routes!(")?.1.split_once(')')?.0.matches("::").count());
    let named: usize = list.lines().filter_map(inside).sum();
    assert_eq!(named, openapi::operations().len());
}

#[test]
fn every_answer_of_every_operation_is_described_with_its_problems() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("200"), "{method} {path}");
            for status in ["400", "401", "403", "404", "405", "409", "413", "429", "500", "503"] {
                assert!(responses.contains_key(status), "{method} {path} does not describe {status}");
            }
            assert!(operation["summary"].as_str().is_some_and(|text| text.len() > 10), "{method} {path} says nothing");
        }
    }
    let text = openapi::json();
    for reference in text.split("\"$ref\": \"#/").skip(1).filter_map(|rest| rest.split_once('"')) {
        assert!(document.pointer(&format!("/{}", reference.0)).is_some(), "nothing is at {}", reference.0);
    }
}

#[tokio::test]
async fn the_page_shows_every_operation_and_loads_nothing_from_anywhere() {
    let address = started().await;
    let answer = raw(address, &head("GET", "/v1/docs", address, ""), "").await;
    assert!(answer.contains("content-security-policy: default-src 'none'"), "{}", &answer[..400]);
    for (_, path) in openapi::operations() {
        assert!(answer.contains(&format!("<code>{path}</code>")), "{path}");
    }
    for loading in ["<script", "<link", "<img", "@import", "url(", "http://", "https://"] {
        assert!(!answer.split("\r\n\r\n").nth(1).unwrap().contains(loading), "{loading}");
    }
    let json = raw(address, &head("GET", "/openapi.json", address, ""), "").await;
    assert_eq!(serde_json::from_str::<Value>(json.split("\r\n\r\n").nth(1).unwrap()).unwrap(), document());
}

const ADMIN: &str = "admin-0123456789abcdef";
const READ: &str = "read-0123456789abcdef";

fn with_tokens(listen: &str) -> ServerOptions {
    let access = Access::new(Some(&Secret::new(ADMIN)), Some(&Secret::new(READ))).unwrap();
    ServerOptions { access, ..ServerOptions::new(listen.parse().unwrap()) }
}

#[tokio::test]
async fn with_tokens_every_operation_needs_one_and_a_reader_changes_nothing() {
    for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
        let operator = std::sync::Arc::<Recorder>::default();
        let mut address = serve(with_tokens(listen), operator.clone()).await;
        address.set_ip("127.0.0.1".parse().unwrap());
        for (method, path) in openapi::operations() {
            let probe = ["/healthz", "/readyz"].contains(&path.as_str());
            for wrong in ["", "\r\nAuthorization: Bearer nonsense-nonsense-nonsense", "\r\nAuthorization: Basic YTpi"] {
                let answer = raw(address, &head(method, &filled(&path), address, wrong), "{}").await;
                let status = status_of(&answer);
                assert!(if probe { status == 200 } else { [401, 429].contains(&status) }, "{method} {path} {wrong}: {status}");
                assert!(status != 401 || answer.contains("www-authenticate: Bearer"), "{answer}");
            }
            if path.ends_with("/stream") {
                continue;
            }
            let reader = format!("\r\nAuthorization: Bearer {READ}");
            let status = status_of(&raw(address, &head(method, &filled(&path), address, &reader), "{}").await);
            assert_eq!(status == 403, method != "GET", "{method} {path}: {status}");
            if path.ends_with("/stream") {
                continue;
            }
            let admin = format!("\r\nAuthorization: bearer {ADMIN}");
            let status = status_of(&raw(address, &head(method, &filled(&path), address, &admin), "{}").await);
            assert!(![401, 403, 429].contains(&status), "{method} {path}: {status}");
        }
        let foreign = format!("\r\nAuthorization: Bearer {ADMIN}\r\nOrigin: https://evil.example");
        assert_eq!(status_of(&raw(address, &head("GET", "/v1/status", address, &foreign), "").await), 403);
        assert!(!operator.asked().is_empty());
    }
}

#[tokio::test]
async fn beyond_the_loopback_interface_an_admin_token_is_required_at_the_start() {
    let read_only = Access::new(None, Some(&Secret::new(READ))).unwrap();
    for access in [Access::default(), read_only] {
        let options = ServerOptions { access, ..ServerOptions::new("0.0.0.0:0".parse().unwrap()) };
        let error = server::bind(options).await.unwrap_err();
        assert!(error.text.contains("api.admin_token") && error.text.contains("127.0.0.1"), "{error}");
    }
    assert!(server::bind(with_tokens("0.0.0.0:0")).await.is_ok());
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_ask_again_and_wrong_tokens_do_not_use_the_limit_up() {
    let options = ServerOptions { requests_per_second: NonZeroU32::MIN, ..with_tokens("127.0.0.1:0") };
    let address = serve(options, Default::default()).await;
    for _ in 0..20 {
        raw(address, &head("GET", "/v1/status", address, "\r\nAuthorization: Bearer wrong"), "").await;
    }
    let token = format!("\r\nAuthorization: Bearer {ADMIN}");
    let mut answers = Vec::new();
    for _ in 0..12 {
        answers.push(raw(address, &head("GET", "/v1/status", address, &token), "").await);
    }
    assert_eq!(status_of(&answers[0]), 200);
    let refused = answers.iter().find(|answer| status_of(answer) == 429).unwrap();
    assert!(refused.contains("retry-after: 1") && refused.contains("urn:confirmd:too-many-requests"), "{refused}");
    assert_eq!(status_of(&raw(address, &head("GET", "/healthz", address, ""), "").await), 200);
}
