//! Operational events: halts, nodes behind or silent, deep reorgs, failing consumers and dead letters reach a sink of the
//! operator's, once each.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use confirmd_testkit::alloy::primitives::{Address, U256};
use confirmd_testkit::receiver::{Behaviour, OperationalRequest};
use confirmd_testkit::{EvmOptions, FakeEvm, Remine};
use e2e::{ChainSection, Config, Customer, Needs, SOON, Service, SinkSection, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::evm_world::{ALICE, CHAIN, NAME, World, chain, pay, stage};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        node_trial("ops::a_halt_is_told_across_restarts_until_it_is_taken_and_then_no_more", &[Needs::Anvil], told),
        node_trial("ops::a_node_behind_a_silent_one_a_deep_reorg_and_a_paused_consumer_are_told_once_each", &[], told_once),
        node_trial("ops::a_check_asks_the_sink_of_operational_events_too_and_tells_it_nothing", &[], checked),
        node_trial("ops::a_check_beside_the_instance_does_not_fail_for_the_file_that_it_holds", &[], checked_beside),
        node_trial("ops::a_sink_that_keeps_books_of_deposits_takes_no_operational_events", &[], refused),
    ]
}

/// `[operations]` with a webhook to whoever is on call.
fn section(pager: &Customer) -> String {
    format!(
        "\n[operations]\nreorg_blocks = 3\nfailing_after = \"1s\"\n[operations.sink]\nkind = \"webhook\"\nurl = \"{}\"\n\
         secret = {{ env = \"CONFIRMD_E2E_SECRET\" }}\nallow_private = [\"127.0.0.0/8\"]\n",
        pager.url()
    )
}

fn accepted(requests: &[OperationalRequest], kind: &str) -> usize {
    requests.iter().filter(|request| request.is_accepted() && request.kind() == kind).count()
}

/// Waits until an event of this type was taken; its body.
async fn heard(pager: &Customer, kind: &str) -> Result<Value> {
    pager.until_operational(kind, |requests| accepted(requests, kind) > 0).await?;
    let requests = pager.receiver().operational();
    let event = requests.into_iter().find(|request| request.is_accepted() && request.kind() == kind);
    event.map(|request| request.event).context("it was there a moment ago")
}

/// Each of these was taken once, nothing else was, and nothing was sent there that is no operational event.
fn ensure_once_each<const N: usize>(pager: &Customer, kinds: [&str; N]) -> Result<()> {
    let wanted: BTreeMap<String, usize> = kinds.map(|kind| (format!("operations.{kind}"), 1)).into();
    let times = pager.operational_times();
    ensure!(times == wanted, "{times:?}\n{}", pager.describe());
    ensure!(pager.receiver().requests().is_empty(), "something else was sent there:\n{}", pager.describe());
    Ok(())
}

