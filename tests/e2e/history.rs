//! Addresses and assets that are added with their past: rescans beside the live watch, on real nodes.

mod filters;

use anyhow::{Context, Result, ensure};
use e2e::{COINS, Call, Config, FamilyOptions, Needs, SOON, Service, UtxoPlan, UtxoStage, node_trial, utxo_node};
use libtest_mimic::Trial;
use serde_json::Value;
use std::fmt::Write;

use crate::evm_world::{ALICE, NAME, World, bare_chain, chain, ledger, stage};

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    let mut trials = vec![
        node_trial("history::an_address_is_added_with_its_past_and_a_reorg_takes_it_back", needs, with_its_past),
        node_trial("history::a_list_with_heights_is_paused_killed_resumed_and_read_once", needs, list_with_heights),
        node_trial("history::an_asset_that_is_listed_later_is_read_from_a_height_on", needs, asset_listed_later),
    ];
    for (group, node) in [("history_litecoind", Needs::Litecoind), ("history_knots", Needs::Knots)] {
        let name = format!("{group}::an_old_address_is_cancelled_asked_again_and_told_once");
        trials.push(node_trial(&name, &[node], move || coins(node)));
        let name = format!("{group}::a_rescan_by_compact_filters_finds_what_a_whole_one_finds");
        trials.push(node_trial(&name, &[node], move || filters::few_blocks(node)));
    }
    trials
}

async fn rescan(service: &Service, chain: &str, id: u64) -> Result<Value> {
    let all = service.json_lines(&["rescan", "list", chain, "--json"]).await?;
    all.iter().find(|one| one["id"] == id).cloned().with_context(|| format!("no rescan {id} in {all:?}"))
}

/// Looks until a rescan is as wanted.
async fn until(service: &Service, chain: &str, id: u64, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let now = rescan(service, chain, id).await?;
        if holds(&now) {
            return Ok(now);
        }
        ensure!(tokio::time::Instant::now() < end, "rescan {id} is not {what}: {now}\n{}", service.log());
    }
}

async fn done(service: &Service, chain: &str, id: u64) -> Result<Value> {
    until(service, chain, id, "done", |rescan| rescan["state"] == "done").await
}

async fn with_its_past() -> Result<()> {
    let mut world = World::start("default = 3", 8).await?;
    let old = "0x00000000000000000000000000000000c0ffee77";
    let mut paid = Vec::new();
    for number in 0..6_u128 {
        paid.push(world.anvil.send(Call { to: Some(old), value: number + 1, ..Call::default() }).await?);
        world.mine(5).await?;
    }
    let token = world.anvil.transfer(&world.token, old, 500).await?;
    world.mine(2).await?;
    let recent = world.anvil.send(Call { to: Some(old), value: 77, ..Call::default() }).await?;
    world.mine(1).await?;
    ensure!(world.customer.receiver().requests().is_empty(), "{}", world.customer.describe());

    let height = world.anvil.position(&paid[2]).await?.context("not mined")?.block.height;
    let since = height.to_string();
    let told =
        world.service.json_lines(&["watch", "add", NAME, old, "--reference", "late", "--from-height", &since, "--json"]).await?;
    ensure!(told[0]["rescan"] == 1, "{told:?}");
    let tip = world.anvil.tip().await?;
    let read = done(&world.service, NAME, 1).await?;
    ensure!(read["found"] == 6 && read["addresses"] == 1 && read["percent_read"] == 100, "{read}");
    world.told().await?;
    for (number, tx) in paid.iter().enumerate() {
        let wanted: &[u64] = if number < 2 { &[] } else { &[1] };
        ensure!(world.history(tx, 0) == wanted, "payment {number}: {}", world.customer.describe());
    }
    ensure!(world.history(&token, 1) == [1], "{}", world.customer.describe());
    ensure!(world.history(&recent, 0).is_empty(), "one confirmation of three");
    // Its recent part changes branch: decided and taken back as ever.
    let cover = ["rescan", "coverage", NAME, old, "--height", &since, "--json"];
    let covered = world.service.json_lines(&cover).await?;
    ensure!(covered[0]["covered"] == true && covered[0]["read"][0]["rescan"] == 1, "{covered:?}");
    ensure!(covered[0]["read"][0]["block"]["height"] == tip.height, "{covered:?}");
    world.mine(2).await?;
    ensure!(world.history(&recent, 0) == [1], "{}", world.customer.describe());
    world.anvil.reorg(4, &[]).await?;
    world.mine(2).await?;
    world.until(&recent, 0, 2).await?;
    // The same again, and after a kill: nothing is told twice.
    world.service.kill_and_run().await?;
    world.told().await?;
    let again =
        world.service.json_lines(&["watch", "add", NAME, old, "--reference", "late", "--from-height", &since, "--json"]).await?;
    ensure!(again[0]["rescan"].is_null(), "{again:?}");
    let all = world.service.json_lines(&["rescan", "start", NAME, "--from-height", "1", "--json"]).await?;
    ensure!(all[0]["id"] == 2, "{all:?}");
    done(&world.service, NAME, 2).await?;
    world.told().await?;
    ensure!(world.history(&paid[0], 0) == [1] && world.history(&paid[4], 0) == [1], "{}", world.customer.describe());
    world.customer.ensure_once()?;
    world.service.terminate().await
}

