//! Addresses that are added all day long, and lists of them.

use anyhow::{Context, Result, ensure};
use e2e::{Call, Needs, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;

use crate::evm_world::{CHAIN, NAME, World};

/// Added one by one while blocks are mined, and paid in the block that comes next.
const ONE_BY_ONE: u64 = 300;
/// Who adds at a time.
const ADDING: u64 = 6;
/// Lines of a list.
const LISTED: u64 = 120_000;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    vec![
        node_trial("evm_adding::hundreds_added_during_reads_are_covered_from_the_height_told", needs, during_reads),
        node_trial("evm_adding::a_long_list_survives_a_kill_and_a_start_and_is_gone_through_again", needs, listed),
    ]
}

fn address(number: u64) -> String {
    format!("0x{:040x}", 0xadd0_0000_0000_u64 + number)
}

async fn add(world: &World, address: &str) -> Result<u64> {
    let told = world.service.json_lines(&["watch", "add", NAME, address, "--json"]).await?;
    told.first().and_then(|told| told["from_height"].as_u64()).with_context(|| format!("no height in {told:?}"))
}

/// Adds its share, and pays each address in a block of its own at once.
async fn add_and_pay(world: &World, who: u64) -> Result<Vec<String>> {
    let mut paid = Vec::new();
    for number in (0..ONE_BY_ONE).filter(|number| number % ADDING == who) {
        let to = address(number);
        let from = add(world, &to).await?;
        let sender = usize::try_from(who)?;
        let tx = world.anvil.send(Call { from: sender, to: Some(&to), value: u128::from(number) + 1, ..Call::default() }).await?;
        world.anvil.mine(1).await?;
        let place = world.anvil.position(&tx).await?.context("it is not mined")?;
        ensure!(place.block.height >= from, "{to} is promised from {from}, it was paid at {}", place.block.height);
        paid.push(tx);
    }
    Ok(paid)
}

async fn during_reads() -> Result<()> {
    let world = World::start("default = 1", 8).await?;
    let shares = futures::future::try_join_all((0..ADDING).map(|who| add_and_pay(&world, who))).await?;
    world.mine(1).await?;
    let paid: BTreeSet<_> = shares.into_iter().flatten().collect();
    ensure!(u64::try_from(paid.len())? == ONE_BY_ONE, "{} were paid", paid.len());
    let missed: Vec<_> = paid.iter().filter(|tx| world.at(tx, 0) != Some((1, true))).collect();
    ensure!(missed.is_empty(), "{} of {ONE_BY_ONE} were missed: {missed:?}\n{}", missed.len(), world.service.log());
    ensure!(world.customer.ledger().rows().iter().all(|(key, _)| key.chain == CHAIN));
    world.customer.ensure_once()
}

async fn watched(world: &World) -> Result<u64> {
    let status = world.service.chain(NAME).await?;
    status["watched"].as_u64().with_context(|| format!("no number of addresses in {status}"))
}

async fn listed() -> Result<()> {
    let mut world = World::start("default = 1", 8).await?;
    let before = watched(&world).await?;
    let mut text = String::from("chain,address,reference\n");
    for number in 0..LISTED {
        writeln!(text, "{NAME},{},customer-{number}", address(number))?;
    }
    std::fs::write(world.service.instance_dir().join("list.csv"), text)?;
    let import = ["watch", "import", "list.csv", "--json"];
    let told = world.service.json_lines(&import).await?;
    ensure!(told.len() == 1 && told[0]["count"] == LISTED, "{told:?}");
    ensure!(watched(&world).await? == before + LISTED);
    // Killed without a word, and started: all of them are there; the same list again changes nothing.
    world.service.kill_and_run().await?;
    world.told().await?;
    ensure!(watched(&world).await? == before + LISTED, "after a kill: {}", watched(&world).await?);
    let again = world.service.json_lines(&["watch", "import", "list.csv", "--from-line", "60002", "--json"]).await?;
    ensure!(again.iter().map(|told: &Value| told["count"].as_u64().unwrap_or(0)).sum::<u64>() == LISTED - 60_000, "{again:?}");
    ensure!(watched(&world).await? == before + LISTED);
    let last = address(LISTED - 1);
    let tx = world.anvil.pay(&last, 7).await?;
    world.mine(1).await?;
    ensure!(world.at(&tx, 0) == Some((1, true)), "{}", world.customer.describe());
    let found = world.service.json_lines(&["deposits", "--reference", &format!("customer-{}", LISTED - 1), "--json"]).await?;
    ensure!(found.len() == 1, "history has {found:?}");
    world.service.terminate().await
}
