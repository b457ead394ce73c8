//! The recipes that other trials build on, shown on anvil itself.

use anyhow::{Context, Result, ensure};
use e2e::{Anvil, Arg, Needs, node_trial};
use libtest_mimic::Trial;
use serde_json::{Value, json};

const CUSTOMER: &str = "0x00000000000000000000000000000000c0ffee01";
const OTHER: &str = "0x00000000000000000000000000000000c0ffee02";
const THIRD: &str = "0x00000000000000000000000000000000c0ffee03";
const TRANSFER: &str = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    vec![
        node_trial("anvil::a_payment_waits_until_a_block_is_mined", needs, payment_waits),
        node_trial("anvil::a_reorg_moves_a_transaction_to_another_height_and_position", needs, reorg_moves),
        node_trial("anvil::a_reorg_returns_transactions_to_the_pool_on_request", needs, reorg_to_pool),
        node_trial("anvil::a_double_spent_transaction_never_comes_back", needs, double_spend),
        node_trial("anvil::a_rollback_makes_the_chain_shorter", needs, rollback),
        node_trial("anvil::a_restart_keeps_blocks_traces_and_the_ability_to_reorg", needs, restart),
        node_trial("anvil::the_spammer_buries_token_payments_under_foreign_logs", needs, spammer),
        node_trial("anvil::the_splitter_pays_by_internal_calls_of_every_kind", needs, splitter),
        node_trial("anvil::the_lookalike_logs_have_the_wrong_shape", needs, lookalike),
    ]
}

async fn payment_waits() -> Result<()> {
    let anvil = Anvil::start().await?;
    let hash = anvil.pay(CUSTOMER, 5).await?;
    ensure!(anvil.position(&hash).await?.is_none());
    anvil.mine(3).await?;
    ensure!(anvil.position(&hash).await?.context("not mined")?.block.height == 1);
    ensure!(anvil.tip().await?.height == 3);
    ensure!(anvil.block_ref("safe").await?.context("no safe block")?.height == 2);
    ensure!(anvil.block_ref("finalized").await?.context("no finalized block")?.height == 1);
    ensure!(anvil.block(4).await?.is_none());
    Ok(())
}

async fn reorg_moves() -> Result<()> {
    let anvil = Anvil::start().await?;
    anvil.mine(5).await?;
    let moved = anvil.pay(CUSTOMER, 5).await?;
    anvil.mine(3).await?;
    let before = anvil.position(&moved).await?.context("not mined")?;
    ensure!((before.block.height, before.index) == (6, 0));

    // A transaction of another sender goes first in the new block.
    let first = e2e::Call { from: 1, to: Some(OTHER), value: 7, ..e2e::Call::default() };
    let first = anvil.send(first).await?;
    let raw_of_waiting = anvil.raw_transaction(&first).await?;
    let raw = anvil.raw_transaction(&moved).await?;
    anvil.rpc().call("anvil_dropTransaction", json!([first])).await?;
    anvil.rpc().call("anvil_reorg", json!([3, [[raw_of_waiting, 1], [raw, 1]]])).await?;

    let after = anvil.position(&moved).await?.context("not mined again")?;
    ensure!((after.block.height, after.index) == (7, 1), "{after:?}");
    ensure!(anvil.tip().await?.height == 8);
    ensure!(anvil.block_ref(6).await?.context("no block 6")?.hash != before.block.hash);

    anvil.reorg(3, &[(&moved, 2)]).await?;
    ensure!(anvil.position(&moved).await?.context("not mined again")?.block.height == 8);
    ensure!(anvil.position(&first).await?.is_none());
    Ok(())
}

