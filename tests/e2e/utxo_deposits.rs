//! Deposits on litecoind and Knots: every kind of address, what is no deposit, and the block at which each is told.

use anyhow::{Context, Result, ensure};
use confirmd_testkit::receiver::WireEvent;
use e2e::{COINS, FamilyOptions, Needs, UtxoPlan, UtxoStage, node_trial, utxo_node};
use libtest_mimic::Trial;
use serde_json::json;

const CONFIRMATIONS: u64 = 3;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (group, node) in [("utxo_litecoind", Needs::Litecoind), ("utxo_knots", Needs::Knots)] {
        let name = format!("{group}::every_kind_of_address_is_told_at_its_depth_and_not_a_block_earlier");
        trials.push(node_trial(&name, &[node], move || every_kind(node)));
        let name = format!("{group}::a_first_start_in_the_past_reads_every_block_since");
        trials.push(node_trial(&name, &[node], move || catch_up(node)));
    }
    trials.push(node_trial(
        "utxo_knots::a_pruned_node_asked_for_pruned_blocks_halts_the_chain_and_says_what_to_do",
        &[Needs::Knots],
        pruned,
    ));
    trials
}

/// Segwit in upper case, as QR codes have it.
fn as_written(kind: &str, address: &str) -> String {
    if kind == "bech32" { address.to_uppercase() } else { address.to_owned() }
}

async fn every_kind(kind: Needs) -> Result<()> {
    // Zero-value outputs and bare multisig are relayed by no node, but may be mined.
    let extra = vec!["-acceptnonstdtxn=1".to_owned(), "-dustrelayfee=0".to_owned()];
    let node = utxo_node(kind, FamilyOptions { extra, ..FamilyOptions::default() }).await?;
    let mut kinds = vec!["legacy", "p2sh-segwit", "bech32"];
    if kind == Needs::Knots {
        kinds.push("bech32m");
    }
    let mut addresses = Vec::new();
    for kind in &kinds {
        addresses.push(node.new_address_of(kind).await?);
    }
    let watch = kinds.iter().zip(&addresses).map(|(kind, address)| as_written(kind, address)).collect();
    let plan = UtxoPlan { confirmations: CONFIRMATIONS, reorg_depth: 12, watch, ..UtxoPlan::default() };
    let stage = UtxoStage::set(node, plan).await?;
    let node = &stage.node;

    let coinbase = node.mine_to(&addresses[2], 1).await?;
    let coinbase_height = node.tip().await?.height;
    let coinbase = node.block(&coinbase[0], 1).await?["tx"][0].as_str().context("no coinbase")?.to_owned();

    let segwit = node.script_of(&addresses[2]).await?;
    let key = node.wallet("payer").call("getaddressinfo", json!([addresses[0]])).await?;
    let key = key["pubkey"].as_str().context("no public key")?;
    let mut outputs = Vec::new();
    for (index, address) in (0..).zip(&addresses) {
        outputs.push((node.script_of(address).await?, 1_000_000 + index));
    }
    outputs.extend(std::iter::repeat_n((segwit.clone(), 250_000), 10));
    let deposits = outputs.len();
    outputs.push((format!("6a{:02x}{segwit}", segwit.len() / 2), 0));
    if kind == Needs::Litecoind {
        // Knots takes neither burnt coins nor a script longer than 34 bytes.
        outputs.push((format!("6a{:02x}{segwit}", segwit.len() / 2), 7_000));
        outputs.push((format!("51{:02x}{key}51ae", key.len() / 2), 300_000));
    }
    outputs.push((segwit, 0));
    let outputs: Vec<_> = outputs.iter().map(|(script, amount)| (script.as_str(), *amount)).collect();
    let paid = node.pay_scripts(&outputs).await?;

    for confirmations in 1..CONFIRMATIONS {
        node.mine(1).await?;
        stage.told().await?;
        ensure!(stage.customer.receiver().requests().is_empty(), "told after {confirmations} confirmations");
        let chain = stage.service.chain(COINS).await?;
        ensure!(chain["pending"] == deposits + 1, "{chain}");
    }
    node.mine(1).await?;
    ensure!(stage.audit().await? == deposits);
    let mined_at = node.position(&paid).await?.context("not mined")?.block;
    for event in events(&stage) {
        let symbol = if kind == Needs::Knots { "BTC" } else { "LTC" };
        ensure!(event.key.tx_id == paid && event.confirmations == CONFIRMATIONS, "{event:?}");
        ensure!(event.block.hash == mined_at.hash && event.block.height == mined_at.height, "{event:?}");
        ensure!(event.asset.symbol == symbol && event.asset.decimals == 8, "{event:?}");
        let customer = addresses.iter().position(|address| *address == event.address).context("not our address")?;
        ensure!(event.reference == Some(format!("customer-{customer}")), "{event:?}");
    }

    // The coinbase can be spent after 100 confirmations; far below the floor by then.
    let missing = coinbase_height + 99 - node.tip().await?.height;
    node.mine(missing - 1).await?;
    stage.told().await?;
    ensure!(stage.history(&coinbase, 0).is_empty(), "told after 99 confirmations");
    node.mine(1).await?;
    stage.told().await?;
    stage.ensure_history(&coinbase, 0, &[1])?;
    ensure!(stage.audit().await? == deposits + 1);
    ensure!(stage.service.chain(COINS).await?["pending"] == 0);
    stage.customer.ensure_once()
}