/// Lines of the list; every tenth is paid.
const LISTED: u64 = 400;
/// Blocks of the past.
const BLOCKS: u64 = 240;

fn address(number: u64) -> String {
    format!("0x{:040x}", 0xadd1_0000_0000_u64 + number)
}

async fn list_with_heights() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let mut slow = chain(&anvil, &token, "default = 1", 8).line("span_max = 1").line("rescan_share = 20");
    slow = slow.line("poll_interval = \"200ms\"");
    let config = Config::new().chain(slow).sink(ledger(&customer));
    let mut world = World::of(anvil, token, customer, &config).await?;
    let mut paid = Vec::new();
    for block in 0..BLOCKS / 6 {
        let to = address(block * 10 % LISTED);
        paid.push(world.anvil.send(Call { to: Some(&to), value: u128::from(block) + 1, ..Call::default() }).await?);
        world.anvil.mine(6).await?;
    }
    world.told().await?;
    let mut text = String::from("chain,address,reference,from_height\n");
    for number in 0..LISTED {
        writeln!(text, "{NAME},{},customer-{number},{}", address(number), if number == 0 { "1" } else { "" })?;
    }
    std::fs::write(world.service.instance_dir().join("list.csv"), text)?;
    let told = world.service.json_lines(&["watch", "import", "list.csv", "--from-height", "2", "--json"]).await?;
    ensure!(told[0]["rescan"] == 1 && told[0]["count"] == LISTED, "{told:?}");
    let begun = until(&world.service, NAME, 1, "under way", |rescan| rescan["percent_read"].as_u64() > Some(3)).await?;
    ensure!(begun["addresses"] == LISTED && begun["from_height"] == 1, "many additions are one rescan: {begun}");
    let paused = world.service.json_lines(&["rescan", "pause", NAME, "1", "--json"]).await?;
    ensure!(paused[0]["state"] == "paused" && paused[0]["heights_left"].as_u64() > Some(0), "{paused:?}");
    let left = rescan(&world.service, NAME, 1).await?["heights_left"].clone();
    world.service.kill_and_run().await?;
    world.mine(3).await?;
    let still = rescan(&world.service, NAME, 1).await?;
    ensure!(still["state"] == "paused" && still["heights_left"] == left, "{still}, it had {left} left");
    world.service.json_lines(&["rescan", "resume", NAME, "1", "--json"]).await?;
    let on = until(&world.service, NAME, 1, "going on", |rescan| rescan["heights_left"].as_u64() < left.as_u64()).await?;
    world.service.kill_and_run().await?;
    let read = done(&world.service, NAME, 1).await?;
    ensure!(on["state"] == "running" || on["state"] == "done", "{on}");
    ensure!(read["found"].as_u64() == u64::try_from(paid.len()).ok(), "{read}");
    world.told().await?;
    for tx in &paid {
        ensure!(world.history(tx, 0) == [1], "{tx}: {}", world.customer.describe());
    }
    world.customer.ensure_once()?;
    world.service.terminate().await
}

