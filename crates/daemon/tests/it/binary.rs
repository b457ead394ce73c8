//! The binary without a node: starts, refusals, stops, and commands with and without a running instance.

use crate::instance::{Instance, done, folder, refused, stdout};

/// A node that is not there: the port is never listened on.
const CONFIG: &str = r#"
[state]
path = "./state"
[api]
listen = "127.0.0.1:0"
[chains.anvil]
kind = "evm"
chain_id = 31337
rpc = [{ url = "http://127.0.0.1:1" }]
limits = { attempts = 1, deadline = "5s" }
confirmations = { default = 2 }
reorg_depth = 16
native = { symbol = "ETH", decimals = 18, slip44 = 60 }
[sinks.archive]
kind = "file"
path = "./events.jsonl"
"#;

#[test]
fn init_writes_a_configuration_once_and_check_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    assert!(done(dir.path(), &["init"]).status.success());
    refused(&done(dir.path(), &["init"]), &["confirmd.toml", "--force"]);
    assert!(done(dir.path(), &["init", "--force"]).status.success());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the file is written");
    let check = done(dir.path(), &["check"]);
    assert_eq!(check.status.code(), Some(1));
    assert!(stdout(&check).contains("FAIL  chains: none is configured; `confirmd kinds`"), "{}", stdout(&check));
    refused(&done(dir.path(), &["run", "--init"]), &["no chain is configured", "confirmd kinds"]);
}

