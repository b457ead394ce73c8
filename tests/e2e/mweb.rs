//! What litecoind's chain looks like once MWEB is active.

use anyhow::{Context, Result, ensure};
use e2e::{BitcoinFamily, Litecoind, Needs, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;

pub(crate) fn trials() -> Vec<Trial> {
    vec![node_trial("mweb::peg_outs_are_outputs_of_the_hogex_transaction", &[Needs::Litecoind], pegs)]
}

async fn pegs() -> Result<()> {
    let mut node = Litecoind::start(true).await?;
    node.activate_mweb().await?;
    ensure!(node.tip().await?.height == 432);
    let first = node.peg_in(300_000_000).await?;
    node.mine(1).await?;
    ensure!(node.transaction(&first).await?["vout"][0]["scriptPubKey"]["type"] == "witness_mweb_pegin");
    ensure!(node.position(&first).await?.context("not mined")?.index == 1);

    // Two peg-outs to one address in one block: two outputs of one transaction.
    let customer = node.new_address().await?;
    let ids = [node.peg_out(&customer, 150_000_000).await?, node.peg_out(&customer, 25_000_000).await?];
    node.mine(1).await?;
    let script = node.script_of(&customer).await?;
    let before = hogex(&node).await?;
    ensure!(before["hex"].as_str().unwrap().starts_with("020000000008"), "no HogEx flag");
    let paid = |hogex: &Value| -> Vec<(String, String)> {
        let outputs = hogex["vout"].as_array().unwrap().iter();
        let ours = outputs.filter(|output| output["scriptPubKey"]["hex"] == script.as_str());
        let mut paid: Vec<_> = ours.map(|output| (output["n"].to_string(), output["value"].to_string())).collect();
        paid.sort();
        paid
    };
    ensure!(paid(&before).len() == 2, "{before}");
    ensure!(paid(&before).iter().all(|(index, _)| index != "0"));
    for id in &ids {
        ensure!(node.position(id).await?.is_none(), "a peg-out's own id is in a block");
    }

    // At the same height on the same parent the HogEx is the same transaction; elsewhere it is another one, since
    // it spends the HogEx before it.
    node.disconnect(1).await?;
    ensure!(node.pool().await?.len() == 2);
    node.mine(1).await?;
    ensure!(hogex(&node).await?["txid"] == before["txid"]);
    node.disconnect(2).await?;
    node.mine(3).await?;
    ensure!(node.position(before["txid"].as_str().unwrap()).await?.is_none());
    ensure!(node.position(&first).await?.is_some(), "the peg-in was not mined again");
    Ok(())
}

async fn hogex(node: &BitcoinFamily) -> Result<Value> {
    let block = node.block(&node.tip().await?.hash, 2).await?;
    block["tx"].as_array().and_then(|all| all.last()).cloned().context("no transactions")
}