fn events(stage: &UtxoStage) -> Vec<WireEvent> {
    stage.customer.receiver().requests().into_iter().filter_map(|request| request.event.ok()).collect()
}

async fn catch_up(kind: Needs) -> Result<()> {
    let node = utxo_node(kind, FamilyOptions::default()).await?;
    let watch = vec![node.new_address().await?, node.new_address_of("legacy").await?];
    let start = node.tip().await?.height + 6;
    for round in 0..20 {
        node.pay(&watch[round % 2], 2_000_000).await?;
        if round == 7 {
            node.pay_many(&[(watch[0].as_str(), 100_000); 10]).await?;
        }
        node.mine(10).await?;
    }
    let plan = UtxoPlan { confirmations: 6, start: Some(start), watch, ..UtxoPlan::default() };
    let stage = UtxoStage::set(node, plan).await?;
    // The first payment lies below the start.
    ensure!(stage.audit().await? == 29);
    let late = stage.pay(&stage.node.new_address().await?, 1_000_000).await?;
    stage.node.mine(6).await?;
    stage.told().await?;
    ensure!(stage.history(&late.0, late.1).is_empty(), "an address that nobody watches was told");
    stage.customer.ensure_once()
}

async fn pruned() -> Result<()> {
    let extra = ["-prune=1", "-fastprune=1", "-txindex=0"].map(str::to_owned).to_vec();
    let node = utxo_node(Needs::Knots, FamilyOptions { extra, ..FamilyOptions::default() }).await?;
    let customer = node.new_address().await?;
    node.mine(900).await?;
    let kept = node.rpc().call("pruneblockchain", json!([700])).await?;
    ensure!(kept.as_u64().is_some_and(|height| height > 50), "nothing was pruned: {kept}");
    let plan = UtxoPlan { start: Some(10), watch: vec![customer], ..UtxoPlan::default() };
    // It never follows the tip, so the stage is not waited for as others are.
    let mut stage = UtxoStage::prepared(node, plan).await?;
    stage.service.run().await?;
    let chain = stage.service.until_chain(COINS, "halted", |chain| chain["phase"] == "halted").await?;
    let alarm = chain["alarm"].as_str().unwrap_or_default();
    for part in ["pruned", "pruneheight", "start above that height", "confirmd chain resume coins"] {
        ensure!(alarm.contains(part), "{part:?} is not in {alarm}");
    }
    // The halt is durable, and check says what the node lacks.
    stage.service.kill_and_run().await?;
    stage.service.until_chain(COINS, "halted", |chain| chain["phase"] == "halted").await?;
    let (_, check, _) = stage.service.attempt(&["check"]).await?;
    ensure!(check.contains("coins pruning: on: blocks below"), "{check}");
    Ok(())
}
