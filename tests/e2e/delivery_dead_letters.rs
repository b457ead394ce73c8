//! Dead letters: visible, kept, and delivered when an operator says so.

use anyhow::{Result, ensure};
use confirmd_testkit::receiver::Behaviour;
use e2e::{Config, Needs, SinkSection, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::evm_world::{ALICE, BOB, CHAIN, ETH, World, chain, credited, pay, stage};

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    vec![
        node_trial(
            "delivery_dead_letters::a_dead_letter_blocks_its_key_until_it_is_requeued_then_all_arrive_in_order",
            needs,
            requeued,
        ),
        node_trial("delivery_dead_letters::a_skipped_event_is_never_delivered_and_stays_on_record", needs, skipped),
        node_trial(
            "delivery_dead_letters::a_consumer_that_left_with_undelivered_events_stops_the_start_until_renamed",
            needs,
            renamed,
        ),
    ]
}

/// Gives up after three attempts.
async fn impatient() -> Result<World> {
    let (anvil, token, customer) = stage().await?;
    let sink = SinkSection::webhook("ledger", &customer.url()).retry(&["50ms", "50ms"]);
    let config = Config::new().chain(chain(&anvil, &token, "default = 1", 8)).sink(sink);
    World::of(anvil, token, customer, &config).await
}

/// Has one deposit whose first event died; the customer is well again.
async fn with_dead_letter() -> Result<(World, String)> {
    let world = impatient().await?;
    world.customer.receiver().always(Behaviour::Status(503));
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    world.anvil.mine(1).await?;
    world.service.until_consumer("ledger", "a dead letter", |consumer| consumer["dead"] == 1).await?;
    world.customer.receiver().behave();
    ensure!(world.customer.receiver().requests().len() == 3, "{}", world.customer.describe());
    Ok((world, paid))
}

async fn listed(world: &World, state: &str) -> Result<Vec<Value>> {
    world.service.json_lines(&["deliveries", "list", "--consumer", "ledger", "--state", state, "--json"]).await
}

async fn requeued() -> Result<()> {
    let (mut world, stuck) = with_dead_letter().await?;
    // Two more events of the key wait behind it; other keys do not.
    world.anvil.reorg(1, &[(&stuck, 0)]).await?;
    let other = pay(&world.anvil, 2, BOB, 7).await?;
    world.anvil.mine(1).await?;
    world.until(&other, 0, 1).await?;
    world.service.until_consumer("ledger", "two are blocked", |consumer| consumer["blocked"] == 2).await?;
    ensure!(world.customer.history(CHAIN, &stuck, 0).is_empty());

    // All that outlives a kill.
    world.service.kill_and_run().await?;
    let dead = listed(&world, "dead").await?;
    ensure!(dead.len() == 1 && dead[0]["tx_id"] == stuck.as_str() && dead[0]["sequence"] == 1, "{dead:?}");
    ensure!(dead[0]["attempts"] == 3 && dead[0]["last_attempt"]["status"] == 503, "{dead:?}");
    let blocked = listed(&world, "blocked").await?;
    ensure!(blocked.len() == 2 && blocked.iter().all(|one| one["blocked_by"] == dead[0]["event"]), "{blocked:?}");
    let text = world.service.command(&["deliveries", "list", "--state", "dead"]).await?;
    ensure!(text.contains("503") && text.contains(dead[0]["event"].as_str().unwrap()), "{text}");

    // Requeueing one that is blocked requeues the undelivered tail of its key.
    let event = blocked[1]["event"].as_str().unwrap();
    world.service.command(&["deliveries", "requeue", "ledger", event]).await?;
    world.told().await?;
    ensure!(world.history(&stuck, 0) == [1, 2, 3] && world.history(&other, 0) == [1], "{}", world.customer.describe());
    ensure!(listed(&world, "dead").await?.is_empty() && listed(&world, "blocked").await?.is_empty());
    world.ensure_books_match().await
}

async fn skipped() -> Result<()> {
    let (mut world, stuck) = with_dead_letter().await?;
    let event = listed(&world, "dead").await?[0]["event"].as_str().unwrap().to_owned();
    let (code, _, stderr) = world.service.attempt(&["deliveries", "skip", "ledger", &event]).await?;
    ensure!(code == Some(1) && stderr.contains("--yes"), "{code:?}: {stderr}");
    world.service.command(&["deliveries", "skip", "ledger", &event, "--yes"]).await?;
    world.service.kill_and_run().await?;
    let skipped = listed(&world, "skipped").await?;
    ensure!(
        skipped.len() == 1 && skipped[0]["event"] == event.as_str() && listed(&world, "dead").await?.is_empty(),
        "{skipped:?}"
    );

    // Another one dies, and all dead ones are requeued: the skipped one is not among them.
    world.customer.receiver().always(Behaviour::Close);
    let other = pay(&world.anvil, 2, BOB, 7).await?;
    world.anvil.mine(1).await?;
    world.service.until_consumer("ledger", "a dead letter", |consumer| consumer["dead"] == 1).await?;
    world.customer.receiver().behave();
    let told = world.service.command(&["deliveries", "requeue", "ledger", "--all-dead"]).await?;
    ensure!(told.starts_with("1 "), "{told}");
    world.told().await?;
    ensure!(world.history(&other, 0) == [1] && world.history(&stuck, 0).is_empty(), "{}", world.customer.describe());
    ensure!(credited(&world.customer, ALICE, ETH).is_zero());
    world.customer.ensure_once()
}

async fn renamed() -> Result<()> {
    let (mut world, stuck) = with_dead_letter().await?;
    world.service.terminate().await?;
    let sink = SinkSection::webhook("books", &world.customer.url());
    let config = Config::new().chain(chain(&world.anvil, &world.token, "default = 1", 8)).sink(sink);
    world.service.configure(&config)?;
    let (code, _, stderr) = world.service.attempt(&["run", "--no-progress"]).await?;
    ensure!(code == Some(1) && stderr.contains("consumer rename ledger"), "{code:?}: {stderr}");
    world.service.command(&["consumer", "rename", "ledger", "books"]).await?;
    world.service.run().await?;
    world.service.command(&["deliveries", "requeue", "books", "--all-dead"]).await?;
    world.told().await?;
    ensure!(world.history(&stuck, 0) == [1], "{}", world.customer.describe());
    world.ensure_books_match().await
}
