//! Reorgs on litecoind and Knots: mined again elsewhere, double-spent, gone, there and back.

use anyhow::{Context, Result, ensure};
use e2e::{COINS, FamilyOptions, Needs, UtxoPlan, UtxoStage, node_trial, utxo_node};
use libtest_mimic::Trial;

const DEPTHS: [u64; 3] = [1, 3, 6];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (group, node) in [("utxo_litecoind", Needs::Litecoind), ("utxo_knots", Needs::Knots)] {
        let name = |sentence: &str| format!("{group}::{sentence}");
        let on = [node];
        trials.push(node_trial(&name("reorgs_move_double_spend_and_drop_reported_deposits"), &on, move || reported(node)));
        trials.push(node_trial(&name("the_chain_goes_to_another_branch_and_comes_back"), &on, move || there_and_back(node)));
        trials.push(node_trial(&name("a_shorter_branch_is_followed_only_after_its_grace"), &on, move || shorter(node)));
        trials.push(node_trial(&name("a_payment_that_was_only_pending_is_never_reverted"), &on, move || pending(node)));
    }
    trials
}

async fn stage(kind: Needs, plan: UtxoPlan) -> Result<(UtxoStage, [String; 2])> {
    let node = utxo_node(kind, FamilyOptions::default()).await?;
    let customers = [node.new_address().await?, node.new_address_of("legacy").await?];
    Ok((UtxoStage::set(node, UtxoPlan { watch: customers.to_vec(), ..plan }).await?, customers))
}

async fn reported(kind: Needs) -> Result<()> {
    let (stage, customers) = stage(kind, UtxoPlan::default()).await?;
    for depth in DEPTHS {
        moved(&stage, &customers, depth).await?;
        double_spent(&stage, &customers[0], depth).await?;
        replaced(&stage, &customers[1], depth).await?;
        waiting(&stage, &customers[0], depth).await?;
    }
    stage.audit().await?;
    stage.customer.ensure_once()
}

/// Mined again one block higher, at another place in the block.
async fn moved(stage: &UtxoStage, customers: &[String; 2], depth: u64) -> Result<()> {
    let node = &stage.node;
    // Two large payments: neither spends the other's change.
    let first = stage.pay(&customers[0], 4_900_000_000).await?;
    let second = stage.pay(&customers[1], 4_900_000_000).await?;
    node.mine_block(&[&first.0, &second.0]).await?;
    let height = node.tip().await?.height;
    if depth > 1 {
        node.mine(depth - 1).await?;
    }
    stage.told().await?;
    node.disconnect(depth).await?;
    node.mine_block(&[]).await?;
    node.mine_block(&[&second.0, &first.0]).await?;
    if depth > 1 {
        node.mine(depth - 1).await?;
    }
    stage.told().await?;
    for ((tx_id, output), index) in [(&first, 2), (&second, 1)] {
        stage.ensure_history(tx_id, *output, &[1, 2, 3])?;
        ensure!(stage.height_of(tx_id, *output) == Some(height + 1), "{}", stage.customer.describe());
        ensure!(node.position(tx_id).await?.context("not mined")?.index == index);
    }
    Ok(())
}

/// Its coins go to somebody else on the new branch.
async fn double_spent(stage: &UtxoStage, customer: &str, depth: u64) -> Result<()> {
    let thief = stage.node.new_address().await?;
    let (tx_id, output) = stage.pay(customer, 5_000_000).await?;
    stage.node.mine(depth).await?;
    stage.told().await?;
    stage.ensure_history(&tx_id, output, &[1])?;
    stage.node.reorg_double_spend(depth, &tx_id, &thief).await?;
    stage.told().await?;
    stage.ensure_history(&tx_id, output, &[1, 2])
}

/// Replaced by another payment to the same customer, under another key.
async fn replaced(stage: &UtxoStage, customer: &str, depth: u64) -> Result<()> {
    let tx_id = stage.node.pay_replaceable(customer, 6_000_000).await?;
    let output = *stage.outputs_to(&tx_id, customer).await?.first().context("no output")?;
    stage.node.mine(depth).await?;
    stage.told().await?;
    stage.node.disconnect(depth).await?;
    let bumped = stage.node.bump_fee(&tx_id).await?;
    let bumped_output = *stage.outputs_to(&bumped, customer).await?.first().context("no output")?;
    stage.node.mine(depth + 1).await?;
    stage.told().await?;
    stage.ensure_history(&tx_id, output, &[1, 2])?;
    stage.ensure_history(&bumped, bumped_output, &[1])
}

