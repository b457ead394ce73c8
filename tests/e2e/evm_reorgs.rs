//! What a reorg takes back, and what it does not.

use anyhow::{Context, Result, ensure};
use e2e::{Call, Config, Needs, node_trial};
use libtest_mimic::Trial;
use serde_json::json;

use crate::evm_world::{ALICE, BOB, NAME, STRANGER, World, bare_chain, ledger, pay, reorg_raw, spam, spam_output, stage};

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    vec![
        node_trial("evm_reorgs::a_reorg_of_depth_1_takes_back_what_it_orphans_and_confirms_it_again", needs, || replaced(1)),
        node_trial("evm_reorgs::a_reorg_of_depth_3_takes_back_what_it_orphans_and_confirms_it_again", needs, || replaced(3)),
        node_trial("evm_reorgs::a_reorg_of_depth_6_takes_back_what_it_orphans_and_confirms_it_again", needs, || replaced(6)),
        node_trial("evm_reorgs::a_reorg_while_confirmd_is_down_is_followed_at_the_next_start", needs, while_down),
        node_trial("evm_reorgs::a_shorter_chain_takes_nothing_back_until_a_longer_branch_replaces_it", needs, shorter),
        node_trial("evm_reorgs::a_branch_that_wins_loses_and_wins_again_is_told_each_time", needs, there_and_back),
        node_trial("evm_reorgs::many_reorgs_in_a_row_end_with_the_chains_own_balances", needs, many),
    ]
}

/// The transactions of the block that is replaced, by what becomes of them. Each has a sender of its own.
struct Fates {
    /// Mined again in the block of the same height, one position earlier.
    swapped: String,
    /// Mined again in a higher block.
    later: String,
    /// Another transaction takes its nonce.
    spent: String,
    /// Never seen again.
    gone: String,
    /// Token payments behind foreign logs, mined again at another place.
    spammed: String,
    /// A token payment that is not deep enough yet, mined again in a higher block.
    pending: String,
    /// The one after which `swapped` stood.
    first: String,
}

async fn replaced(depth: u64) -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let spammer = anvil.deploy("Spammer").await?;
    let slow = anvil.deploy("MiniToken").await?;
    anvil.mint(&token, &spammer.address, 1_000).await?;
    anvil.mint(&slow, anvil.account(6)?, 1_000).await?;
    anvil.mine(1).await?;
    let assets = format!(
        "assets = [{{ symbol = \"MINI\", contract = \"{}\", decimals = 6 }}, {{ symbol = \"SLOW\", contract = \"{}\", decimals = 6 }}]",
        token.address, slow.address
    );
    let chain = bare_chain(&anvil, "default = 1, SLOW = 9", 16).line(&assets);
    let config = Config::new().chain(chain).sink(ledger(&customer));
    let world = World::of(anvil, token, customer, &config).await?;
    let anvil = &world.anvil;

    let data = slow.contract.data("transfer(address,uint256)", &[e2e::Arg::Address(ALICE), e2e::Arg::Uint(70)])?;
    let fates = Fates {
        first: pay(anvil, 1, BOB, 1).await?,
        swapped: pay(anvil, 2, ALICE, 20).await?,
        later: pay(anvil, 3, ALICE, 300).await?,
        spent: pay(anvil, 4, ALICE, 4_000).await?,
        gone: pay(anvil, 5, ALICE, 50_000).await?,
        spammed: spam(anvil, &spammer, &world.token, 2, &[ALICE, BOB], 40).await?,
        pending: anvil.send(Call { from: 6, to: Some(&slow.address), data: &data, ..Call::default() }).await?,
    };
    world.mine(depth).await?;
    let old = anvil.position(&fates.swapped).await?.context("not mined")?;
    ensure!(anvil.tip().await?.height + 1 - old.block.height == depth);
    let outputs = [spam_output(2, 0), spam_output(2, 1)];
    let confirmed = [(&fates.first, 0), (&fates.swapped, 0), (&fates.later, 0), (&fates.spent, 0), (&fates.gone, 0)];
    let confirmed: Vec<_> = confirmed.into_iter().chain(outputs.map(|output| (&fates.spammed, output))).collect();
    for (tx, output) in &confirmed {
        ensure!(world.history(tx, *output) == [1], "before the reorg\n{}", world.customer.describe());
    }

    let replacement = replace(&world, depth, &fates).await?;
    world.told().await?;
    let new = anvil.position(&fates.swapped).await?.context("not mined again")?;
    ensure!((new.block.height, new.index + 1) == (old.block.height, old.index) && new.block.hash != old.block.hash, "{new:?}");
    for tx in [&fates.first, &fates.swapped, &fates.later] {
        ensure!(world.history(tx, 0) == [1, 2, 3], "{tx} came back\n{}", world.customer.describe());
    }
    for output in outputs {
        ensure!(world.history(&fates.spammed, output) == [1, 2, 3], "the spammed\n{}", world.customer.describe());
    }
    for tx in [&fates.spent, &fates.gone] {
        ensure!(world.history(tx, 0) == [1, 2] && world.at(tx, 0) == Some((2, false)), "{}", world.customer.describe());
    }
    ensure!(world.history(&replacement, 0) == [1], "{}", world.customer.describe());
    ensure!(world.at(&fates.pending, 1).is_none(), "a pending deposit was told");
    world.ensure_rows_match().await?;
    let reorg = world.service.chain(NAME).await?["last_reorg"].clone();
    ensure!(reorg["ancestor"]["height"] == old.block.height - 1 && reorg["orphaned"] == depth, "{reorg}");

    // An orphaned pending deposit was dropped silently, and counts anew from its new block.
    world.mine(10).await?;
    ensure!(world.history(&fates.pending, 1) == [1], "{}", world.customer.describe());
    world.ensure_books_match().await
}

