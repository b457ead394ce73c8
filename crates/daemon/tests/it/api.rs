//! The API's operations through the binary: what was decided and why, events to pull, deliveries again, tokens.

use crate::dev::{self, CUSTOMER, ONE_CUSTOMER, SCREEN, json, node, pay};
use crate::instance::{Instance, done, folder, refused, stdout};
use confirmd_testkit::{FakeEvm, Remine};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;

fn config(node: &FakeEvm, api: &str, sinks: &str) -> String {
    dev::config(node, api, &format!("fork_grace = '10ms'\n{ONE_CUSTOMER}"), sinks)
}

/// One GET, byte by byte.
fn get(dir: &Path, path: &str, more: &str) -> String {
    let address = std::fs::read_to_string(dir.join("state/api-address")).unwrap();
    let address = address.lines().next().unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposits_life_names_its_blocks_decisions_rules_and_reorgs() {
    let node = node(31_337).await;
    let dir = folder(&config(&node, "", SCREEN));
    let mut instance = Instance::start(dir.path(), &["run", "--init"]);
    instance.until("following");
    pay(&node, CUSTOMER, 5);
    node.mine(2);
    let confirmed = instance.next_event();
    let tx = confirmed["key"]["tx_id"].as_str().unwrap().to_owned();
    node.fork(3, Remine::Drop);
    let reverted = instance.next_event();
    assert_eq!(reverted["sequence"], 2);

    let life = json(dir.path(), &["deposit", "dev", &tx, "0", "--json"]).remove(0);
    let steps: Vec<&str> = life["life"].as_array().unwrap().iter().map(|step| step["what"].as_str().unwrap()).collect();
    assert_eq!(steps.last(), Some(&"reverted"), "{life}");
    let decided = life["life"].as_array().unwrap().iter().find(|step| step["what"] == "confirmed").unwrap();
    assert_eq!((&decided["event"], &decided["rule"]["at_least"]), (&confirmed["id"], &2.into()));
    assert_eq!((&life["deposit"]["state"], &life["deposit"]["amount"]), (&"reverted".into(), &"5".into()));
    let shown = json(dir.path(), &["chain", "show", "dev", "--json"]).remove(0);
    assert_eq!((&shown["reorgs"][0]["reverted"], &shown["reorgs"][0]["accepted"]), (&1.into(), &false.into()));
    assert!(shown["lag_blocks"].is_u64() && !shown["endpoints"].as_array().unwrap().is_empty(), "{shown}");
    refused(&done(dir.path(), &["deposit", "dev", &tx, "7"]), &[":7", "state.history"]);

    let told = stdout(&done(dir.path(), &["explain", "dev", &tx]));
    assert!(told.contains("taken back"), "{told}");
    let stranger = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
    let told = json(dir.path(), &["explain", "dev", "0xab", "--height", "5", "--address", stranger, "--json"]).remove(0);
    let findings = told["findings"].to_string();
    assert!(findings.contains("is not watched") && findings.contains("pays nothing"), "{told}");
    assert!(!told["unknown"].as_array().unwrap().is_empty());
    assert!(json(dir.path(), &["deposits", "--json", "--asset", "ETH", "--from", "2020-01-01T00:00:00Z"]).len() == 1);
    assert!(json(dir.path(), &["deposits", "--json", "--before", "2020-01-01T00:00:00Z"]).is_empty());
    assert_eq!(instance.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_pulled_with_the_webhooks_bytes_and_a_named_cursor_holds_the_place() {
    let node = node(31_337).await;
    let dir = folder(&config(&node, "", SCREEN));
    let mut instance = Instance::start(dir.path(), &["run", "--init"]);
    instance.until("following");
    json(dir.path(), &["cursor", "put", "reader", "--json"]);
    pay(&node, CUSTOMER, 5);
    pay(&node, CUSTOMER, 6);
    node.mine(2);
    let (one, two) = (instance.events.next().unwrap().unwrap(), instance.events.next().unwrap().unwrap());
    let pulled = stdout(&done(dir.path(), &["events", "--cursor", "reader"]));
    assert_eq!(pulled.lines().collect::<Vec<_>>(), [one.as_str(), two.as_str()], "byte for byte");
    let answer = get(dir.path(), "/v1/events?limit=1", "");
    let page: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!((page["events"].as_array().unwrap().len(), &page["gap"]), (1, &0.into()));
    let next = page["next"].as_str().unwrap();
    json(dir.path(), &["cursor", "put", "reader", "--after", next, "--json"]);
    assert_eq!(stdout(&done(dir.path(), &["events", "--cursor", "reader"])).trim_end(), two);
    let waited = std::time::Instant::now();
    let late = get(dir.path(), "/v1/events?cursor=nobody&wait=30", "");
    assert!(late.starts_with("HTTP/1.1 404") && waited.elapsed().as_secs() < 20, "{late}");
    refused(&done(dir.path(), &["events", "--after", "nonsense"]), &["not a cursor"]);
    assert!(stdout(&done(dir.path(), &["cursor", "list"])).contains("in use"));
    assert!(done(dir.path(), &["cursor", "remove", "reader"]).status.success());
    refused(&done(dir.path(), &["cursor", "remove", "reader"]), &["no cursor reader"]);
    // Delivered ones again: same bytes.
    let id = serde_json::from_str::<Value>(&one).unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(json(dir.path(), &["deliveries", "replay", "screen", &id, "--json"])[0]["count"], 1);
    assert_eq!(instance.events.next().unwrap().unwrap(), one);
    assert_eq!(json(dir.path(), &["deliveries", "replay", "screen", "--from", "2020-01-01T00:00:00Z", "--json"])[0]["count"], 2);
    assert_eq!(instance.events.next().unwrap().unwrap(), one);
    assert_eq!(instance.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_grouped_and_a_test_event_says_how_it_went() {
    let node = node(31_337).await;
    let dir = folder(&config(&node, "", &dev::ledger("[]")));
    std::fs::write(dir.path().join("secret"), "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
    let mut instance = Instance::start(dir.path(), &["run", "--init"]);
    instance.until("following");
    assert!(stdout(&done(dir.path(), &["deliveries", "requeue", "ledger", "--all-dead"])).contains("no dead letter"));
    pay(&node, CUSTOMER, 5);
    pay(&node, CUSTOMER, 6);
    node.mine(2);
    instance.until("dead letter");
    instance.until("dead letter");
    let groups = json(dir.path(), &["deliveries", "dead", "--json"]);
    assert_eq!((groups.len(), &groups[0]["count"], &groups[0]["consumer"]), (1, &2.into(), &"ledger".into()), "{groups:?}");
    assert!(stdout(&done(dir.path(), &["status"])).contains("requeue ledger --all-dead"));
    refused(&done(dir.path(), &["consumer", "test", "ledger"]), &["did not take the test event"]);
    let paced = ["deliveries", "requeue", "ledger", "--all-dead", "--per-second", "1", "--json"];
    assert_eq!(json(dir.path(), &paced)[0]["count"], 2);
    assert!(done(dir.path(), &["consumer", "pause", "ledger", "--why", "first"]).status.success());
    assert!(stdout(&done(dir.path(), &["consumer", "pause", "ledger", "--why", "second"])).contains("already (first)"));
    assert_eq!(instance.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tokens_commands_show_the_one_of_the_configuration_and_strangers_are_refused() {
    let node = node(31_337).await;
    let tokens = "admin_token = { file = 'admin' }\nread_token = { file = 'read' }";
    let dir = folder(&config(&node, tokens, SCREEN));
    std::fs::write(dir.path().join("admin"), "short\n").unwrap();
    std::fs::write(dir.path().join("read"), "read-0123456789abcdef\n").unwrap();
    refused(&done(dir.path(), &["run", "--init"]), &["admin_token", "16"]);
    std::fs::write(dir.path().join("admin"), "admin-0123456789abcdef\n").unwrap();
    let mut instance = Instance::start(dir.path(), &["run", "--init"]);
    instance.until("following");
    assert!(get(dir.path(), "/v1/status", "").starts_with("HTTP/1.1 401"));
    assert!(get(dir.path(), "/v1/status", "Authorization: Bearer read-0123456789abcdef\r\n").starts_with("HTTP/1.1 200"));
    assert!(done(dir.path(), &["consumer", "pause", "screen"]).status.success());
    std::fs::remove_file(dir.path().join("admin")).unwrap();
    assert!(done(dir.path(), &["status"]).status.success(), "the reader's token is enough to look");
    refused(&done(dir.path(), &["consumer", "resume", "screen"]), &["may only read"]);
    assert_eq!(instance.terminate(), Some(0));
    let open = config(&node, "", SCREEN).replace("127.0.0.1:0", "0.0.0.0:0");
    refused(&done(folder(&open).path(), &["run", "--init"]), &["api.listen", "api.admin_token"]);
}

#[test]
fn the_document_completions_and_manual_pages_need_no_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let document: Value = serde_json::from_str(&stdout(&done(dir.path(), &["openapi"]))).unwrap();
    assert!(document["paths"]["/v1/events"]["get"].is_object());
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&done(dir.path(), &["completions", shell])).contains("confirmd"));
    }
    assert!(stdout(&done(dir.path(), &["man", "pages"])).contains("manual pages"));
    assert!(std::fs::read_to_string(dir.path().join("pages/confirmd-deliveries-replay.1")).unwrap().contains(".TH"));
}