/// Back in the pool, and mined again only later.
async fn waiting(stage: &UtxoStage, customer: &str, depth: u64) -> Result<()> {
    let (tx_id, output) = stage.pay(customer, 7_000_000).await?;
    stage.node.mine(depth).await?;
    stage.told().await?;
    stage.node.reorg_empty(depth).await?;
    stage.told().await?;
    stage.ensure_history(&tx_id, output, &[1, 2])?;
    stage.node.mine(1).await?;
    stage.told().await?;
    stage.ensure_history(&tx_id, output, &[1, 2, 3])
}

async fn there_and_back(kind: Needs) -> Result<()> {
    let (stage, customers) = stage(kind, UtxoPlan::default()).await?;
    let node = &stage.node;
    for depth in DEPTHS {
        let (tx_id, output) = stage.pay(&customers[0], 5_000_000).await?;
        let ours = node.mine(depth).await?;
        let height = node.tip().await?.height + 1 - depth;
        stage.told().await?;
        // A longer branch without it; then the first one again, longer still.
        node.disconnect(depth).await?;
        let mut theirs = Vec::new();
        for _ in 0..=depth {
            theirs.push(node.mine_block(&[]).await?);
        }
        stage.told().await?;
        stage.ensure_history(&tx_id, output, &[1, 2])?;
        node.reconsider(&ours[0]).await?;
        node.invalidate(&theirs[0]).await?;
        node.mine(2).await?;
        stage.told().await?;
        stage.ensure_history(&tx_id, output, &[1, 2, 3])?;
        ensure!(stage.height_of(&tx_id, output) == Some(height));
        let requests = stage.customer.receiver().requests();
        let events = requests.iter().filter_map(|request| request.event.as_ref().ok());
        for event in events.filter(|event| event.key.tx_id == tx_id) {
            ensure!(event.block.hash == ours[0], "told of another block than the one that carried it: {event:?}");
        }
    }

    // Between branches of equal length, whichever the node prefers.
    let (tx_id, output) = stage.pay(&customers[1], 5_000_000).await?;
    let ours = node.mine(2).await?;
    stage.told().await?;
    let first = node.disconnect(2).await?;
    node.mine_block(&[]).await?;
    let theirs = node.mine_block(&[]).await?;
    stage.told().await?;
    node.reconsider(&first).await?;
    stage.told().await?;
    stage.ensure_history(&tx_id, output, &[1, 2, 3])?;
    node.prefer(&theirs).await?;
    stage.told().await?;
    node.prefer(&ours[1]).await?;
    stage.told().await?;
    stage.ensure_history(&tx_id, output, &[1, 2, 3, 4, 5])?;
    stage.audit().await?;
    stage.customer.ensure_once()
}

async fn shorter(kind: Needs) -> Result<()> {
    let (stage, customers) = stage(kind, UtxoPlan { fork_grace: "3s", ..UtxoPlan::default() }).await?;
    let (tx_id, output) = stage.pay(&customers[0], 5_000_000).await?;
    stage.node.mine(3).await?;
    stage.told().await?;
    stage.node.disconnect(3).await?;
    // Blocks that are missing prove nothing.
    stage.service.until_chain(COINS, "behind", |chain| chain["phase"] == "behind").await?;
    stage.ensure_history(&tx_id, output, &[1])?;
    stage.node.mine_block(&[]).await?;
    let waits = |chain: &serde_json::Value| chain["phase"] == "waiting_for_fork";
    stage.service.until_chain(COINS, "waiting for the fork", waits).await?;
    stage.ensure_history(&tx_id, output, &[1])?;
    stage.until_at(&tx_id, output, (2, false)).await?;
    stage.audit().await?;
    stage.node.mine(1).await?;
    stage.until_at(&tx_id, output, (3, true)).await?;
    stage.audit().await?;
    stage.customer.ensure_once()
}

async fn pending(kind: Needs) -> Result<()> {
    let (stage, customers) = stage(kind, UtxoPlan { confirmations: 3, ..UtxoPlan::default() }).await?;
    let node = &stage.node;
    let moved = stage.pay(&customers[0], 4_900_000_000).await?;
    let lost = stage.pay(&customers[1], 4_900_000_000).await?;
    node.mine(2).await?;
    stage.told().await?;
    ensure!(stage.service.chain(COINS).await?["pending"] == 2);
    let thief = node.new_address().await?;
    node.disconnect(2).await?;
    let raw = node.conflicting(&lost.0, &thief).await?;
    node.mine_block(&[]).await?;
    node.mine_block(&[&raw, &moved.0]).await?;
    node.mine_block(&[]).await?;
    stage.told().await?;
    ensure!(stage.customer.receiver().requests().is_empty(), "told of a pending one");
    ensure!(stage.service.chain(COINS).await?["pending"] == 1);
    node.mine(1).await?;
    stage.told().await?;
    stage.ensure_history(&moved.0, moved.1, &[1])?;
    stage.ensure_history(&lost.0, lost.1, &[])?;
    ensure!(stage.audit().await? == 1);
    stage.customer.ensure_once()
}