async fn reorg_to_pool() -> Result<()> {
    let anvil = Anvil::start().await?;
    let first = anvil.pay(CUSTOMER, 5).await?;
    anvil.mine(1).await?;
    let second = anvil.pay(CUSTOMER, 6).await?;
    anvil.mine(1).await?;
    let waiting = anvil.reorg_to_pool(2).await?;
    ensure!(waiting == [first.clone(), second.clone()]);
    ensure!(anvil.position(&first).await?.is_none());
    anvil.mine(1).await?;
    ensure!(anvil.position(&first).await?.context("not mined again")?.block.height == 3);
    ensure!(anvil.position(&second).await?.context("not mined again")?.index == 1);
    Ok(())
}

async fn double_spend() -> Result<()> {
    let anvil = Anvil::start().await?;
    anvil.mine(2).await?;
    let spent = anvil.pay(CUSTOMER, 5).await?;
    anvil.mine(3).await?;
    let other = anvil.double_spend(3, &spent, OTHER, 5).await?;
    ensure!(anvil.position(&spent).await?.is_none());
    ensure!(anvil.position(&other).await?.context("not mined")?.block.height == 6);
    Ok(())
}

async fn rollback() -> Result<()> {
    let anvil = Anvil::start().await?;
    anvil.mine(4).await?;
    let gone = anvil.pay(CUSTOMER, 5).await?;
    anvil.mine(1).await?;
    anvil.rollback(3).await?;
    ensure!(anvil.tip().await?.height == 2);
    ensure!(anvil.position(&gone).await?.is_none());
    Ok(())
}

async fn restart() -> Result<()> {
    let mut anvil = Anvil::start().await?;
    let splitter = anvil.deploy("Splitter").await?;
    let recipients = [CUSTOMER, OTHER];
    let args = [Arg::Addresses(&recipients), Arg::Uint(5)];
    let split = anvil.invoke(&splitter, "split(address[],uint256)", &args, 10).await?;
    anvil.mine(4).await?;
    let before = (anvil.tip().await?, anvil.position(&split).await?, internal(&anvil, &split).await?);

    anvil.stop().await?;
    ensure!(anvil.tip().await.is_err(), "a stopped node answers");
    anvil.resume().await?;

    let after = (anvil.tip().await?, anvil.position(&split).await?, internal(&anvil, &split).await?);
    ensure!(before == after, "{before:?} became {after:?}");
    anvil.reorg(3, &[]).await?;
    ensure!(anvil.position(&split).await?.is_some(), "a reorg above took it back");
    anvil.reorg(4, &[(&split, 1)]).await?;
    ensure!(anvil.position(&split).await?.context("not mined again")?.block.height == 3);
    anvil.mine(1).await?;
    Ok(())
}

async fn spammer() -> Result<()> {
    let anvil = Anvil::start().await?;
    let token = anvil.deploy("MiniToken").await?;
    let spammer = anvil.deploy("Spammer").await?;
    anvil.mint(&token, &spammer.address, 1_000).await?;
    let recipients = [CUSTOMER, OTHER, CUSTOMER];
    let args = [Arg::Address(&token.address), Arg::Uint(3), Arg::Addresses(&recipients), Arg::Uint(40)];
    let hash = anvil.invoke(&spammer, "spam(address,uint256,address[],uint256)", &args, 0).await?;
    anvil.mine(1).await?;
    let logs = logs(&anvil, &hash).await?;
    ensure!(logs.len() == 9);
    let paid: Vec<_> = logs.iter().enumerate().filter(|(_, log)| log["topics"][0] == TRANSFER).collect();
    ensure!(paid.iter().map(|(index, _)| *index).collect::<Vec<_>>() == [3, 5, 7]);
    for ((_, log), recipient) in paid.iter().zip(recipients) {
        ensure!(log["topics"][2].as_str().unwrap().ends_with(&recipient[2..]));
        ensure!(log["data"] == format!("0x{:064x}", 40));
    }
    // The mint was mined before it in the same block, so the node's own index is another one.
    ensure!(logs[3]["logIndex"] == "0x4");
    Ok(())
}

