//! The binary with a node: deposits, refusals that depend on what was recorded, a halt and its end.

use crate::dev::{self, CUSTOMER, ONE_CUSTOMER, OTHER, SCREEN, json, node, pay};
use crate::instance::{Instance, done, folder, refused, stdout};
use confirmd_testkit::{FakeEvm, Remine};

fn config(node: &FakeEvm, sinks: &str) -> String {
    dev::config(node, "", ONE_CUSTOMER, sinks)
}

fn ledger() -> String {
    dev::ledger("['1h']")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_added_at_run_time_is_covered_from_the_height_that_is_answered() {
    let node = node(31_337).await;
    let dir = folder(&config(&node, SCREEN));
    let mut instance = Instance::start(dir.path(), &["run", "--init"]);
    instance.until("following");
    std::fs::write(
        dir.path().join("list.jsonl"),
        format!("{{\"chain\":\"dev\",\"address\":\"{OTHER}\",\"reference\":\"c2\"}}\n"),
    )
    .unwrap();
    let added = json(dir.path(), &["watch", "import", "list.jsonl", "--json"]);
    assert_eq!((&added[0]["from_height"], &added[0]["count"]), (&9.into(), &1.into()));
    pay(&node, CUSTOMER, 5);
    pay(&node, OTHER, 7);
    node.mine(2);
    let events = [instance.next_event(), instance.next_event()];
    assert_eq!((&events[0]["amount"], &events[0]["reference"]), (&"5".into(), &"customer-42".into()));
    assert_eq!((&events[1]["amount"], &events[1]["reference"]), (&"7".into(), &"c2".into()));

    let deposits = json(dir.path(), &["deposits", "--json", "--address", &OTHER.to_lowercase()]);
    assert_eq!((deposits.len(), &deposits[0]["state"], &deposits[0]["amount"]), (1, &"confirmed".into(), &"7".into()));
    assert_eq!(json(dir.path(), &["watch", "list", "--json", "--limit", "1"]).len(), 1);
    assert_eq!(json(dir.path(), &["watch", "list", "--json", "--all"]).len(), 2);
    let event = events[1]["id"].as_str().unwrap();
    let shown = json(dir.path(), &["deliveries", "show", event, "--json"]);
    assert_eq!((&shown[0]["body"], &shown[0]["deliveries"][0]["state"]), (&events[1], &"delivered".into()));
    refused(&done(dir.path(), &["watch", "remove", "dev", CUSTOMER]), &[CUSTOMER, "chains.dev.watch"]);
    assert_eq!(instance.terminate(), Some(0));

    // Without an instance: the same answers, and an address is added and removed on the state itself.
    assert_eq!(json(dir.path(), &["deposits", "--json"]).len(), 2);
    let third = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB";
    assert_eq!(json(dir.path(), &["watch", "add", "dev", third, "--json"])[0]["from_height"], 11);
    assert!(stdout(&done(dir.path(), &["watch", "remove", "dev", third, OTHER])).contains("2 of 2"));

    let mut again = Instance::start(dir.path(), &["run"]);
    pay(&node, OTHER, 1);
    pay(&node, CUSTOMER, 9);
    node.mine(2);
    assert_eq!(again.next_event()["amount"], "9", "nothing is repeated, and a removed address takes nothing");
    assert_eq!(again.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn g9_a_chain_without_a_node_and_a_consumer_without_a_receiver_hold_nobody_up() {
    let node = node(31_337).await;
    let down = "[chains.down]\nkind = 'bitcoin'\nnetwork = 'regtest'\nrpc = [{ url = 'http://127.0.0.1:1' }]\nconfirmations = { default = 1 }\nreorg_depth = 6";
    let dir = folder(&config(&node, &format!("{down}\n{SCREEN}\n{}", ledger())));
    std::fs::write(dir.path().join("secret"), "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
    let mut instance = Instance::start(dir.path(), &["run", "--init"]);
    instance.until("following");
    for amount in ["1", "2", "3"] {
        pay(&node, CUSTOMER, amount.parse().unwrap());
        node.mine(2);
        assert_eq!(instance.next_event()["amount"], amount);
    }
    assert_eq!(instance.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_network_under_a_chains_name_is_refused() {
    let (one, two) = (node(31_337).await, node(31_338).await);
    let dir = folder(&config(&one, SCREEN));
    let mut instance = Instance::start(dir.path(), &["run", "--init"]);
    instance.until("following");
    assert_eq!(instance.terminate(), Some(0));
    let changed = config(&two, SCREEN).replace("chain_id = 31337", "chain_id = 31338");
    std::fs::write(dir.path().join("confirmd.toml"), changed).unwrap();
    refused(&done(dir.path(), &["run"]), &["chains.dev", "eip155:31338", "eip155:31337", "state.path"]);
    let check = done(dir.path(), &["check"]);
    assert!(stdout(&check).contains("FAIL  state: chains.dev is eip155:31338"), "{}", stdout(&check));
    // The configuration is right, the node is not: the chain halts, loudly, and the instance goes on.
    std::fs::write(dir.path().join("confirmd.toml"), config(&two, SCREEN)).unwrap();
    assert!(stdout(&done(dir.path(), &["check"])).contains("FAIL  dev network"));
    let mut instance = Instance::start(dir.path(), &["run"]);
    instance.until("chain halted");
    let status = json(dir.path(), &["status", "--json"]);
    assert_eq!(status[0]["chains"][0]["phase"], "halted");
    assert_eq!(instance.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn g6_a_consumer_that_left_the_configuration_with_undelivered_events_refuses_the_start() {
    let node = node(31_337).await;
    let dir = folder(&config(&node, &ledger()));
    std::fs::write(dir.path().join("secret"), "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
    let mut instance = Instance::start(dir.path(), &["run", "--init"]);
    instance.until("following");
    pay(&node, CUSTOMER, 5);
    node.mine(2);
    instance.until("delivery failed");
    let waiting = json(dir.path(), &["deliveries", "list", "--json"]);
    assert_eq!((waiting.len(), &waiting[0]["state"], &waiting[0]["attempts"]), (1, &"retrying".into(), &1.into()));
    let event = waiting[0]["event"].as_str().unwrap().to_owned();
    assert!(stdout(&done(dir.path(), &["deliveries", "requeue", "ledger", &event])).starts_with("1 delivery"));
    instance.until("delivery failed");
    assert_eq!(instance.terminate(), Some(0));

    let renamed = config(&node, &ledger()).replace("[sinks.ledger]", "[sinks.books]\nstart = 'now'");
    std::fs::write(dir.path().join("confirmd.toml"), renamed).unwrap();
    let parts = ["sinks.ledger", "1 undelivered", "consumer rename ledger", "consumer purge ledger"];
    refused(&done(dir.path(), &["run"]), &parts);
    refused(&done(dir.path(), &["consumer", "purge", "ledger"]), &["1 undelivered", "--yes"]);
    assert!(done(dir.path(), &["consumer", "rename", "ledger", "books"]).status.success());
    let moved = json(dir.path(), &["deliveries", "list", "--json", "--consumer", "books"]);
    assert_eq!(moved[0]["event"], event.as_str());
    let mut again = Instance::start(dir.path(), &["run"]);
    refused(&done(dir.path(), &["deliveries", "skip", "books", &event]), &["never be told", "--yes"]);
    assert!(done(dir.path(), &["deliveries", "skip", "books", &event, "--yes"]).status.success());
    assert_eq!(json(dir.path(), &["deliveries", "list", "--json"])[0]["state"], "skipped");
    assert_eq!(again.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn g10_a_chain_halted_by_a_deep_reorg_is_resumed_by_a_command_that_names_it() {
    let node = node(31_337).await;
    let dir = folder(&config(&node, SCREEN));
    let mut instance = Instance::start(dir.path(), &["run", "--init"]);
    instance.until("following");
    pay(&node, CUSTOMER, 5);
    node.mine(3);
    let confirmed = instance.next_event();
    node.fork(7, Remine::Drop);
    instance.until("chain halted");
    let status = json(dir.path(), &["status", "--json"]);
    let alarm = status[0]["chains"][0]["alarm"].as_str().unwrap();
    assert!(alarm.contains("confirmd chain resume dev --accept-reorg"), "{alarm}");
    assert_eq!(instance.terminate(), Some(0));

    // The halt survives the restart.
    let mut instance = Instance::start(dir.path(), &["run"]);
    refused(&done(dir.path(), &["chain", "resume", "dev"]), &["below the floor", "--accept-reorg"]);
    refused(
        &done(dir.path(), &["chain", "resume", "dev", "--accept-reorg"]),
        &["dev is halted", "below the floor", "taken back", "--yes"],
    );
    let report = json(dir.path(), &["chain", "resume", "dev", "--accept-reorg", "--yes", "--json"]);
    assert!(report[0]["ancestor"]["height"].as_u64().unwrap() < 9, "{report:?}");
    assert_eq!(report[0]["reverted"][0]["tx_id"], confirmed["key"]["tx_id"]);
    let reverted = instance.next_event();
    assert_eq!((&reverted["type"], &reverted["sequence"]), (&"deposit.reverted".into(), &2.into()));
    instance.until("following");
    assert_eq!(instance.terminate(), Some(0));
}