async fn asset_listed_later() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let config = Config::new().chain(bare_chain(&anvil, "default = 1", 8)).sink(ledger(&customer));
    let mut world = World::of(anvil, token, customer, &config).await?;
    let mut paid = Vec::new();
    for amount in 1..=5 {
        paid.push(world.anvil.transfer(&world.token, ALICE, amount).await?);
        world.mine(4).await?;
    }
    let with_token = Config::new().chain(chain(&world.anvil, &world.token, "default = 1", 8)).sink(ledger(&world.customer));
    world.service.configure(&with_token)?;
    world.service.command(&["reload"]).await?;
    world.told().await?;
    let height = world.anvil.position(&paid[1]).await?.context("not mined")?.block.height.to_string();
    let start = ["rescan", "start", NAME, "--asset", "MINI", "--from-height", &height, "--json"];
    let started = world.service.json_lines(&start).await?;
    ensure!(started[0]["scope"] == "asset", "{started:?}");
    let read = done(&world.service, NAME, 1).await?;
    ensure!(read["found"] == 4, "{read}");
    world.told().await?;
    for (number, tx) in paid.iter().enumerate() {
        let wanted: &[u64] = if number == 0 { &[] } else { &[1] };
        ensure!(world.history(tx, 1) == wanted, "payment {number}: {}", world.customer.describe());
    }
    world.customer.ensure_once()?;
    world.service.terminate().await
}

async fn coins(kind: Needs) -> Result<()> {
    let node = utxo_node(kind, FamilyOptions::default()).await?;
    let watched = node.new_address_of("bech32").await?;
    let old = node.new_address_of("bech32").await?;
    let plan = UtxoPlan { confirmations: 2, reorg_depth: 6, watch: vec![watched], ..UtxoPlan::default() };
    let mut stage = UtxoStage::set(node, plan).await?;
    let mut paid = Vec::new();
    for amount in 1..=4_u64 {
        paid.push(stage.pay(&old, amount * 100_000).await?);
        stage.node.mine(5).await?;
    }
    stage.told().await?;
    ensure!(stage.customer.receiver().requests().is_empty());
    let height = stage.node.position(&paid[1].0).await?.context("not mined")?.block.height.to_string();
    // Asked while nobody runs, given up, and asked for again.
    stage.service.terminate().await?;
    let add = ["watch", "add", COINS, &old, "--reference", "late", "--from-height", &height, "--json"];
    let told = stage.service.json_lines(&add).await?;
    ensure!(told[0]["rescan"] == 1, "{told:?}");
    let cancelled = stage.service.json_lines(&["rescan", "cancel", COINS, "1", "--json"]).await?;
    ensure!(cancelled[0]["state"] == "cancelled", "{cancelled:?}");
    let gaps = stage.service.json_lines(&["rescan", "coverage", COINS, &old, "--height", &height, "--json"]).await?;
    ensure!(gaps[0]["covered"] == false && gaps[0]["gaps"][0]["state"] == "cancelled", "{gaps:?}");
    stage.service.run().await?;
    stage.told().await?;
    ensure!(stage.customer.receiver().requests().is_empty(), "a cancelled rescan was read");
    let told = stage.service.json_lines(&add).await?;
    ensure!(told[0]["rescan"] == 2, "{told:?}");
    let read = done(&stage.service, COINS, 2).await?;
    ensure!(read["found"] == 3, "{read}");
    stage.told().await?;
    stage.ensure_history(&paid[0].0, paid[0].1, &[])?;
    for (tx, output) in &paid[1..] {
        stage.ensure_history(tx, *output, &[1])?;
    }
    let covered = stage.service.json_lines(&["rescan", "coverage", COINS, &old, "--height", &height, "--json"]).await?;
    ensure!(covered[0]["covered"] == true && covered[0]["gaps"] == serde_json::json!([]), "{covered:?}");
    let explained = stage.service.command(&["explain", COINS, &paid[0].0, "--address", &old, "--height", "1"]).await?;
    ensure!(explained.contains("--from-height"), "{explained}");
    stage.customer.ensure_once()?;
    stage.service.terminate().await
}