async fn splitter() -> Result<()> {
    let anvil = Anvil::start().await?;
    let splitter = anvil.deploy("Splitter").await?;
    let recipients = [CUSTOMER, OTHER, THIRD];
    let args = [Arg::Addresses(&recipients), Arg::Uint(5)];
    let plain = anvil.invoke(&splitter, "split(address[],uint256)", &args, 15).await?;
    // The two attempts that fail give their value back, and the rest stays in the contract.
    let reverts = anvil.invoke(&splitter, "splitWithReverts(address[],uint256)", &args, 15).await?;
    let every = [Arg::Address(CUSTOMER), Arg::Uint(5)];
    let every = anvil.invoke(&splitter, "splitEveryWay(address,uint256)", &every, 15).await?;
    anvil.mine(1).await?;
    let expected: Vec<_> = recipients.iter().map(|to| ("CALL".to_owned(), (*to).to_owned())).collect();
    ensure!(internal(&anvil, &plain).await? == expected);
    ensure!(internal(&anvil, &reverts).await? == expected);

    let frames = internal(&anvil, &every).await?;
    let kinds: Vec<_> = frames.iter().map(|(kind, _)| kind.as_str()).collect();
    ensure!(kinds == ["CALL", "CREATE", "SELFDESTRUCT", "CALL"], "{frames:?}");
    ensure!(frames.iter().filter(|(_, to)| to == CUSTOMER).count() == 3, "{frames:?}");
    let held = anvil.rpc().text("eth_getBalance", json!([CUSTOMER, "latest"])).await?;
    ensure!(held == format!("{:#x}", 5 + 5 + 15));
    Ok(())
}

async fn lookalike() -> Result<()> {
    let anvil = Anvil::start().await?;
    let contract = anvil.deploy("Lookalike").await?;
    let cases = [
        ("fourTopics", 4, 0),
        ("oneTopic", 1, 96),
        ("longData", 3, 64),
        ("shortData", 3, 31),
        ("noData", 3, 0),
        ("genuine", 3, 32),
    ];
    for (function, topics, bytes) in cases {
        let args = [Arg::Address(OTHER), Arg::Address(CUSTOMER), Arg::UintMax];
        let hash = anvil.invoke(&contract, &format!("{function}(address,address,uint256)"), &args, 0).await?;
        anvil.mine(1).await?;
        let logs = logs(&anvil, &hash).await?;
        ensure!(logs.len() == 1, "{function}");
        ensure!(logs[0]["topics"][0] == TRANSFER, "{function}");
        ensure!(logs[0]["topics"].as_array().unwrap().len() == topics, "{function}");
        ensure!(logs[0]["data"].as_str().unwrap().len() == 2 + 2 * bytes, "{function}");
    }
    Ok(())
}

async fn logs(anvil: &Anvil, hash: &str) -> Result<Vec<Value>> {
    let receipt = anvil.receipt(hash).await?.context("not mined")?;
    ensure!(receipt["status"] == "0x1", "{receipt}");
    Ok(receipt["logs"].as_array().cloned().unwrap_or_default())
}

/// Kind and receiver of every internal frame with value that took effect, in call order.
async fn internal(anvil: &Anvil, hash: &str) -> Result<Vec<(String, String)>> {
    let top = anvil.rpc().call("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}])).await?;
    ensure!(top["error"].is_null(), "{top}");
    let mut found = Vec::new();
    collect(&top, &mut found);
    Ok(found)
}

fn collect(frame: &Value, found: &mut Vec<(String, String)>) {
    for child in frame["calls"].as_array().into_iter().flatten().filter(|child| child["error"].is_null()) {
        let (kind, value) = (child["type"].as_str().unwrap(), child["value"].as_str().unwrap_or("0x0"));
        if value != "0x0" && kind != "DELEGATECALL" {
            found.push((kind.to_owned(), child["to"].as_str().unwrap_or_default().to_owned()));
        }
        collect(child, found);
    }
}
