//! The recipes that other trials build on, shown on litecoind and Knots themselves.

use anyhow::{Context, Result, ensure};
use e2e::{Auth, BitcoinFamily, FamilyOptions, Knots, Litecoind, Needs, node_trial};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (group, node) in [("litecoind", Needs::Litecoind), ("knots", Needs::Knots)] {
        let name = |sentence: &str| format!("{group}::{sentence}");
        let on = [node];
        trials.push(node_trial(&name("one_transaction_pays_one_address_ten_times"), &on, move || pays_ten_times(node)));
        trials.push(node_trial(&name("a_reorg_mines_a_transaction_at_another_height"), &on, move || reorg_moves(node)));
        trials.push(node_trial(&name("a_block_takes_its_transactions_in_a_chosen_order"), &on, move || order(node)));
        trials.push(node_trial(&name("a_double_spent_transaction_never_comes_back"), &on, move || double_spend(node)));
        trials.push(node_trial(&name("a_replaced_transaction_is_gone_after_a_reorg"), &on, move || replaced(node)));
        trials.push(node_trial(&name("a_coinbase_is_gone_after_a_reorg"), &on, move || coinbase(node)));
        trials.push(node_trial(&name("the_best_chain_flips_between_two_branches"), &on, move || flip(node)));
        trials.push(node_trial(&name("a_restart_keeps_the_chain_and_a_kill_at_most_its_newest_blocks"), &on, move || {
            restart(node)
        }));
        trials.push(node_trial(&name("the_cookie_changes_with_every_start"), &on, move || cookie(node)));
    }
    trials
}

async fn start(node: Needs, options: FamilyOptions) -> Result<BitcoinFamily> {
    match node {
        Needs::Knots => Knots::start_with(options).await,
        _ => Litecoind::start_with(options).await,
    }
}

async fn pays_ten_times(node: Needs) -> Result<()> {
    let node = start(node, FamilyOptions::default()).await?;
    let (customer, other) = (node.new_address().await?, node.new_address_of("legacy").await?);
    let mut outputs = vec![(customer.as_str(), 1_000_000); 10];
    outputs.insert(4, (other.as_str(), 20_000));
    let txid = node.pay_many(&outputs).await?;
    node.mine(1).await?;
    let paid = node.transaction(&txid).await?;
    let scripts: Vec<_> = paid["vout"].as_array().unwrap().iter().map(|output| &output["scriptPubKey"]["hex"]).collect();
    ensure!(scripts.len() == 12, "{scripts:?}");
    let (to_customer, to_other) = (node.script_of(&customer).await?, node.script_of(&other).await?);
    for (index, script) in scripts.iter().take(11).enumerate() {
        ensure!(**script == if index == 4 { to_other.as_str() } else { to_customer.as_str() });
    }
    let block = node.block(&node.tip().await?.hash, 0).await?;
    ensure!(block.as_str().is_some_and(|raw| raw.contains(paid["hex"].as_str().unwrap())), "the raw block lacks the transaction");
    Ok(())
}

async fn reorg_moves(node: Needs) -> Result<()> {
    let node = start(node, FamilyOptions::default()).await?;
    let customer = node.new_address().await?;
    let txid = node.pay(&customer, 5_000_000).await?;
    ensure!(node.position(&txid).await?.is_none());
    node.mine(3).await?;
    let before = node.position(&txid).await?.context("not mined")?;
    ensure!(before.block.height == 121);

    node.reorg(3, 2).await?;
    let after = node.position(&txid).await?.context("not mined again")?;
    ensure!(after.block.height == 123, "{after:?}");
    ensure!(node.tip().await?.height == 124);
    ensure!(node.block(&before.block.hash, 1).await?["confirmations"] == -1);

    node.reorg(2, 0).await?;
    ensure!(node.position(&txid).await?.context("not mined again")?.block.height == 123);
    node.reorg_empty(3).await?;
    ensure!(node.position(&txid).await?.is_none());
    ensure!(node.pool().await? == [txid]);
    ensure!(node.block_hash(1_000).await?.is_none());
    Ok(())
}

