//! Restarts on either side, on litecoind and Knots: of confirmd, of the node, and a node that comes back older.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{Auth, COINS, FamilyOptions, Needs, UtxoPlan, UtxoStage, node_trial, utxo_node};
use libtest_mimic::Trial;
use serde_json::{Value, json};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (group, node) in [("utxo_litecoind", Needs::Litecoind), ("utxo_knots", Needs::Knots)] {
        let name = |sentence: &str| format!("{group}::{sentence}");
        let on = [node];
        trials.push(node_trial(&name("a_restart_in_the_middle_repeats_and_misses_nothing"), &on, move || stopped(node)));
        trials.push(node_trial(&name("a_kill_at_any_moment_loses_nothing_and_credits_nothing_twice"), &on, move || killed(node)));
        trials.push(node_trial(&name("a_node_that_comes_back_with_an_older_chain_takes_nothing_back"), &on, move || older(node)));
        trials.push(node_trial(&name("a_node_that_restarts_with_another_cookie_is_read_on"), &on, move || cookie(node)));
        trials.push(node_trial(&name("a_node_that_hangs_keeps_neither_status_nor_stop_waiting"), &on, move || hanging(node)));
    }
    trials
}

async fn stage(kind: Needs, options: FamilyOptions, confirmations: u64) -> Result<(UtxoStage, String)> {
    let node = utxo_node(kind, options).await?;
    let customer = node.new_address().await?;
    let plan = UtxoPlan { confirmations, watch: vec![customer.clone()], ..UtxoPlan::default() };
    Ok((UtxoStage::set(node, plan).await?, customer))
}

async fn stopped(kind: Needs) -> Result<()> {
    let (mut stage, customer) = stage(kind, FamilyOptions::default(), 2).await?;
    let before = stage.pay(&customer, 1_000_000).await?;
    stage.node.mine(1).await?;
    stage.told().await?;
    stage.service.terminate().await?;
    let meanwhile = stage.pay(&customer, 2_000_000).await?;
    stage.node.mine(2).await?;
    stage.service.run().await?;
    stage.told().await?;
    stage.ensure_history(&before.0, before.1, &[1])?;
    stage.ensure_history(&meanwhile.0, meanwhile.1, &[1])?;

    // A reorg that nobody saw happen.
    stage.service.terminate().await?;
    let raw = [stage.node.raw_transaction(&before.0).await?, stage.node.raw_transaction(&meanwhile.0).await?];
    stage.node.reorg_empty(3).await?;
    stage.service.run().await?;
    stage.told().await?;
    stage.ensure_history(&before.0, before.1, &[1, 2])?;
    stage.service.terminate().await?;
    stage.resend(&before.0, &raw[0]).await?;
    stage.resend(&meanwhile.0, &raw[1]).await?;
    stage.node.mine(2).await?;
    stage.service.run().await?;
    stage.told().await?;
    stage.ensure_history(&before.0, before.1, &[1, 2, 3])?;
    stage.ensure_history(&meanwhile.0, meanwhile.1, &[1, 2, 3])?;
    ensure!(stage.audit().await? == 2);
    stage.customer.ensure_once()
}

async fn killed(kind: Needs) -> Result<()> {
    let (mut stage, customer) = stage(kind, FamilyOptions::default(), 1).await?;
    for round in 0..4_usize {
        for _ in 0..3 {
            stage.node.pay_many(&[(customer.as_str(), 100_000); 4]).await?;
            stage.node.mine(1).await?;
        }
        // Somewhere between reading, committing and delivering.
        let seen = stage.customer.receiver().requests().len();
        stage.customer.until("an event", Duration::from_secs(30), |_, requests| requests.len() > seen).await?;
        stage.service.instance().kill()?;
        if round % 2 == 0 {
            stage.node.reorg(2, 1).await?;
        }
        stage.service.run().await?;
        stage.node.mine(1).await?;
        stage.told().await?;
    }
    // An answer that was lost with the process is asked for again, under the same id and with the same body.
    ensure!(stage.audit().await? == 48);
    Ok(())
}

