//! Operational events: halts, deep reorgs, failing consumers and dead letters reach a sink of the operator's, once each.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use confirmd_testkit::receiver::{Behaviour, Received};
use e2e::{Config, Customer, Needs, SOON, SinkSection, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::evm_world::{ALICE, CHAIN, NAME, World, chain, pay, stage};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        node_trial("ops::a_halt_is_told_across_restarts_until_it_is_taken_and_then_no_more", &[Needs::Anvil], told),
        node_trial("ops::a_sink_that_keeps_books_of_deposits_takes_no_operational_events", &[], refused),
    ]
}

/// `[operations]` with a webhook to a receiver, which needs none of a deposit's rules.
fn section(pager: &Customer) -> String {
    format!(
        "\n[operations]\nreorg_blocks = 3\nfailing_after = \"1s\"\n[operations.sink]\nkind = \"webhook\"\nurl = \"{}\"\n\
         secret = {{ env = \"CONFIRMD_E2E_SECRET\" }}\nallow_private = [\"127.0.0.0/8\"]\n",
        pager.url()
    )
}

fn body(request: &Received) -> Value {
    serde_json::from_slice(&request.body).unwrap_or_default()
}

fn accepted(requests: &[Received], kind: &str) -> usize {
    requests.iter().filter(|request| request.answered == Some(200) && body(request)["type"] == kind).count()
}

async fn told() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let pager = Customer::start().await?;
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
    pager.until("a refused word", SOON, |_, requests| !requests.is_empty()).await?;
    world.service.kill_and_run().await?;
    pager.receiver().always(Behaviour::Status(200));
    pager.until("the halt", SOON, |_, requests| accepted(requests, "operations.chain_halted") == 1).await?;
    let requests = pager.receiver().requests();
    let (first, last) = (requests.first().context("none")?, requests.last().context("none")?);
    ensure!(requests.len() >= 2 && (&first.id, &first.body) == (&last.id, &last.body), "{}", pager.describe());
    let halt = body(last);
    ensure!(halt["id"] == last.id.as_str() && halt["chain"] == CHAIN && halt["chain_name"] == NAME, "{halt}");
    let (text, remedy) = (halt["text"].as_str().unwrap_or_default(), halt["remedy"].as_str().unwrap_or_default());
    ensure!(text.contains("below the floor") && remedy.contains("confirmd chain resume devnet --accept-reorg"), "{halt}");
    ensure!(last.headers.contains_key("webhook-signature"), "it is signed");

    // Taken once, it is not told again, also not by the next process.
    world.service.kill_and_run().await?;
    world.service.until_chain(NAME, "halted again", |chain| chain["phase"] == "halted").await?;
    world.service.command(&["chain", "resume", NAME, "--accept-reorg", "--yes"]).await?;
    pager.until("the reorg", SOON, |_, requests| accepted(requests, "operations.reorg") == 1).await?;

    world.customer.receiver().always(Behaviour::Status(503));
    pay(&world.anvil, 2, ALICE, 7).await?;
    world.anvil.mine(1).await?;
    pager.until("dead letters", SOON, |_, requests| accepted(requests, "operations.dead_letters") == 1).await?;
    pager.until("a failing consumer", SOON, |_, requests| accepted(requests, "operations.consumer_failing") == 1).await?;

    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let requests = pager.receiver().requests();
    for request in requests.iter().filter(|request| request.answered == Some(200)) {
        *times.entry(body(request)["type"].as_str().unwrap_or("no type").to_owned()).or_default() += 1;
    }
    let kinds = ["chain_halted", "consumer_failing", "dead_letters", "reorg"].map(|kind| (format!("operations.{kind}"), 1));
    ensure!(times == BTreeMap::from(kinds), "{times:?}\n{}", pager.describe());
    let dead = requests.iter().map(body).find(|body| body["type"] == "operations.dead_letters").context("no dead letters")?;
    ensure!(dead["consumer"] == "ledger" && dead["details"]["new"] == 1, "{dead}");
    // The receiver of deposits heard of none of it.
    let heard = world.customer.receiver().requests();
    ensure!(heard.iter().all(|request| body(request)["type"].as_str().is_some_and(|kind| kind.starts_with("deposit."))));
    world.service.terminate().await
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
        let chain = e2e::ChainSection::bitcoin("coins", "regtest", "{ url = \"http://127.0.0.1:1\" }");
        let config = Config::new().chain(chain.confirmations("default = 1").reorg_depth(6)).text(text);
        let service = e2e::Service::new(&config)?;
        let (code, stdout, stderr) = service.attempt(&["run", "--init"]).await?;
        ensure!(code == Some(1) && format!("{stdout}{stderr}").contains(said), "{text}: {code:?}\n{stdout}\n{stderr}");
    }
    Ok(())
}
