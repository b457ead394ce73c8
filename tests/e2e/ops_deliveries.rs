//! What was delivered: listed in pages, and sent again under the same ids.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use e2e::{Config, Needs, SOON, SinkSection, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::evm_world::{ALICE, World, chain, ledger, pay, stage};

pub(crate) fn trials() -> Vec<Trial> {
    let on = &[Needs::Anvil];
    vec![
        node_trial("ops::what_was_delivered_is_listed_by_consumer_in_pages_newest_first", on, listed),
        node_trial("ops::delivered_events_are_replayed_by_id_and_by_time_under_the_same_ids_and_bytes", on, replayed),
    ]
}

/// Five events for `ledger`, of which it has three; `audit`, which comes before it, has all.
async fn world() -> Result<(World, Vec<String>)> {
    let (anvil, token, customer) = stage().await?;
    let audit = SinkSection::of_kind("audit", "file").line("path = \"audit.jsonl\"");
    let config = Config::new().chain(chain(&anvil, &token, "default = 1", 16)).sink(ledger(&customer)).sink(audit);
    let world = World::of(anvil, token, customer, &config).await?;
    for number in 1..=3_u128 {
        pay(&world.anvil, 1, ALICE, number).await?;
        world.mine(1).await?;
    }
    world.service.command(&["consumer", "pause", "ledger"]).await?;
    for number in 4..=5_u128 {
        pay(&world.anvil, 1, ALICE, number).await?;
    }
    world.anvil.mine(1).await?;
    world.service.until_consumer("ledger", "two wait", |one| one["waiting"] == 2).await?;
    world.service.until_consumer("audit", "nothing waits", |one| one["waiting"] == 0).await?;
    let events = world.service.json_lines(&["events", "--limit", "10"]).await?;
    let ids: Vec<String> = events.iter().filter_map(|event| event["id"].as_str().map(str::to_owned)).collect();
    ensure!(ids.len() == 5, "{events:?}");
    Ok((world, ids))
}

fn ids(found: &[Value]) -> Vec<(String, String)> {
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    found.iter().map(|one| (text(one, "consumer"), text(one, "event"))).collect()
}

async fn listed() -> Result<()> {
    let (mut world, events) = world().await?;
    let of = |consumer: &str, events: &[String]| -> Vec<(String, String)> {
        events.iter().rev().map(|event| (consumer.to_owned(), event.clone())).collect()
    };
    let wanted = [of("audit", &events), of("ledger", &events[..3])].concat();
    let service = &world.service;
    let all = service.json_lines(&["deliveries", "list", "--state", "delivered", "--all", "--json"]).await?;
    ensure!(ids(&all) == wanted && all.iter().all(|one| one["state"] == "delivered" && one["attempts"] == 1), "{all:?}");
    let some = ["deliveries", "list", "--state", "delivered", "--consumer", "ledger", "--limit", "2", "--json"];
    ensure!(ids(&service.json_lines(&some).await?) == wanted[5..7], "newest first");
    // Page by page over HTTP, across consumers.
    let (mut after, mut read) = (String::new(), Vec::new());
    loop {
        let (status, page) = service.get(&format!("/v1/deliveries?state=delivered&limit=3{after}")).await?;
        ensure!(status == 200, "{page}");
        let items = page["items"].as_array().context("no items")?;
        ensure!(items.len() <= 3, "{page}");
        read.extend(ids(items));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    ensure!(read == wanted, "{read:?}");
    // A place of one list is none of another.
    let (status, problem) = service.get(&format!("/v1/deliveries?state=queued{after}")).await?;
    ensure!(status == 400 && problem["type"] == "urn:confirmd:invalid", "{problem}");
    let undelivered = service.json_lines(&["deliveries", "list", "--json"]).await?;
    ensure!(
        ids(&undelivered) == [("ledger".to_owned(), events[3].clone()), ("ledger".to_owned(), events[4].clone())],
        "{undelivered:?}"
    );
    // Also of a stopped instance; what is sent on is listed on.
    world.service.terminate().await?;
    let all = world.service.json_lines(&["deliveries", "list", "--state", "delivered", "--all", "--json"]).await?;
    ensure!(ids(&all) == wanted, "{all:?}");
    world.service.run().await?;
    world.service.command(&["consumer", "resume", "ledger"]).await?;
    world.service.until_consumer("ledger", "nothing waits", |one| one["waiting"] == 0).await?;
    let all = world.service.json_lines(&["deliveries", "list", "--state", "delivered", "--consumer", "ledger", "--json"]).await?;
    ensure!(ids(&all) == of("ledger", &events), "{all:?}");
    world.service.terminate().await
}

async fn replayed() -> Result<()> {
    let (mut world, events) = world().await?;
    let times = |world: &World| {
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for request in world.customer.receiver().requests() {
            *times.entry(request.id.clone()).or_default() += 1;
        }
        times
    };
    world.service.command(&["consumer", "resume", "ledger"]).await?;
    world.service.until_consumer("ledger", "nothing waits", |one| one["waiting"] == 0).await?;
    ensure!(times(&world).values().all(|times| *times == 1) && times(&world).len() == 5, "{:?}", times(&world));

    // By id: that one alone.
    let answer = world.service.json_lines(&["deliveries", "replay", "ledger", &events[1], "--json"]).await?;
    ensure!(answer[0]["count"] == 1, "{answer:?}");
    world
        .customer
        .until("the second again", SOON, |_, requests| requests.iter().filter(|one| one.id == events[1]).count() == 2)
        .await?;
    world.service.until_consumer("ledger", "nothing waits", |one| one["waiting"] == 0).await?;
    ensure!(times(&world).values().sum::<usize>() == 6, "{:?}", times(&world));

    // By the time of the decision: from the third's on, before the fifth's unless they were decided together.
    let told = world.service.json_lines(&["events", "--limit", "10"]).await?;
    let decided = |number: usize| told[number]["decided_at"].as_str().context("no time").map(str::to_owned);
    let (from, before) = (decided(2)?, "2100-01-01T00:00:00Z");
    let within = told.iter().filter(|event| event["decided_at"].as_str() >= Some(from.as_str())).count();
    let range = ["deliveries", "replay", "ledger", "--from", &from, "--before", before, "--per-second", "1000", "--json"];
    let answer = world.service.json_lines(&range).await?;
    ensure!(answer[0]["count"] == within && within >= 3, "{answer:?}, {within}");
    world.customer.until("the later ones again", SOON, |_, requests| requests.len() == 6 + within).await?;
    let none = ["deliveries", "replay", "ledger", "--before", "2020-01-01T00:00:00Z", "--json"];
    ensure!(world.service.json_lines(&none).await?[0]["count"] == 0);
    // One body an id, whatever was sent again; the ledger, which knows the ids, has each deposit once.
    world.customer.ensure_sound()?;
    ensure!(world.customer.ledger().rows().len() == 5 && times(&world).len() == 5, "{}", world.customer.describe());
    world.service.until_consumer("ledger", "nothing waits", |one| one["waiting"] == 0).await?;
    world.service.terminate().await
}
