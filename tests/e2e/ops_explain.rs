//! Why a transaction produced nothing: each reason is told from every other, on real nodes.

use anyhow::{Context, Result, ensure};
use e2e::{COINS, Config, FamilyOptions, Needs, Service, UtxoPlan, UtxoStage, node_trial, utxo_node};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::evm_world::{ALICE, BOB, NAME, STRANGER, World, chain, ledger, pay, stage};

/// No transaction has this id.
const NOBODY: &str = "00000000000000000000000000000000000000000000000000000000000000aa";

pub(crate) fn trials() -> Vec<Trial> {
    let name = "explain_says_why_a_transaction_produced_nothing_each_reason_told_from_every_other";
    vec![
        node_trial(&format!("ops::{name}_on_anvil"), &[Needs::Anvil], on_anvil),
        node_trial(&format!("ops::{name}_on_litecoind"), &[Needs::Litecoind], on_litecoind),
    ]
}

/// What is told of a transaction.
async fn explained(service: &Service, chain: &str, tx_id: &str, more: &[&str]) -> Result<Value> {
    let args: Vec<&str> = ["explain", chain, tx_id, "--json"].into_iter().chain(more.iter().copied()).collect();
    service.json_lines(&args).await?.pop().with_context(|| format!("{args:?} prints nothing"))
}

/// The payment at an output has this reason, and the findings say so in these words.
async fn ensure_reason(service: &Service, chain: &str, tx_id: &str, output: u64, (reason, words): (&str, &str)) -> Result<()> {
    let told = explained(service, chain, tx_id, &[]).await?;
    let payments = told["payments"].as_array().context("no payments")?;
    let payment =
        payments.iter().find(|payment| payment["output_index"] == output).with_context(|| format!("no {output}: {told}"))?;
    ensure!(payment["reason"] == reason, "{reason}: {told}");
    says(&told, words)
}

fn says(told: &Value, words: &str) -> Result<()> {
    let findings = told["findings"].as_array().context("no findings")?;
    ensure!(findings.iter().any(|one| one.as_str().is_some_and(|text| text.contains(words))), "{words:?} is not said: {told}");
    Ok(())
}

async fn on_anvil() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let other = anvil.deploy("MiniToken").await?;
    let holder = anvil.account(0)?.to_owned();
    anvil.mint(&other, &holder, 1_000).await?;
    anvil.mine(1).await?;
    let section = chain(&anvil, &token, "default = 3", 32).line("minimum = { ETH = \"1000\" }");
    let config = Config::new().chain(section).sink(ledger(&customer));
    let mut world = World::of(anvil, token, customer, &config).await?;

    let unlisted = world.anvil.transfer(&other, ALICE, 5).await?;
    let zero = world.anvil.transfer(&world.token, ALICE, 0).await?;
    let failed = world.anvil.transfer(&world.token, ALICE, 1_000_000_000).await?;
    let stranger = pay(&world.anvil, 1, STRANGER, 5_000).await?;
    let small = pay(&world.anvil, 2, BOB, 999).await?;
    let late = pay(&world.anvil, 3, world.anvil.account(9)?, 5_000).await?;
    world.mine(1).await?;
    let good = pay(&world.anvil, 1, BOB, 7_000).await?;
    world.mine(2).await?;
    let waiting = pay(&world.anvil, 2, ALICE, 7_000).await?;

    let service = &world.service;
    ensure_reason(service, NAME, &unlisted, 1, ("not_listed", &format!("erc20:{} is not listed", other.address))).await?;
    ensure_reason(service, NAME, &zero, 1, ("zero_amount", "its amount is zero")).await?;
    ensure_reason(service, NAME, &stranger, 0, ("not_watched", "is not watched")).await?;
    ensure_reason(service, NAME, &waiting, 0, ("in_no_block", "in no block yet: 0 of 3 confirmations")).await?;
    says(&explained(service, NAME, &failed, &[]).await?, "as a failed transaction: nothing was paid")?;
    says(&explained(service, NAME, &small, &[]).await?, "below minimum.ETH = 1000")?;
    says(&explained(service, NAME, &good, &[]).await?, "output 0 is pending with 2 of 3 confirmations")?;
    // Watched only later.
    let account = world.anvil.account(9)?.to_owned();
    let added = service.json_lines(&["watch", "add", NAME, &account, "--json"]).await?;
    let from = added.first().and_then(|one| one["from_height"].as_u64()).context("no height")?;
    ensure_reason(service, NAME, &late, 0, ("not_watched_yet", &format!("was not watched until height {from}"))).await?;
    // Nobody knows it; asked about somebody, it is said what that one got.
    let told = explained(service, NAME, &format!("0x{NOBODY}"), &[]).await?;
    ensure!(told["unknown"].to_string().contains("does not know this transaction"), "{told}");
    let told = explained(service, NAME, &good, &["--address", STRANGER]).await?;
    says(&told, "pays nothing to")?;
    let shown = service.command(&["explain", NAME, &zero]).await?;
    ensure!(shown.contains("its amount is zero"), "{shown}");

    world.mine(3).await?;
    says(&explained(&world.service, NAME, &good, &[]).await?, "is confirmed")?;
    // The same from a stopped instance's records and the node.
    world.service.terminate().await?;
    ensure_reason(&world.service, NAME, &zero, 1, ("zero_amount", "its amount is zero")).await?;
    says(&explained(&world.service, NAME, &failed, &[]).await?, "failed")
}

