//! Policies that wait for the chain's own finality. anvil's `safe` block is the tip's parent, `finalized` the one before.

use anyhow::{Result, ensure};
use e2e::{Config, Needs, node_trial};
use libtest_mimic::Trial;

use crate::evm_world::{ALICE, BOB, NAME, World, bare_chain, ledger, pay, stage};

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    vec![
        node_trial("evm_finality::a_deposit_waits_until_its_tag_reaches_the_block", needs, tags),
        node_trial("evm_finality::the_floor_never_passes_the_finalized_block", needs, floor),
        node_trial("evm_finality::a_reorg_before_the_tag_reaches_the_block_tells_nothing", needs, reorg),
    ]
}

async fn tags() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let deep = anvil.deploy("MiniToken").await?;
    anvil.mint(&deep, anvil.account(0)?, 1_000).await?;
    anvil.mine(1).await?;
    let assets = format!(
        "assets = [{{ symbol = \"MINI\", contract = \"{}\", decimals = 6 }}, {{ symbol = \"DEEP\", contract = \"{}\", decimals = 6 }}]",
        token.address, deep.address
    );
    let policy = "default = \"safe\", MINI = \"finalized\", DEEP = { at_least = 5, tag = \"safe\" }";
    let config = Config::new().chain(bare_chain(&anvil, policy, 8).line(&assets)).sink(ledger(&customer));
    let world = World::of(anvil, token, customer, &config).await?;
    let eth = pay(&world.anvil, 1, ALICE, 5).await?;
    let mini = world.anvil.transfer(&world.token, ALICE, 6).await?;
    let slow = world.anvil.transfer(&deep, BOB, 7).await?;
    for mined in 1..=6 {
        world.mine(1).await?;
        let place = world.anvil.position(&eth).await?.map(|place| place.block.height).unwrap_or_default();
        let reached = |tag: &'static str| {
            let anvil = &world.anvil;
            async move { anyhow::Ok(anvil.block_ref(tag).await?.is_some_and(|block| block.height >= place)) }
        };
        let (safe, finalized) = (reached("safe").await?, reached("finalized").await?);
        let found = [world.at(&eth, 0), world.at(&mini, 1), world.at(&slow, 1)].map(|row| row == Some((1, true)));
        let expected = [safe, finalized, safe && mined >= 5];
        ensure!(found == expected, "after {mined} blocks {found:?}, not {expected:?}\n{}", world.customer.describe());
        ensure!(expected == [mined >= 2, mined >= 3, mined >= 5], "the node's tags are not where the trial thinks: {expected:?}");
    }
    ensure!(world.customer.receiver().requests().len() == 3);
    world.ensure_books_match().await
}

async fn floor() -> Result<()> {
    let world = World::start("default = \"finalized\"", 1).await?;
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    for _ in 0..5 {
        let tip = world.mine(1).await?;
        let chain = world.service.chain(NAME).await?;
        let floor = chain["floor"].as_u64().unwrap_or_default();
        ensure!(floor <= tip.height - 2, "the floor is at {floor}, the tip at {}", tip.height);
    }
    ensure!(world.history(&paid, 0) == [1]);
    // Within what is not final yet: followed, although reorg_depth alone would not reach it.
    let later = pay(&world.anvil, 2, BOB, 7).await?;
    // One by one, so that every block is linked: far below the tip only single blocks are recorded, and never searched between.
    world.mine(1).await?;
    world.mine(1).await?;
    world.anvil.reorg(2, &[(&later, 1)]).await?;
    world.mine(1).await?;
    world.mine(2).await?;
    ensure!(world.service.chain(NAME).await?["phase"] == "following");
    ensure!(world.history(&later, 0) == [1] && world.history(&paid, 0) == [1], "{}", world.customer.describe());
    world.ensure_books_match().await
}

async fn reorg() -> Result<()> {
    let world = World::start("default = \"finalized\"", 8).await?;
    let moved = pay(&world.anvil, 1, ALICE, 5).await?;
    let gone = pay(&world.anvil, 2, ALICE, 7).await?;
    world.mine(2).await?;
    world.anvil.reorg(2, &[(&moved, 1)]).await?;
    world.told().await?;
    ensure!(world.customer.receiver().requests().is_empty(), "{}", world.customer.describe());
    world.mine(2).await?;
    ensure!(world.history(&moved, 0) == [1] && world.at(&gone, 0).is_none(), "{}", world.customer.describe());
    world.ensure_books_match().await
}
