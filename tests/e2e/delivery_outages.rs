//! A customer that is down, slow or lies: everything arrives in the end, in order, and moves money once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use confirmd_testkit::receiver::Behaviour;
use e2e::{Config, Customer, Needs, SOON, SinkSection, node_trial};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::evm_world::{ALICE, BOB, CHAIN, World, chain, ledger, pay, stage};

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    vec![
        node_trial("delivery_outages::g9_a_customer_that_is_down_gets_everything_in_order_and_another_never_waits", needs, down),
        node_trial("delivery_outages::failed_slow_and_lost_answers_of_every_kind_move_money_once", needs, answers),
        node_trial("delivery_outages::g8_a_key_that_fails_holds_back_its_own_events_and_no_others", needs, order),
        node_trial("delivery_outages::a_410_pauses_the_consumer_until_it_is_resumed_and_loses_nothing", needs, gone),
        node_trial("delivery_outages::a_consumer_paused_by_an_operator_stays_paused_over_a_restart", needs, paused),
    ]
}

async fn down() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let audit = Customer::start().await?;
    let config = Config::new()
        .chain(chain(&anvil, &token, "default = 1", 8))
        .sink(ledger(&customer))
        .sink(SinkSection::webhook("audit", &audit.url()));
    let mut world = World::of(anvil, token, customer, &config).await?;
    world.customer.receiver().down().await?;
    let moved = pay(&world.anvil, 1, ALICE, 5).await?;
    world.anvil.mine(1).await?;
    audit.until_at(CHAIN, &moved, 0, (1, true), SOON).await?;
    let raw = world.anvil.raw_transaction(&moved).await?;
    world.anvil.reorg(1, &[]).await?;
    audit.until_at(CHAIN, &moved, 0, (2, false), SOON).await?;
    // Twice down: confirmd as well.
    world.service.kill_and_run().await?;
    world.anvil.rpc().text("eth_sendRawTransaction", json!([raw])).await?;
    let other = pay(&world.anvil, 2, BOB, 7).await?;
    world.anvil.mine(1).await?;
    audit.until_at(CHAIN, &other, 0, (1, true), SOON).await?;
    ensure!(world.customer.receiver().requests().is_empty());
    let waiting = world.service.until_consumer("ledger", "four events wait", |consumer| consumer["waiting"] == 4).await?;
    ensure!(waiting["dead"] == 0 && waiting["paused"].is_null(), "{waiting}");

    world.customer.receiver().up().await?;
    world.told().await?;
    ensure!(world.history(&moved, 0) == [1, 2, 3], "{}", world.customer.describe());
    // The kill may have come between an answer and its record.
    let mut told = audit.history(CHAIN, &moved, 0);
    told.dedup();
    ensure!(world.history(&other, 0) == [1] && told == [1, 2, 3], "{}", audit.describe());
    audit.ensure_sound()?;
    ensure!(audit.ledger().balances() == world.customer.ledger().balances());
    world.ensure_books_match().await
}

async fn answers() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let sink = ledger(&customer).line("timeout = \"300ms\"");
    let config = Config::new().chain(chain(&anvil, &token, "default = 1", 8)).sink(sink);
    let world = World::of(anvil, token, customer, &config).await?;
    let answer = |status, header| Behaviour::Answer { status, header, body: b"what it says".to_vec() };
    let behaviours = [
        Behaviour::Status(404),
        answer(429, Some(("retry-after", "1".to_owned()))),
        answer(302, Some(("location", world.customer.url()))),
        Behaviour::Close,
        Behaviour::Hang,
        Behaviour::ApplyThen(500),
        Behaviour::Delay(Duration::from_millis(600)),
        Behaviour::Delay(Duration::from_millis(50)),
    ];
    let expected = [Some(404), Some(429), Some(302), None, None, Some(500), None];
    let attempts = behaviours.len();
    for behaviour in behaviours {
        world.customer.receiver().next(1, behaviour);
    }
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;
    let requests = world.customer.receiver().requests();
    ensure!(requests.len() == attempts && requests.iter().all(|request| request.id == requests[0].id), "{requests:#?}");
    ensure!(world.customer.ledger().moves() == 1 && world.at(&paid, 0) == Some((1, true)), "{}", world.customer.describe());

    let shown = &world.service.json_lines(&["deliveries", "show", &requests[0].id, "--json"]).await?[0];
    ensure!(serde_json::to_vec(&shown["body"])?.len() > 100 && shown["deliveries"][0]["state"] == "delivered", "{shown}");
    let failed = shown["deliveries"][0]["failed"].as_array().context("no attempts")?;
    let statuses: Vec<Option<u64>> = failed.iter().map(|attempt| attempt["status"].as_u64()).collect();
    ensure!(statuses == expected, "{statuses:?}\n{shown:#}");
    world.ensure_balances_match().await
}