/// Waits until nothing is to be told any more, as it is written down. Taken is not enough: whoever is killed right then tells
/// the same once more.
async fn written_down(service: &Service) -> Result<()> {
    let file = service.instance_dir().join("state/operations.json");
    let start = tokio::time::Instant::now();
    loop {
        let book: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
        if book["queue"].as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        ensure!(start.elapsed() < SOON, "it still waits: {book}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The receiver of deposits heard of deposits alone.
fn ensure_deposits_only(customer: &Customer) -> Result<()> {
    let heard = customer.receiver().requests();
    ensure!(heard.iter().all(|request| request.event.is_ok()), "{}", customer.describe());
    Ok(())
}

async fn told() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let pager = Customer::on_call().await?;
    pager.receiver().always(Behaviour::Status(503));
    let sink = SinkSection::webhook("ledger", &customer.url()).retry(&["50ms"]);
    let config = Config::new().chain(chain(&anvil, &token, "default = 1", 4)).sink(sink).text(&section(&pager));
    anvil.mine(4).await?;
    let mut world = World::of(anvil, token, customer, &config).await?;
    pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(7).await?;

    // A reorg below the floor halts; nobody takes the word of it, and the process is killed.
    world.anvil.reorg(7, &[]).await?;
    world.anvil.mine(2).await?;
    world.service.until_chain(NAME, "halted", |chain| chain["phase"] == "halted").await?;
    pager.until_operational("a refused word", |requests| requests.iter().any(|request| request.answered == Some(503))).await?;
    world.service.kill_and_run().await?;
    pager.receiver().behave();
    let halt = heard(&pager, "operations.chain_halted").await?;
    let requests = pager.receiver().operational();
    let (first, last) = (requests.first().context("none")?, requests.last().context("none")?);
    ensure!(requests.len() >= 2 && (&first.id, &first.body) == (&last.id, &last.body), "{}", pager.describe());
    ensure!(halt["id"] == last.id.as_str() && halt["chain"] == CHAIN && halt["chain_name"] == NAME, "{halt}");
    let (text, remedy) = (halt["text"].as_str().unwrap_or_default(), halt["remedy"].as_str().unwrap_or_default());
    ensure!(text.contains("below the floor") && remedy.contains("confirmd chain resume devnet --accept-reorg"), "{halt}");
    ensure!(last.headers.contains_key("webhook-signature"), "it is signed");

    // Taken once, it is not told again, also not by the next process.
    written_down(&world.service).await?;
    world.service.kill_and_run().await?;
    world.service.until_chain(NAME, "halted again", |chain| chain["phase"] == "halted").await?;
    world.service.command(&["chain", "resume", NAME, "--accept-reorg", "--yes"]).await?;
    heard(&pager, "operations.reorg").await?;

    world.customer.receiver().always(Behaviour::Status(503));
    pay(&world.anvil, 2, ALICE, 7).await?;
    world.anvil.mine(1).await?;
    let dead = heard(&pager, "operations.dead_letters").await?;
    ensure!(dead["consumer"] == "ledger" && dead["details"]["new"] == 1, "{dead}");
    let failing = heard(&pager, "operations.consumer_failing").await?;
    ensure!(failing["consumer"] == "ledger" && failing["details"]["paused"] == false, "{failing}");
    ensure_once_each(&pager, ["chain_halted", "consumer_failing", "dead_letters", "reorg"])?;
    ensure_deposits_only(&world.customer)?;
    world.service.terminate().await
}

/// A chain in the trial's own process, whose node does as it is told.
async fn told_once() -> Result<()> {
    let node = FakeEvm::start(EvmOptions { chain_id: 31_337, ..EvmOptions::default() }).await?;
    node.mine(12);
    let (customer, pager) = (Customer::start().await?, Customer::on_call().await?);
    let limits = "limits = { requests_per_second = 5000, attempts = 2, deadline = \"1s\" }";
    let section_of_chain = ChainSection::evm(NAME, 31_337, &node.url()).confirmations("default = 1").reorg_depth(8);
    let section_of_chain = section_of_chain.line("behind_alarm = \"1s\"").line("fork_grace = \"10ms\"").line(limits);
    let sink = SinkSection::webhook("ledger", &customer.url()).retry(&["50ms"; 60]);
    let chain = section_of_chain.watch(ALICE, "alice");
    let mut service = Service::start(&Config::new().chain(chain).sink(sink).text(&section(&pager))).await?;
    service.until_chain(NAME, "at the tip", |chain| chain["phase"] == "following").await?;
    let remedied = |event: &Value, words: &str| event["remedy"].as_str().is_some_and(|remedy| remedy.contains(words));

    // Four of its blocks are gone, and nothing stands in their place.
    node.lag(4);
    let behind = heard(&pager, "operations.chain_behind").await?;
    ensure!(behind["chain"] == CHAIN && behind["details"]["trail"]["height"] == 12, "{behind}");
    ensure!(behind["details"]["node"]["height"] == 8 && remedied(&behind, "`confirmd check`"), "{behind}");
    node.lag(0);
    service.until_chain(NAME, "at the tip", |chain| chain["phase"] == "following").await?;

    node.stop().await?;
    let silent = heard(&pager, "operations.chain_unreachable").await?;
    ensure!(silent["chain_name"] == NAME && remedied(&silent, "`confirmd check`"), "{silent}");
    node.restart().await?;
    service.until_chain(NAME, "at the tip", |chain| chain["phase"] == "following").await?;

    // A reported deposit goes with its branch: nothing halts, but three blocks are worth a word. Two were not.
    let from: Address = "0x00000000000000000000000000000000000000aa".parse()?;
    let paid = node.transfer_native(from, ALICE.parse()?, U256::from(5)).to_string();
    node.mine(2);
    customer.until_at(CHAIN, &paid, 0, (1, true), SOON).await?;
    node.mine(1);
    service.until_chain(NAME, "at 15", |chain| chain["tip"]["height"] == 15).await?;
    node.fork_to_length(1, 2, Remine::Drop);
    service.until_chain(NAME, "at 16", |chain| chain["tip"]["height"] == 16).await?;
    node.fork_to_length(4, 5, Remine::Drop);
    customer.until_at(CHAIN, &paid, 0, (2, false), SOON).await?;
    let reorg = heard(&pager, "operations.reorg").await?;
    let details = &reorg["details"];
    ensure!(
        (&details["depth"], &details["reverted"]) == (&4.into(), &1.into()) && details["ancestor"]["height"] == 12,
        "{reorg}"
    );

    // The customer says 410: the consumer is paused, which is told at once.
    customer.receiver().always(Behaviour::Status(410));
    node.transfer_native(from, ALICE.parse()?, U256::from(7));
    node.mine(1);
    let failing = heard(&pager, "operations.consumer_failing").await?;
    ensure!(failing["consumer"] == "ledger" && failing["details"]["paused"] == true, "{failing}");
    ensure!(remedied(&failing, "confirmd consumer resume ledger"), "{failing}");
    ensure_once_each(&pager, ["chain_behind", "chain_unreachable", "consumer_failing", "reorg"])?;
    ensure_deposits_only(&customer)?;
    service.terminate().await
}

async fn refused() -> Result<()> {
    let text = "\n[operations.sink]\nkind = \"postgres\"\nurl = \"postgres://confirmd@127.0.0.1/ledger\"\n";
    for (text, said) in [
        (text, "operations.sink.kind"),
        ("\n[operations]\nreorg_blocks = 2\n", "operations.sink.kind"),
        ("\n[operations.sink]\nkind = \"pigeon\"\n", "unknown kind of sink"),
        ("\n[operations]\nfailing_after = \"0s\"\nsink = { kind = \"stdout\" }\n", "operations.failing_after"),
        ("\n[operations]\nsink = { kind = \"stdout\", retry = [\"1s\"] }\n", "retry"),
    ] {
        let chain = ChainSection::bitcoin("coins", "regtest", "{ url = \"http://127.0.0.1:1\" }");
        let config = Config::new().chain(chain.confirmations("default = 1").reorg_depth(6)).text(text);
        let service = Service::new(&config)?;
        let (code, stdout, stderr) = service.attempt(&["run", "--init"]).await?;
        ensure!(code == Some(1) && format!("{stdout}{stderr}").contains(said), "{text}: {code:?}\n{stdout}\n{stderr}");
    }
    Ok(())
}

async fn checked_beside() -> Result<()> {
    let node = FakeEvm::start(EvmOptions { chain_id: 31_337, ..EvmOptions::default() }).await?;
    node.mine(12);
    let chain = ChainSection::evm(NAME, 31_337, &node.url()).confirmations("default = 1").reorg_depth(8);
    let file = SinkSection::of_kind("books", "file").line("path = \"books.ndjson\"");
    let mut service = Service::start(&Config::new().chain(chain).sink(file)).await?;
    let found = service.json_lines(&["check", "--json"]).await?;
    let of_file = |found: &[Value]| found.iter().find(|finding| finding["subject"] == "books sink").cloned().unwrap_or_default();
    let held = of_file(&found);
    ensure!(
        held["verdict"] == "warn" && held["text"].as_str().is_some_and(|text| text.contains("running instance")),
        "{found:#?}"
    );
    service.terminate().await?;
    let found = service.json_lines(&["check", "--json"]).await?;
    ensure!(of_file(&found)["verdict"] == "ok", "{found:#?}");
    Ok(())
}

async fn checked() -> Result<()> {
    let node = FakeEvm::start(EvmOptions { chain_id: 31_337, ..EvmOptions::default() }).await?;
    node.mine(12);
    let (customer, pager) = (Customer::start().await?, Customer::on_call().await?);
    let chain = ChainSection::evm(NAME, 31_337, &node.url()).confirmations("default = 1").reorg_depth(8);
    let sink = SinkSection::webhook("ledger", &customer.url());
    let service = Service::new(&Config::new().chain(chain).sink(sink).text(&section(&pager)))?;
    let verdict = |found: &[Value]| {
        let mut of_it = found.iter().filter(|finding| finding["subject"] == "operations sink");
        (of_it.next().map(|finding| finding["verdict"].clone()), of_it.count())
    };
    let found = service.json_lines(&["check", "--json"]).await?;
    ensure!(verdict(&found) == (Some("ok".into()), 0), "{found:#?}");
    pager.receiver().down().await?;
    let (code, stdout, stderr) = service.attempt(&["check", "--json"]).await?;
    let found: Vec<Value> = stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(code == Some(1) && verdict(&found) == (Some("fail".into()), 0), "{code:?} {found:#?} {stderr}");
    ensure!(found.iter().filter(|finding| finding["verdict"] == "fail").count() == 1, "{found:#?}");
    ensure!(pager.receiver().operational().is_empty() && pager.receiver().requests().is_empty(), "{}", pager.describe());
    Ok(())
}
