//! Informative events: told to the consumer that asks, each once, beside a ledger that never sees them.

use anyhow::{Context, Result, ensure};
use e2e::{
    Anvil, COINS, Config, Customer, Deployed, FamilyOptions, Needs, Service, SinkSection, UtxoPlan, UtxoStage, node_trial,
    utxo_node,
};
use libtest_mimic::Trial;
use serde_json::Value;
use std::collections::BTreeSet;

use crate::evm_world::{ALICE, BOB, World, chain, ledger, pay, reorg_raw, stage};

pub(crate) fn trials() -> Vec<Trial> {
    let evm = &[Needs::Anvil];
    let (reorgs, asked) = (
        "notices::each_block_that_carries_a_deposit_is_detected_once_and_settled_comes_last_across_reorgs_and_kills",
        "notices::a_consumer_is_told_from_the_reload_on_that_asks_for_it_and_no_longer_after_another",
    );
    let outputs = "notices_litecoind::an_output_is_detected_in_each_of_its_blocks_and_settled_at_the_floor";
    vec![node_trial(reorgs, evm, reorged), node_trial(asked, evm, reloaded), node_trial(outputs, &[Needs::Litecoind], on_outputs)]
}

const FILE: &str = "told.jsonl";

/// A consumer that keeps every line.
fn lines(events: &str) -> SinkSection {
    SinkSection::of_kind("screen", "file").line(&format!("path = \"{FILE}\"")).line(&format!("events = [{events}]"))
}

fn config(anvil: &Anvil, token: &Deployed, customer: &Customer, events: &str) -> Config {
    Config::new().chain(chain(anvil, token, "default = 3", 5)).sink(ledger(customer)).sink(lines(events))
}

/// Type without its first part, sequence and block of what the file was told of a transaction, in order.
fn told(service: &Service, tx_id: &str) -> Result<Vec<(String, u64, String)>> {
    let text = std::fs::read_to_string(service.instance_dir().join(FILE))?;
    let (mut told, mut ids) = (Vec::new(), BTreeSet::new());
    for line in text.lines() {
        let event: Value = serde_json::from_str(line)?;
        // A kill between a line and its acknowledgement repeats it under its id.
        if event["key"]["tx_id"] != tx_id || !ids.insert(event["id"].to_string()) {
            continue;
        }
        let word = event["type"].as_str().and_then(|text| text.strip_prefix("deposit.")).context("no type")?;
        let block = event["block"]["hash"].as_str().context("no block")?;
        told.push((word.to_owned(), event["sequence"].as_u64().context("no sequence")?, block.to_owned()));
    }
    Ok(told)
}

fn ensure_told(service: &Service, tx_id: &str, wanted: &[(&str, u64)]) -> Result<()> {
    let found = told(service, tx_id)?;
    let short: Vec<(&str, u64)> = found.iter().map(|(word, sequence, _)| (word.as_str(), *sequence)).collect();
    ensure!(short == wanted, "{tx_id}: {found:?}, not {wanted:?}\n{}", service.log());
    Ok(())
}

/// The types of what a reader that pulls is given of a transaction.
async fn pulled(service: &Service, query: &str, tx_id: &str) -> Result<Vec<String>> {
    let (status, page) = service.get(&format!("/v1/events?limit=1000{query}")).await?;
    ensure!(status == 200, "{status} {page}");
    let events = page["events"].as_array().context("no events")?.iter().filter(|event| event["key"]["tx_id"] == tx_id);
    Ok(events.filter_map(|event| event["type"].as_str()).map(str::to_owned).collect())
}