#[test]
fn check_names_what_fails_and_exits_with_1() {
    let dir = folder(CONFIG);
    let check = done(dir.path(), &["check"]);
    let text = stdout(&check);
    assert_eq!(check.status.code(), Some(1), "{text}");
    assert!(text.contains("ok    configuration"), "{text}");
    assert!(text.contains("warn  state") && text.contains("--init"), "{text}");
    assert!(text.contains("FAIL  anvil network"), "{text}");
    assert!(text.contains("ok    archive sink"), "{text}");
    let json = stdout(&done(dir.path(), &["check", "--json"]));
    assert!(json.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{json}");
}

#[test]
fn a_state_that_was_never_initialised_is_refused_without_init() {
    let dir = folder(CONFIG);
    refused(&done(dir.path(), &["run"]), &["state", "--init"]);
    refused(&done(dir.path(), &["status"]), &["state", "--init"]);
}

#[test]
fn an_instance_runs_without_its_node_answers_commands_refuses_a_second_one_and_stops_on_sigterm() {
    let dir = folder(CONFIG);
    let mut instance = Instance::start(dir.path(), &["run", "--init"]);
    instance.until("no answer");

    let status: serde_json::Value = serde_json::from_str(&stdout(&done(dir.path(), &["status", "--json"]))).unwrap();
    assert_eq!(status["running"], true);
    assert_eq!(status["chains"][0]["phase"], "unreachable");
    assert!(status["chains"][0]["alarm"].as_str().unwrap().contains("no answer"), "{status}");
    assert_eq!(status["consumers"][0]["kind"], "file");

    refused(&done(dir.path(), &["run"]), &["in use", "state"]);
    let add = ["watch", "add", "anvil", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"];
    refused(&done(dir.path(), &add), &["anvil has no first block yet", "chains.anvil.watch"]);
    refused(&done(dir.path(), &["watch", "add", "anvil", "0x12"]), &["0x12"]);
    refused(&done(dir.path(), &["watch", "list", "--chain", "base"]), &["base", "known: anvil"]);
    refused(&done(dir.path(), &["consumer", "rename", "archive", "new"]), &["an instance runs", "stop it"]);
    refused(&done(dir.path(), &["consumer", "pause", "ledger"]), &["ledger", "known: archive"]);
    refused(&done(dir.path(), &["chain", "resume", "anvil"]), &["anvil is not halted", "unreachable"]);
    let show = ["deliveries", "show", "evt_00000000000000000000000000000000"];
    refused(&done(dir.path(), &show), &["no event evt_0000"]);
    assert!(done(dir.path(), &["consumer", "pause", "archive", "--why", "migration"]).status.success());
    assert!(stdout(&done(dir.path(), &["consumer", "list"])).contains("migration"));
    assert!(stdout(&done(dir.path(), &["check"])).contains("in use by the instance at 127.0.0.1:"));
    for list in [vec!["deposits"], vec!["deliveries", "list"], vec!["watch", "list", "--all"]] {
        assert!(done(dir.path(), &list).status.success(), "{list:?}");
    }

    assert_eq!(instance.terminate(), Some(0));
    assert!(!dir.path().join("state/api-address").exists());

    // The same commands on the state itself.
    let status: serde_json::Value = serde_json::from_str(&stdout(&done(dir.path(), &["status", "--json"]))).unwrap();
    assert_eq!(status["running"], false);
    assert_eq!(status["consumers"][0]["paused"], "migration");
    assert!(done(dir.path(), &["consumer", "rename", "archive", "new"]).status.success());
    assert!(stdout(&done(dir.path(), &["consumer", "list"])).contains("not configured"));
    refused(&done(dir.path(), &["consumer", "purge", "new"]), &["new has 0 undelivered", "--yes"]);
    assert!(done(dir.path(), &["consumer", "purge", "new", "--yes"]).status.success());
    refused(&done(dir.path(), &add), &["no first block yet"]);
}

#[test]
fn an_instance_that_was_killed_leaves_nothing_that_misleads_a_command() {
    let dir = folder(CONFIG);
    let mut instance = Instance::start(dir.path(), &["run", "--init", "--log-format", "json"]);
    instance.child.kill().unwrap();
    instance.child.wait().unwrap();
    assert!(dir.path().join("state/api-address").exists());
    let status: serde_json::Value = serde_json::from_str(&stdout(&done(dir.path(), &["status", "--json"]))).unwrap();
    assert_eq!(status["running"], false);
    let mut again = Instance::start(dir.path(), &["run"]);
    assert_eq!(again.terminate(), Some(0));
}

#[test]
fn a_port_in_use_a_bad_filter_and_a_sink_that_refuses_stop_the_start_with_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = folder(&CONFIG.replace("127.0.0.1:0", &address));
    refused(&done(dir.path(), &["run", "--init"]), &["api.listen", &address, "another"]);
    let dir = folder(&format!("{CONFIG}\n[log]\nfilter = 'confirmd=loud'"));
    refused(&done(dir.path(), &["run", "--init"]), &["log.filter", "confirmd=loud"]);
    let dir = folder(&CONFIG.replace("./events.jsonl", "./missing/events.jsonl"));
    refused(&done(dir.path(), &["run", "--init"]), &["sinks.archive", "missing"]);
}

#[test]
fn a_list_with_a_bad_line_imports_nothing_and_names_the_line() {
    let dir = folder(CONFIG);
    assert_eq!(Instance::start(dir.path(), &["run", "--init"]).terminate(), Some(0));
    std::fs::write(dir.path().join("list.csv"), "chain,address\nanvil,0x12\n").unwrap();
    refused(&done(dir.path(), &["watch", "import", "list.csv"]), &["list.csv", "line 2", "0x12"]);
}

#[test]
fn kinds_and_version_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let kinds = stdout(&done(dir.path(), &["kinds"]));
    for name in ["bitcoin", "evm", "webhook", "file", "stdout"] {
        assert!(kinds.contains(name), "{kinds}");
    }
    assert!(stdout(&done(dir.path(), &["kinds", "webhook"])).contains("[sinks."));
    refused(&done(dir.path(), &["kinds", "kafka"]), &["kafka", "known: bitcoin"]);
    let version = stdout(&done(dir.path(), &["--version"]));
    assert!(version.starts_with(concat!("confirmd ", env!("CARGO_PKG_VERSION"), " (")), "{version}");
    assert_eq!(done(dir.path(), &["nonsense"]).status.code(), Some(2));
}