async fn order() -> Result<()> {
    let world = World::start("default = 1", 8).await?;
    // Every attempt for the first key fails while others go through.
    let stuck = pay(&world.anvil, 1, ALICE, 5).await?;
    world.customer.receiver().always(Behaviour::Status(503));
    world.anvil.mine(1).await?;
    world.service.until_consumer("ledger", "a failed attempt", |consumer| consumer["retrying"] == 1).await?;
    world.anvil.reorg(1, &[(&stuck, 0)]).await?;
    world.service.until_consumer("ledger", "three events wait", |consumer| consumer["waiting"] == 3).await?;
    let seen: Vec<_> = world.customer.receiver().requests().into_iter().filter_map(|request| request.event.ok()).collect();
    ensure!(seen.iter().all(|event| event.sequence == 1), "a later event was handed over first\n{}", world.customer.describe());
    world.customer.receiver().behave();
    let other = pay(&world.anvil, 2, BOB, 7).await?;
    world.mine(1).await?;
    ensure!(world.history(&stuck, 0) == [1, 2, 3] && world.history(&other, 0) == [1], "{}", world.customer.describe());
    world.ensure_books_match().await
}

async fn gone() -> Result<()> {
    let mut world = World::start("default = 1", 8).await?;
    world.customer.receiver().always(Behaviour::Status(410));
    let first = pay(&world.anvil, 1, ALICE, 5).await?;
    world.anvil.mine(1).await?;
    let why = |consumer: &Value| consumer["paused"].as_str().map(str::to_owned);
    let paused = world.service.until_consumer("ledger", "paused", |consumer| why(consumer).is_some()).await?;
    ensure!(why(&paused).is_some_and(|why| why.contains("410")) && paused["waiting"] == 1, "{paused}");
    let asked = world.customer.receiver().requests().len();
    ensure!(asked == 1, "{}", world.customer.describe());

    // It wants events again, but nobody has said so to confirmd: also not a restart.
    world.customer.receiver().behave();
    let second = pay(&world.anvil, 2, BOB, 7).await?;
    world.anvil.mine(1).await?;
    world.service.kill_and_run().await?;
    world.service.until_consumer("ledger", "both wait", |consumer| consumer["waiting"] == 2 && why(consumer).is_some()).await?;
    ensure!(world.customer.receiver().requests().len() == asked, "{}", world.customer.describe());
    world.service.command(&["consumer", "resume", "ledger"]).await?;
    world.told().await?;
    ensure!(world.history(&first, 0) == [1] && world.history(&second, 0) == [1], "{}", world.customer.describe());
    world.ensure_books_match().await
}

async fn paused() -> Result<()> {
    let mut world = World::start("default = 1", 8).await?;
    world.service.command(&["consumer", "pause", "ledger", "--why", "month end"]).await?;
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    world.anvil.mine(1).await?;
    world.service.until_consumer("ledger", "one waits", |consumer| consumer["waiting"] == 1).await?;
    world.service.kill_and_run().await?;
    let paused = world.service.until_consumer("ledger", "one waits", |consumer| consumer["waiting"] == 1).await?;
    ensure!(paused["paused"].as_str().is_some_and(|why| why.contains("month end")), "{paused}");
    ensure!(world.customer.receiver().requests().is_empty(), "{}", world.customer.describe());
    world.service.command(&["consumer", "resume", "ledger"]).await?;
    world.told().await?;
    ensure!(world.history(&paid, 0) == [1]);
    world.ensure_books_match().await
}