async fn on_litecoind() -> Result<()> {
    let node = utxo_node(Needs::Litecoind, FamilyOptions::default()).await?;
    let (ours, stranger, later) = (node.new_address().await?, node.new_address().await?, node.new_address().await?);
    let plan = UtxoPlan { confirmations: 3, watch: vec![ours.clone()], minimum: Some(100_000), ..UtxoPlan::default() };
    let stage = UtxoStage::set(node, plan).await?;
    let node = &stage.node;

    let zero = node.signed_paying(&[(&ours, 0), (&stranger, 200_000)]).await?;
    let zero_id = node.rpc().call("decoderawtransaction", serde_json::json!([zero])).await?;
    let zero_id = zero_id["txid"].as_str().context("no txid")?.to_owned();
    node.mine_block(&[&zero]).await?;
    let (foreign, foreign_out) = stage.pay(&stranger, 300_000).await?;
    let (small, _) = stage.pay(&ours, 99_999).await?;
    let (late, late_out) = stage.pay(&later, 300_000).await?;
    node.mine(1).await?;
    let (good, good_out) = stage.pay(&ours, 400_000).await?;
    node.mine(2).await?;
    stage.told().await?;
    let (waiting, waiting_out) = stage.pay(&ours, 500_000).await?;

    let service = &stage.service;
    ensure_reason(service, COINS, &zero_id, 0, ("zero_amount", "its amount is zero")).await?;
    ensure_reason(service, COINS, &foreign, foreign_out, ("not_watched", "is not watched")).await?;
    ensure_reason(service, COINS, &waiting, waiting_out, ("in_no_block", "in no block yet: 0 of 3 confirmations")).await?;
    says(&explained(service, COINS, &small, &[]).await?, "below minimum.LTC = 100000")?;
    says(&explained(service, COINS, &good, &[]).await?, &format!("output {good_out} is pending with 2 of 3 confirmations"))?;
    let added = service.json_lines(&["watch", "add", COINS, &later, "--json"]).await?;
    let from = added.first().and_then(|one| one["from_height"].as_u64()).context("no height")?;
    ensure_reason(service, COINS, &late, late_out, ("not_watched_yet", &format!("was not watched until height {from}"))).await?;
    let told = explained(service, COINS, NOBODY, &[]).await?;
    ensure!(told["unknown"].to_string().contains("does not know this transaction"), "{told}");
    // By its block's height alone, as where the node keeps no index.
    let height = node.position(&foreign).await?.context("not mined")?.block.height.to_string();
    says(&explained(service, COINS, &foreign, &["--height", &height]).await?, "is not watched")
}
