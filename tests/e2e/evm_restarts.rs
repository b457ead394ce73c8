//! Kills of confirmd and outages of the node: nothing is lost, nothing is told as something new.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use confirmd_testkit::alloy::primitives::U256;
use confirmd_testkit::receiver::Behaviour;
use e2e::{Config, Needs, Port, SOON, Service, Switch, node_trial};
use libtest_mimic::Trial;

use crate::evm_world::{ALICE, BOB, CHAIN, ETH, NAME, World, balance, chain, credited, ledger, pay, stage, token_balance};

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    vec![
        node_trial("evm_restarts::a_kill_before_during_and_after_a_delivery_credits_nothing_twice", needs, kills),
        node_trial("evm_restarts::kills_at_any_moment_of_a_busy_chain_end_with_the_chains_own_balances", needs, busy),
        node_trial("evm_restarts::deposits_made_while_confirmd_is_down_are_found_at_the_next_start", needs, down),
        node_trial("evm_restarts::a_node_that_is_down_restarted_or_silent_loses_and_reverts_nothing", needs, node_down),
        node_trial("evm_restarts::history_from_a_start_height_is_told_once_however_often_the_catch_up_is_killed", needs, history),
        node_trial("evm_restarts::with_two_endpoints_the_outage_of_one_is_not_noticed_by_the_customer", needs, failover),
        node_trial("evm_restarts::a_second_process_on_the_same_state_is_refused", needs, second),
    ]
}

async fn kills() -> Result<()> {
    let mut world = World::start("default = 2", 8).await?;
    // Before: nobody listens, so the event is on disk and nowhere else.
    world.customer.receiver().down().await?;
    let before = pay(&world.anvil, 1, ALICE, 10).await?;
    world.anvil.mine(2).await?;
    world.service.until_consumer("ledger", "an attempt that failed", |consumer| consumer["retrying"] == 1).await?;
    world.service.instance().kill()?;
    world.customer.receiver().up().await?;
    world.service.run().await?;
    world.until(&before, 0, 1).await?;
    world.told().await?;
    ensure!(world.history(&before, 0) == [1]);

    // During: the customer has the request and has not answered.
    world.customer.receiver().next(1, Behaviour::Hang);
    let during = pay(&world.anvil, 2, ALICE, 200).await?;
    world.anvil.mine(2).await?;
    arrived(&world, &during, 1).await?;
    ensure!(world.at(&during, 0).is_none());
    world.service.kill_and_run().await?;
    world.until(&during, 0, 1).await?;
    world.told().await?;
    ensure!(world.history(&during, 0) == [1]);

    // After: the customer has applied it; the answer never came to confirmd.
    world.customer.receiver().next(1, Behaviour::Delay(Duration::from_secs(600)));
    world.customer.receiver().next(1, Behaviour::ApplyThen(500));
    let after = pay(&world.anvil, 3, BOB, 3_000).await?;
    world.anvil.mine(2).await?;
    arrived(&world, &after, 1).await?;
    world.service.kill_and_run().await?;
    arrived(&world, &after, 2).await?;
    world.until(&after, 0, 1).await?;
    world.service.kill_and_run().await?;
    arrived(&world, &after, 3).await?;
    world.told().await?;
    world.ensure_balances_match().await?;
    ensure!(world.customer.ledger().moves() == 3, "{}", world.customer.describe());

    // With nothing new, a restart tells nothing.
    let told = world.customer.receiver().requests().len();
    world.service.kill_and_run().await?;
    world.mine(1).await?;
    ensure!(world.customer.receiver().requests().len() == told, "{}", world.customer.describe());
    Ok(())
}

/// Waits until a transaction's first event came so often.
async fn arrived(world: &World, tx: &str, times: usize) -> Result<()> {
    let what = format!("{times} requests for {tx}");
    let count = |requests: &[confirmd_testkit::receiver::Received]| {
        requests.iter().filter(|request| request.event.as_ref().is_ok_and(|event| event.key.tx_id == tx)).count()
    };
    world.customer.until(&what, SOON, |_, requests| count(requests) >= times).await
}