async fn older(kind: Needs) -> Result<()> {
    let (mut stage, customer) = stage(kind, FamilyOptions::default(), 1).await?;
    // What is flushed stays.
    stage.node.stop().await?;
    stage.service.until_chain(COINS, "unreachable", |chain| chain["phase"] == "unreachable").await?;
    stage.node.resume().await?;
    let deposit = stage.pay(&customer, 1_000_000).await?;
    let raw = stage.node.raw_transaction(&deposit.0).await?;
    let mined = stage.node.mine(4).await?;
    stage.told().await?;
    let tip = stage.node.tip().await?;
    let mut blocks = Vec::new();
    for hash in &mined {
        blocks.push(stage.node.block(hash, 0).await?);
    }

    stage.node.kill()?;
    stage.node.resume().await?;
    ensure!(stage.node.tip().await?.height < tip.height, "the node kept its newest blocks");
    let behind = |chain: &Value| chain["phase"] == "behind";
    let chain = stage.service.until_chain(COINS, "behind", behind).await?;
    ensure!(chain["tip"]["height"] == tip.height, "{chain}");
    ensure!(chain["detail"].as_str().is_some_and(|text| text.contains("nothing is rolled back")), "{chain}");
    stage.ensure_history(&deposit.0, deposit.1, &[1])?;
    // A peer has the same blocks.
    for block in &blocks {
        stage.node.rpc().call("submitblock", json!([block])).await?;
    }
    ensure!(stage.node.tip().await? == tip);
    stage.service.until_chain(COINS, "following", |chain| chain["phase"] == "following").await?;
    stage.node.mine(1).await?;
    ensure!(stage.audit().await? == 1);
    stage.ensure_history(&deposit.0, deposit.1, &[1])?;

    // Once more; now the chain grows otherwise, and past ours.
    let tip = stage.node.tip().await?;
    stage.node.kill()?;
    stage.node.resume().await?;
    stage.service.until_chain(COINS, "behind", behind).await?;
    while stage.node.tip().await?.height < tip.height {
        stage.node.mine_block(&[]).await?;
        stage.ensure_history(&deposit.0, deposit.1, &[1])?;
    }
    stage.node.mine_block(&[]).await?;
    stage.until_at(&deposit.0, deposit.1, (2, false)).await?;
    ensure!(stage.audit().await? == 0);
    stage.resend(&deposit.0, &raw).await?;
    stage.node.mine(1).await?;
    ensure!(stage.audit().await? == 1);
    stage.ensure_history(&deposit.0, deposit.1, &[1, 2, 3])?;
    stage.customer.ensure_once()
}

async fn cookie(kind: Needs) -> Result<()> {
    let options = FamilyOptions { auth: Auth::Cookie, ..FamilyOptions::default() };
    let (mut stage, customer) = stage(kind, options, 1).await?;
    for _ in 0..2 {
        let old = std::fs::read_to_string(stage.node.cookie_file())?;
        stage.node.stop().await?;
        let down = stage.service.until_chain(COINS, "unreachable", |chain| chain["phase"] == "unreachable").await?;
        ensure!(down["alarm"].is_string(), "{down}");
        let ready = stage.service.get("/readyz").await?;
        ensure!(ready.0 == 503 && ready.1["reasons"].to_string().contains(COINS), "{ready:?}");
        stage.node.resume().await?;
        ensure!(std::fs::read_to_string(stage.node.cookie_file())? != old);
        let deposit = stage.pay(&customer, 1_000_000).await?;
        stage.node.mine(1).await?;
        stage.told().await?;
        stage.ensure_history(&deposit.0, deposit.1, &[1])?;
        ensure!(stage.service.get("/readyz").await?.0 == 200);
        let password = old.split_once(':').context("not a cookie")?.1;
        ensure!(!stage.service.log().contains(password), "the cookie is in the log");
    }
    ensure!(stage.audit().await? == 2);
    stage.customer.ensure_once()
}

async fn hanging(kind: Needs) -> Result<()> {
    let (mut stage, customer) = stage(kind, FamilyOptions::default(), 1).await?;
    stage.node.process()?.signal("STOP")?;
    let begun = std::time::Instant::now();
    ensure!(stage.service.command(&["status"]).await?.contains(COINS));
    stage.service.command(&["consumer", "list"]).await?;
    stage.service.terminate().await?;
    ensure!(begun.elapsed() < Duration::from_secs(15), "took {:?}", begun.elapsed());
    stage.service.run().await?;
    stage.node.process()?.signal("CONT")?;
    stage.pay(&customer, 1_000_000).await?;
    stage.node.mine(1).await?;
    ensure!(stage.audit().await? == 1);
    stage.customer.ensure_once()
}