/// Does to each transaction what its name says; returns the one that took a nonce.
async fn replace(world: &World, depth: u64, fates: &Fates) -> Result<String> {
    let anvil = &world.anvil;
    let spent = anvil.rpc().call("eth_getTransactionByHash", json!([fates.spent])).await?;

    let (swapped, first) = (anvil.raw_transaction(&fates.swapped).await?, anvil.raw_transaction(&fates.first).await?);
    let (later, spammed, pending) = (
        anvil.raw_transaction(&fates.later).await?,
        anvil.raw_transaction(&fates.spammed).await?,
        anvil.raw_transaction(&fates.pending).await?,
    );
    reorg_raw(anvil, depth, &[(&swapped, 0), (&first, 0), (&spammed, depth - 1)]).await?;
    for raw in [&later, &pending] {
        anvil.rpc().text("eth_sendRawTransaction", json!([raw])).await?;
    }
    let request = json!({
        "from": spent["from"], "nonce": spent["nonce"], "to": BOB, "value": "0x60", "gas": "0x186a0"
    });
    let replacement = anvil.rpc().text("eth_sendTransaction", json!([request])).await?;
    anvil.mine(1).await?;
    Ok(replacement)
}

async fn while_down() -> Result<()> {
    let mut world = World::start("default = 1", 8).await?;
    let moved = pay(&world.anvil, 1, ALICE, 5).await?;
    let gone = pay(&world.anvil, 2, ALICE, 7).await?;
    world.mine(3).await?;
    world.service.terminate().await?;
    world.anvil.reorg(3, &[(&moved, 2)]).await?;
    let new = pay(&world.anvil, 3, BOB, 9).await?;
    world.anvil.mine(1).await?;
    world.service.run().await?;
    world.told().await?;
    ensure!(world.history(&moved, 0) == [1, 2, 3], "{}", world.customer.describe());
    ensure!(world.history(&gone, 0) == [1, 2] && world.history(&new, 0) == [1], "{}", world.customer.describe());
    world.ensure_books_match().await
}

