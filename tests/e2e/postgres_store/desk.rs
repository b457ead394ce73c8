//! What one instance is told or learns, all know: through the shipped binary's API and commands.

use super::fleet;
use super::shop::{Shop, config};
use crate::evm_world::{ALICE, BOB, CHAIN, NAME, bare_chain};
use anyhow::{Context, Result, ensure};
use confirmd_testkit::receiver::Behaviour;
use e2e::{Config, FaultProxy, Postgres, SOON, SinkSection};
use std::time::Duration;

/// Watched by nobody at first.
const CAROL: &str = "0x00000000000000000000000000000000c0ffee0c";
/// How long requests are counted: some looks of idle instances are among them.
const COUNTED: Duration = Duration::from_secs(25);
/// Requests of the busy instance for each of an idle one, at least.
const IDLE_RATIO: u64 = 50;

pub(super) async fn commands() -> Result<()> {
    let shop = Shop::usual().await?;
    let idle = (0..3).find(|number| shop.busy().is_ok_and(|busy| busy != *number)).unwrap_or(0);
    // Through the idle instance's API.
    shop.services[idle].command(&["watch", "add", NAME, CAROL, "--reference", "carol"]).await?;
    let paid = shop.pay(1, CAROL, 9).await?;
    shop.anvil.mine(2).await?;
    shop.customer.until_at(CHAIN, &paid, 0, (1, true), SOON).await?;
    for service in &shop.services {
        let (_, found) = service.get("/v1/addresses").await?;
        ensure!(found.to_string().to_lowercase().contains(CAROL), "{found}");
    }
    shop.told().await?;
    shop.ensure_right().await
}

/// Three instances whose consumer gives up after three attempts.
async fn impatient() -> Result<Shop> {
    Shop::configured(|anvil, cluster, customer, _| {
        let sink = SinkSection::webhook("ledger", &customer.url()).retry(&["50ms", "50ms"]);
        let state = fleet::state(&cluster.url(Postgres::SUPERUSER.0, "postgres"));
        Config::new().chain(bare_chain(anvil, "default = 2", 12)).sink(sink).state(&state)
    })
    .await
}

pub(super) async fn requeued() -> Result<()> {
    let shop = impatient().await?;
    shop.customer.receiver().always(Behaviour::Status(503));
    let paid = shop.pay(1, ALICE, 5).await?;
    shop.anvil.mine(2).await?;
    // Whichever gave up, all say so.
    for service in &shop.services {
        service.until_consumer("ledger", "a dead letter", |consumer| consumer["dead"] == 1).await?;
    }
    ensure!(shop.customer.receiver().requests().len() == 3, "{}", shop.customer.describe());
    let dead = shop.services[0].json_lines(&["deliveries", "list", "--state", "dead", "--json"]).await?;
    let event = dead.first().and_then(|dead| dead["event"].as_str()).context("no dead letter is listed")?.to_owned();
    shop.customer.receiver().behave();
    shop.services[1].command(&["deliveries", "requeue", "ledger", &event]).await?;
    shop.customer.until_at(CHAIN, &paid, 0, (1, true), SOON).await?;
    // Acknowledged by one, done for all; and nobody delivers it again.
    for service in &shop.services {
        service.until_consumer("ledger", "nothing waits", |it| it["waiting"] == 0 && it["dead"] == 0).await?;
    }
    // Paused on one, nothing goes out of any; resumed on another.
    shop.services[2].command(&["consumer", "pause", "ledger"]).await?;
    let held = shop.pay(2, BOB, 7).await?;
    shop.anvil.mine(2).await?;
    for service in &shop.services {
        service.until_consumer("ledger", "paused with one waiting", |it| it["waiting"] == 1 && !it["paused"].is_null()).await?;
    }
    ensure!(shop.customer.history(CHAIN, &held, 0).is_empty(), "{}", shop.customer.describe());
    shop.services[0].command(&["consumer", "resume", "ledger"]).await?;
    shop.customer.until_at(CHAIN, &held, 0, (1, true), SOON).await?;
    shop.told().await?;
    shop.customer.ensure_once()?;
    shop.ensure_right().await
}

pub(super) async fn idle() -> Result<()> {
    let node = e2e::Anvil::start().await?;
    node.mine(2).await?;
    let mut proxies = Vec::new();
    for _ in 0..3 {
        proxies.push(FaultProxy::start(&node.url(), None).await?);
    }
    let cluster = Postgres::start_with(&["max_connections=120"]).await?;
    let shop = Shop::of(node, cluster, |anvil, cluster, customer, number| {
        let url = proxies[number].url();
        config(bare_chain(anvil, "default = 2", 12).line(&format!("rpc = [{{ url = \"{url}\" }}]")), cluster, customer)
    })
    .await?;
    let busy = shop.busy()?;
    let counts = || proxies.iter().map(FaultProxy::requests).collect::<Vec<_>>();
    let before = counts();
    tokio::time::sleep(COUNTED / 2).await;
    // Also while something happens.
    for _ in 0..5 {
        let paid = shop.pay(1, ALICE, 5).await?;
        shop.anvil.mine(2).await?;
        shop.customer.until_at(CHAIN, &paid, 0, (1, true), SOON).await?;
    }
    tokio::time::sleep(COUNTED / 2).await;
    let made: Vec<u64> = counts().iter().zip(before).map(|(now, before)| now - before).collect();
    ensure!(shop.busy()? == busy, "the turn passed on meanwhile");
    let most_idle = made.iter().enumerate().filter(|(number, _)| *number != busy).map(|(_, made)| *made).max();
    let most_idle = most_idle.unwrap_or_default();
    eprintln!("requests in {COUNTED:?}: busy {}, the busier of the idle {most_idle}", made[busy]);
    ensure!(made[busy] >= most_idle.max(1) * IDLE_RATIO, "requests of the three: {made:?}, {busy} is the busy one");
    shop.told().await?;
    shop.ensure_right().await
}
