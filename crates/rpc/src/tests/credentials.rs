//! Cookie files and passwords (A33).

use super::node::{Node, Reply};
use super::{endpoint, limits};
use crate::auth::basic;
use crate::{EndpointConfig, RpcError};
use serde_json::Value;
use std::path::Path;

/// A node that knows one password; an empty 401 otherwise.
fn guarded(user_and_password: &'static str) -> Node {
    let wanted = basic(user_and_password).unwrap().to_str().unwrap().to_owned();
    Node::new(
        move |_, seen| {
            if seen.header("authorization").as_deref() == Some(&wanted) { Reply::ok(seen, "1") } else { Reply::new(401, "") }
        },
    )
}

fn with_cookie(path: &Path) -> EndpointConfig {
    endpoint(&format!("url = 'http://node.test'\ncookie_file = {path:?}"))
}

#[tokio::test(start_paused = true)]
async fn a_cookie_that_changed_is_read_again_once_and_the_call_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let cookie = dir.path().join(".cookie");
    std::fs::write(&cookie, "__cookie__:first").unwrap();
    // The node restarts after the first call.
    let node = Node::new({
        let (first, second) = (basic("__cookie__:first").unwrap(), basic("__cookie__:second").unwrap());
        move |n, seen| {
            let wanted = if n == 0 { &first } else { &second };
            if seen.header("authorization").as_deref() == wanted.to_str().ok() {
                Reply::ok(seen, "1")
            } else {
                Reply::new(401, "")
            }
        }
    });
    let client = node.client_with(&limits("attempts = 1"), &[with_cookie(&cookie)]);
    client.call::<u64>("m", ()).await.unwrap();
    std::fs::write(&cookie, "__cookie__:second\n").unwrap();
    client.call::<u64>("m", ()).await.unwrap();
    assert_eq!(node.requests(), 3, "ok, refused, ok with the new cookie");
    client.call::<u64>("m", ()).await.unwrap();
    assert_eq!((node.requests(), client.health()[0].permits), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn a_cookie_that_is_refused_twice_is_fatal_and_says_what_to_check() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "__cookie__:stale").unwrap();
    let node = guarded("__cookie__:other");
    let error = node.client_with(&limits(""), &[with_cookie(file.path())]).call::<Value>("m", ()).await.unwrap_err();
    let RpcError::Fatal { source, .. } = error else { panic!("{error:?}") };
    assert!(source.to_string().contains("401") && source.to_string().contains("cookie_file"), "{source}");
    assert!(!source.to_string().contains("stale"));
    assert_eq!(node.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_missing_cookie_file_is_transient_and_found_when_the_node_has_written_it() {
    let dir = tempfile::tempdir().unwrap();
    let cookie = dir.path().join(".cookie");
    let node = guarded("__cookie__:abc");
    let client = node.client_with(&limits("attempts = 2"), &[with_cookie(&cookie)]);
    let error = client.call::<Value>("m", ()).await.unwrap_err();
    let RpcError::Transient { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains(".cookie") && source.to_string().contains("when the node runs"), "{source}");
    assert_eq!(node.requests(), 0);
    std::fs::write(&cookie, "__cookie__:abc").unwrap();
    client.call::<u64>("m", ()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_fatal_at_once() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "wrong").unwrap();
    let node = guarded("alice:right");
    let config = endpoint(&format!("url = 'http://node.test'\nuser = 'alice'\npassword = {{ file = {:?} }}", file.path()));
    let client = node.client_with(&limits(""), std::slice::from_ref(&config));
    let error = client.call::<Value>("m", ()).await.unwrap_err();
    let RpcError::Fatal { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains("check user and password"), "{source}");
    assert_eq!(node.requests(), 1);
    std::fs::write(file.path(), "right\n").unwrap();
    node.client_with(&limits(""), &[config]).call::<u64>("m", ()).await.unwrap();
}