async fn busy() -> Result<()> {
    let mut world = World::start("default = 2, MINI = 3", 16).await?;
    for round in 0..8_u64 {
        for (from, to) in [(1, ALICE), (2, BOB)] {
            pay(&world.anvil, from, to, u128::from(round) + 1).await?;
        }
        world.anvil.transfer(&world.token, ALICE, 10).await?;
        world.anvil.mine(2).await?;
        if round % 3 == 1 {
            world.anvil.reorg_to_pool(round / 2 + 1).await?;
            world.anvil.mine(1).await?;
        }
        // A few requests later each time: in the middle of reading, deciding, handing over or none of it.
        let seen = world.customer.receiver().requests().len();
        if round % 2 == 0 {
            world.customer.until("another request", SOON, |_, requests| requests.len() > seen).await?;
        }
        world.service.kill_and_run().await?;
    }
    world.mine(3).await?;
    ensure!(world.customer.ledger().rows().len() == 24, "{}", world.customer.describe());
    world.ensure_balances_match().await
}

async fn down() -> Result<()> {
    let mut world = World::start("default = 2, MINI = 5", 8).await?;
    world.service.terminate().await?;
    let mut paid = Vec::new();
    // More blocks than reorgs reach: the first ones are read as settled history.
    for round in 1..=15 {
        paid.push(pay(&world.anvil, 1, ALICE, round).await?);
        world.anvil.transfer(&world.token, BOB, round).await?;
        world.anvil.mine(2).await?;
    }
    world.service.run().await?;
    world.mine(5).await?;
    for tx in &paid {
        ensure!(world.history(tx, 0) == [1], "{}", world.customer.describe());
    }
    ensure!(world.customer.ledger().rows().len() == 30);
    world.ensure_books_match().await
}

async fn node_down() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let section = chain(&anvil, &token, "default = 2", 8);
    // So that an outage shows soon.
    let section = section.line("limits = { requests_per_second = 5000, attempts = 2, request_timeout = \"300ms\" }");
    let config = Config::new().chain(section).sink(ledger(&customer));
    let mut world = World::of(anvil, token, customer, &config).await?;
    let first = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;

    // Down with a deposit that is not deep enough yet.
    world.anvil.stop().await?;
    let down = world.service.until_chain(NAME, "unreachable", |chain| chain["phase"] == "unreachable").await?;
    ensure!(down["detail"].is_string() && down["pending"] == 1, "{down}");
    ensure!(world.customer.receiver().requests().is_empty());
    world.anvil.resume().await?;
    world.mine(1).await?;
    ensure!(world.history(&first, 0) == [1]);

    // Restarted between two of our polls, with another deposit; confirmd is killed while the node is away.
    let second = pay(&world.anvil, 2, BOB, 7).await?;
    world.anvil.mine(1).await?;
    world.anvil.stop().await?;
    world.service.kill_and_run().await?;
    world.service.until_chain(NAME, "unreachable", |chain| chain["phase"] == "unreachable").await?;
    world.anvil.resume().await?;
    world.mine(1).await?;
    ensure!(world.history(&second, 0) == [1]);

    // It accepts connections and never answers.
    let third = pay(&world.anvil, 3, ALICE, 9).await?;
    world.anvil.mine(2).await?;
    world.anvil.process()?.signal("STOP")?;
    world.service.until_chain(NAME, "unreachable", |chain| chain["phase"] == "unreachable").await?;
    world.anvil.process()?.signal("CONT")?;
    world.told().await?;
    ensure!(world.history(&third, 0) == [1]);
    world.mine(1).await?;
    ensure!(world.customer.receiver().requests().len() == 3, "{}", world.customer.describe());
    let live = world.service.get("/readyz").await?;
    ensure!(live.0 == 200, "{live:?}");
    world.ensure_books_match().await
}

async fn second() -> Result<()> {
    let mut world = World::start("default = 1", 8).await?;
    let (code, _, stderr) = world.service.attempt(&["run", "--no-progress"]).await?;
    ensure!(code == Some(1) && stderr.contains("state"), "{code:?}: {stderr}");
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;
    ensure!(world.customer.history(CHAIN, &paid, 0) == [1]);
    world.service.terminate().await
}