async fn reorged() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let config = config(&anvil, &token, &customer, "\"detected\", \"settled\"");
    let mut world = World::of(anvil, token, customer, &config).await?;
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;
    ensure_told(&world.service, &paid, &[("detected", 0)])?;
    let raw = world.anvil.raw_transaction(&paid).await?;
    // In another block before it is deep enough.
    reorg_raw(&world.anvil, 1, &[(&raw, 0)]).await?;
    world.mine(1).await?;
    ensure_told(&world.service, &paid, &[("detected", 0), ("detected", 0)])?;
    world.service.kill_and_run().await?;
    world.mine(1).await?;
    let confirmed = [("detected", 0), ("detected", 0), ("confirmed", 1)];
    ensure_told(&world.service, &paid, &confirmed)?;
    // Taken back, and mined again at the top of the new branch.
    reorg_raw(&world.anvil, 3, &[(&raw, 2)]).await?;
    world.mine(1).await?;
    let again = [&confirmed[..], &[("reverted", 2), ("detected", 2)]].concat();
    ensure_told(&world.service, &paid, &again)?;
    world.mine(1).await?;
    world.service.kill_and_run().await?;
    world.mine(10).await?;
    let all = [&again[..], &[("confirmed", 3), ("settled", 3)]].concat();
    ensure_told(&world.service, &paid, &all)?;
    let blocks: BTreeSet<String> = told(&world.service, &paid)?.into_iter().map(|(.., block)| block).collect();
    ensure!(blocks.len() == 3, "three blocks carried it: {blocks:?}");

    // Who did not ask was told of decisions alone, and reads no other.
    ensure!(world.history(&paid, 0) == [1, 2, 3], "{}", world.customer.describe());
    let decided = ["deposit.confirmed", "deposit.reverted", "deposit.confirmed"];
    ensure!(pulled(&world.service, "", &paid).await? == decided);
    ensure!(pulled(&world.service, "&include=detected,settled", &paid).await?.len() == all.len());
    ensure!(pulled(&world.service, "&include=settled", &paid).await?.len() == decided.len() + 1);
    let (status, problem) = world.service.get("/v1/events?include=lost").await?;
    ensure!(status == 400 && problem.to_string().contains("lost"), "{status} {problem}");
    world.service.terminate().await?;
    let verified = world.service.command(&["state", "verify"]).await?;
    ensure!(!verified.contains("its id is not"), "{verified}");
    world.customer.ensure_sound()
}

async fn reloaded() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let first = Config::new().chain(chain(&anvil, &token, "default = 3", 5)).sink(ledger(&customer));
    let silent = first.clone().sink(SinkSection::of_kind("screen", "file").line(&format!("path = \"{FILE}\"")));
    let world = World::of(anvil, token, customer, &silent).await?;
    let before = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;
    world.service.configure(&first.clone().sink(lines("\"detected\"")))?;
    let changed = world.service.command(&["reload"]).await?;
    ensure!(changed == "sinks.screen: changed\n", "{changed}");
    let asked = pay(&world.anvil, 2, BOB, 7).await?;
    world.mine(1).await?;
    ensure_told(&world.service, &asked, &[("detected", 0)])?;
    world.service.configure(&silent)?;
    world.service.command(&["reload"]).await?;
    let after = pay(&world.anvil, 3, ALICE, 9).await?;
    world.mine(10).await?;
    ensure_told(&world.service, &before, &[("confirmed", 1)])?;
    ensure_told(&world.service, &asked, &[("detected", 0), ("confirmed", 1)])?;
    ensure_told(&world.service, &after, &[("confirmed", 1)])?;
    let wrong = first.sink(lines("\"confirmed\""));
    world.service.configure(&wrong)?;
    let (code, stdout, stderr) = world.service.attempt(&["reload"]).await?;
    ensure!(code == Some(1) && stderr.contains("sinks.screen.events[0]"), "{stdout}{stderr}");
    world.ensure_books_match().await
}

async fn on_outputs() -> Result<()> {
    let node = utxo_node(Needs::Litecoind, FamilyOptions::default()).await?;
    let address = node.new_address().await?;
    let plan = UtxoPlan { watch: vec![address.clone()], confirmations: 3, reorg_depth: 5, ..UtxoPlan::default() };
    let mut stage = UtxoStage::prepared(node, plan).await?;
    stage.service.configure(&stage.config().sink(lines("\"detected\", \"settled\"")))?;
    stage.service.run().await?;
    stage.told().await?;
    let (paid, output) = stage.pay(&address, 1_000_000).await?;
    stage.node.mine(1).await?;
    stage.told().await?;
    ensure_told(&stage.service, &paid, &[("detected", 0)])?;
    // Mined again one block higher.
    stage.node.disconnect(1).await?;
    stage.node.mine_block(&[]).await?;
    stage.node.mine(1).await?;
    stage.told().await?;
    ensure_told(&stage.service, &paid, &[("detected", 0), ("detected", 0)])?;
    stage.node.mine(8).await?;
    stage.told().await?;
    ensure_told(&stage.service, &paid, &[("detected", 0), ("detected", 0), ("confirmed", 1), ("settled", 1)])?;
    stage.ensure_history(&paid, output, &[1])?;
    ensure!(stage.audit().await? == 1);
    let deposits = stage.service.json_lines(&["deposits", "--chain", COINS, "--tx", &paid, "--json"]).await?;
    let one = deposits.iter().find(|one| one["output_index"] == output).context("no deposit")?;
    ensure!(one["state"] == "settled" && one["sequence"] == 1, "{one}");
    stage.customer.ensure_once()
}