async fn shorter() -> Result<()> {
    let mut world = World::start("default = 1", 12).await?;
    let early = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(2).await?;
    let moved = pay(&world.anvil, 2, ALICE, 7).await?;
    let gone = pay(&world.anvil, 3, ALICE, 11).await?;
    world.mine(4).await?;
    let raw = world.anvil.raw_transaction(&moved).await?;
    let told = world.customer.receiver().requests().len();
    let untouched = |world: &World| world.customer.receiver().requests().len() == told;

    world.anvil.rollback(4).await?;
    world.service.until_chain(NAME, "behind", |chain| chain["phase"] == "behind").await?;
    world.service.kill_and_run().await?;
    let behind = world.service.until_chain(NAME, "behind again", |chain| chain["phase"] == "behind").await?;
    ensure!(untouched(&world), "a lower tip took something back\n{}", world.customer.describe());
    ensure!(behind["reported"] == 3, "{behind}");

    // It grows again, as another branch. As long as that is shorter than what was seen, it is waited for.
    world.anvil.rpc().text("eth_sendRawTransaction", json!([raw])).await?;
    world.anvil.mine(3).await?;
    let waiting = world.service.until_chain(NAME, "waiting for the fork", |chain| chain["phase"] == "waiting_for_fork").await?;
    ensure!(untouched(&world) && waiting["tip"]["height"] == waiting["source_tip"]["height"].as_u64().unwrap() + 1, "{waiting}");

    world.mine(2).await?;
    ensure!(world.history(&early, 0) == [1] && world.history(&moved, 0) == [1, 2, 3], "{}", world.customer.describe());
    ensure!(world.history(&gone, 0) == [1, 2], "{}", world.customer.describe());
    world.ensure_books_match().await
}

async fn there_and_back() -> Result<()> {
    let world = World::start("default = 1", 12).await?;
    let anvil = &world.anvil;
    let both = pay(anvil, 1, ALICE, 5).await?;
    let only_a = pay(anvil, 2, ALICE, 7).await?;
    let branch_a = world.mine(3).await?;
    let saved = anvil.rpc().call("anvil_dumpState", json!([true])).await?;

    anvil.reorg(3, &[(&both, 1)]).await?;
    let only_b = pay(anvil, 3, BOB, 9).await?;
    let raw_b = anvil.raw_transaction(&only_b).await?;
    anvil.rpc().call("anvil_dropTransaction", json!([only_b])).await?;
    reorg_raw(anvil, 1, &[(&raw_b, 0)]).await?;
    world.told().await?;
    ensure!(world.history(&both, 0) == [1, 2, 3] && world.history(&only_a, 0) == [1, 2], "{}", world.customer.describe());
    ensure!(world.history(&only_b, 0) == [1], "{}", world.customer.describe());

    // The node has branch A again, block by block the very same.
    anvil.rpc().call("anvil_loadState", json!([saved])).await?;
    ensure!(anvil.tip().await? == branch_a);
    world.told().await?;
    ensure!(world.history(&both, 0) == [1, 2, 3, 4, 5], "{}", world.customer.describe());
    ensure!(world.history(&only_a, 0) == [1, 2, 3] && world.history(&only_b, 0) == [1, 2], "{}", world.customer.describe());
    world.mine(2).await?;
    // The node's own balances are of no use here: loading a state adds to what it has.
    world.customer.ensure_once()?;
    world.ensure_rows_match().await
}

async fn many() -> Result<()> {
    let world = World::start("default = 2, MINI = 3", 16).await?;
    let anvil = &world.anvil;
    for round in 0..12_u64 {
        for (from, to) in [(1, ALICE), (2, BOB), (3, STRANGER)] {
            pay(anvil, from, to, u128::from(round) + 1).await?;
        }
        anvil.transfer(&world.token, ALICE, 10).await?;
        anvil.mine(2).await?;
        // Sometimes confirmd has told of everything, sometimes it is anywhere.
        if round % 3 != 1 {
            world.told().await?;
        }
        // Every depth from 1 to 6; every fourth reorg loses what was in it.
        let depth = (5 * round + 1) % 6 + 1;
        if round % 4 == 3 {
            anvil.reorg(depth, &[]).await?;
        } else {
            anvil.reorg_to_pool(depth).await?;
        }
    }
    world.mine(3).await?;
    let ledger = world.customer.ledger();
    ensure!(ledger.rows().values().any(|row| row.sequence > 2), "no reorg touched a deposit twice: the trial shows nothing");
    world.ensure_books_match().await
}