async fn history() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let start = anvil.tip().await?.height + 1;
    let before = pay(&anvil, 1, ALICE, 1).await?;
    anvil.mine(1).await?;
    let ignored = anvil.position(&before).await?.context("not mined")?.block.height;
    for round in 1..=30 {
        pay(&anvil, 1, ALICE, round).await?;
        anvil.transfer(&token, BOB, round).await?;
        anvil.mine(20).await?;
    }
    ensure!(ignored == start);
    // The first payment lies below the start.
    let section = chain(&anvil, &token, "default = 2, MINI = 6", 8).line(&format!("start = {}", start + 1)).line("span_max = 7");
    let config = Config::new().chain(section.clone()).sink(ledger(&customer));
    let service = Service::start(&config).await?;
    let mut world = World { anvil, token, customer, service };
    // The node no longer has the states to trace old blocks. That is told, and nothing is passed over.
    let stuck = world.service.until_chain(NAME, "unreachable", |chain| chain["phase"] == "unreachable").await?;
    ensure!(stuck["detail"].as_str().is_some_and(|detail| detail.contains("trace")), "{stuck}");
    ensure!(world.customer.receiver().requests().is_empty() && stuck["tip"]["height"] == start, "{stuck}");
    world.service.terminate().await?;
    let section = section.line("internal_transfers = \"off\"");
    world.service.configure(&Config::new().chain(section).sink(ledger(&world.customer)))?;
    world.service.run().await?;
    for kills in 1..=4 {
        let wanted = 10 * kills;
        let more = world.customer.until("more history", SOON, |_, requests| requests.len() >= wanted).await;
        more.with_context(|| world.service.log())?;
        world.service.kill_and_run().await?;
    }
    world.mine(1).await?;
    ensure!(world.at(&before, 0).is_none() && world.customer.ledger().rows().len() == 60, "{}", world.customer.describe());
    world.customer.ensure_sound()?;
    world.ensure_rows_match().await?;
    let held = balance(&world.anvil, ALICE).await?;
    ensure!(credited(&world.customer, ALICE, ETH) + U256::ONE == held, "{}", world.customer.describe());
    ensure!(credited(&world.customer, BOB, &world.mini()) == token_balance(&world.anvil, &world.token, BOB).await?);
    Ok(())
}

async fn failover() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let (first, second) = (Switch::to(&anvil.url()).await?, Switch::to(&anvil.url()).await?);
    let endpoints = format!("rpc = [{{ url = \"{}\" }}, {{ url = \"{}\" }}]", first.url(), second.url());
    // With several endpoints a fork of equal length is waited for, since one of them may only be late.
    let section = chain(&anvil, &token, "default = 1", 8).line(&endpoints).line("fork_grace = \"300ms\"");
    let section = section.line("limits = { requests_per_second = 5000, attempts = 3, request_timeout = \"300ms\" }");
    let config = Config::new().chain(section).sink(ledger(&customer));
    let world = World::of(anvil, token, customer, &config).await?;
    let nowhere = Port::free()?;
    let nowhere = format!("http://127.0.0.1:{}", nowhere.number());
    let mut paid = Vec::new();
    for broken in [&first, &second, &first] {
        broken.turn_to(&nowhere);
        paid.push(pay(&world.anvil, 1, ALICE, 5).await?);
        world.mine(1).await?;
        broken.turn_to(&world.anvil.url());
    }
    let moved = pay(&world.anvil, 2, BOB, 7).await?;
    world.mine(1).await?;
    first.turn_to(&nowhere);
    world.anvil.reorg(1, &[(&moved, 0)]).await?;
    world.told().await?;
    ensure!(world.history(&moved, 0) == [1, 2, 3], "{}", world.customer.describe());
    for tx in &paid {
        ensure!(world.history(tx, 0) == [1], "{}", world.customer.describe());
    }
    world.ensure_books_match().await
}