async fn order(node: Needs) -> Result<()> {
    let node = start(node, FamilyOptions::default()).await?;
    let customer = node.new_address().await?;
    // Two coins, so that neither payment spends the other's change.
    let ids = [node.pay(&customer, 4_900_000_000).await?, node.pay(&customer, 4_900_000_000).await?];
    for order in [[0, 1], [1, 0]] {
        let hash = node.mine_block(&[&ids[order[0]], &ids[order[1]]]).await?;
        for (place, id) in order.iter().enumerate() {
            let position = node.position(&ids[*id]).await?.context("not mined")?;
            ensure!(position.block.hash == hash && position.index == u64::try_from(place + 1)?);
        }
        node.disconnect(1).await?;
    }
    Ok(())
}

async fn double_spend(node: Needs) -> Result<()> {
    let node = start(node, FamilyOptions::default()).await?;
    let (customer, thief) = (node.new_address().await?, node.new_address().await?);
    let txid = node.pay(&customer, 5_000_000).await?;
    node.mine(6).await?;
    let other = node.reorg_double_spend(6, &txid, &thief).await?;
    ensure!(node.position(&txid).await?.is_none());
    ensure!(node.position(&other).await?.context("not mined")?.block.height == 121);
    ensure!(node.pool().await?.is_empty());
    ensure!(node.tip().await?.height == 127);
    Ok(())
}

async fn replaced(node: Needs) -> Result<()> {
    let node = start(node, FamilyOptions::default()).await?;
    let txid = node.pay_replaceable(&node.new_address().await?, 5_000_000).await?;
    node.mine(1).await?;
    node.disconnect(1).await?;
    let bumped = node.bump_fee(&txid).await?;
    node.mine(2).await?;
    ensure!(node.position(&txid).await?.is_none());
    ensure!(node.position(&bumped).await?.context("not mined")?.block.height == 121);
    Ok(())
}

async fn coinbase(node: Needs) -> Result<()> {
    let node = start(node, FamilyOptions::default()).await?;
    let hashes = node.mine_to(&node.new_address().await?, 1).await?;
    let txid = node.block(&hashes[0], 1).await?["tx"][0].as_str().unwrap().to_owned();
    ensure!(node.position(&txid).await?.is_some());
    node.reorg(1, 0).await?;
    ensure!(node.position(&txid).await?.is_none());
    ensure!(node.pool().await?.is_empty());
    Ok(())
}

async fn flip(node: Needs) -> Result<()> {
    let node = start(node, FamilyOptions::default()).await?;
    let txid = node.pay(&node.new_address().await?, 5_000_000).await?;
    let first = node.mine(2).await?;
    let replaced = node.disconnect(2).await?;
    ensure!(replaced == first[0]);
    node.mine_block(&[]).await?;
    let second = node.mine_block(&[]).await?;
    ensure!(node.tip().await?.hash == second);
    node.reconsider(&replaced).await?;
    ensure!(node.tip().await?.hash == first[1], "the branch seen first is not back");
    ensure!(node.position(&txid).await?.is_some());
    node.prefer(&second).await?;
    ensure!(node.tip().await?.hash == second && node.position(&txid).await?.is_none());
    node.prefer(&first[1]).await?;
    ensure!(node.tip().await?.hash == first[1] && node.position(&txid).await?.is_some());
    Ok(())
}

async fn restart(node: Needs) -> Result<()> {
    let mut node = start(node, FamilyOptions::default()).await?;
    let paid = node.pay(&node.new_address().await?, 5_000_000).await?;
    node.mine(5).await?;
    let tip = node.tip().await?;
    node.stop().await?;
    ensure!(node.tip().await.is_err(), "a stopped node answers");
    node.resume().await?;
    ensure!(node.tip().await? == tip);
    ensure!(node.position(&paid).await?.context("not mined any more")?.block.height == 121);

    // A killed node comes back with what it had flushed, and goes on from there.
    node.mine(5).await?;
    node.kill()?;
    node.resume().await?;
    ensure!((tip.height..=tip.height + 5).contains(&node.tip().await?.height));
    node.mine(1).await?;
    Ok(())
}

async fn cookie(node: Needs) -> Result<()> {
    let options = FamilyOptions { auth: Auth::Cookie, empty: true, ..FamilyOptions::default() };
    let mut node = start(node, options).await?;
    let first = std::fs::read_to_string(node.cookie_file())?;
    node.stop().await?;
    ensure!(!node.cookie_file().exists());
    node.resume().await?;
    let second = std::fs::read_to_string(node.cookie_file())?;
    ensure!(first.starts_with("__cookie__:") && first != second);
    ensure!(node.tip().await?.height == 0);
    Ok(())
}
