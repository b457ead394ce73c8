//! A state moves from its folder into PostgreSQL and back, with deposits in every part of their lives.

use super::desk::{count, export, import, in_postgres, place, running, same, verify};
use crate::evm_world::{ALICE, BOB, NAME, World, chain, pay, stage};
use anyhow::{Context, Result, ensure};
use confirmd_testkit::receiver::Behaviour;
use e2e::{Config, Postgres, SinkSection};

pub(super) async fn there_and_back() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let sink = SinkSection::webhook("ledger", &customer.url()).retry(&["50ms", "50ms"]);
    let config = Config::new().chain(chain(&anvil, &token, "default = 2", 12)).sink(sink);
    let cluster = Postgres::start().await?;
    let mut world = World::of(anvil, token, customer, &config).await?;

    // One is settled, one reported, one given up by the schedule, one taken back, one pending.
    let settled = pay(&world.anvil, 1, ALICE, 11).await?;
    world.mine(16).await?;
    let gone = pay(&world.anvil, 2, BOB, 3).await?;
    world.mine(2).await?;
    world.anvil.reorg(2, &[]).await?;
    world.mine(3).await?;
    let reported = pay(&world.anvil, 3, BOB, 13).await?;
    world.mine(2).await?;
    world.customer.receiver().always(Behaviour::Status(500));
    let failed = pay(&world.anvil, 4, ALICE, 17).await?;
    world.anvil.mine(2).await?;
    world.service.until_consumer("ledger", "a dead letter", |ledger| ledger["dead"] == 1).await?;
    let pending = pay(&world.anvil, 5, BOB, 19).await?;
    let tip = world.anvil.mine(1).await.and(world.anvil.tip().await)?;
    world.service.until_tip(NAME, &tip).await?;
    world.service.terminate().await?;
    let first = export(&world.service, "first").await?;
    ensure!(!running(&first)?, "the dump says that an instance ran");
    for kind in ["pending", "reported", "orphaned", "archived", "open", "attempt", "reorg", "event", "deposit", "step"] {
        ensure!(count(&first, kind)? > 0, "the dump has no {kind}");
    }

    // Into PostgreSQL; there the dead letter is delivered, and what was pending is confirmed.
    let mut there = place(&in_postgres(config.clone(), &cluster))?;
    import(&there, &first, &[]).await?;
    verify(&there).await?;
    same(&first, &export(&there, "second").await?)?;
    world.customer.receiver().behave();
    there.run().await?;
    world.service = there;
    world.service.command(&["deliveries", "requeue", "ledger", "--all-dead"]).await?;
    world.mine(1).await?;
    for (tx, told) in [(&settled, vec![1]), (&gone, vec![1, 2]), (&reported, vec![1]), (&failed, vec![1]), (&pending, vec![1])] {
        ensure!(world.history(tx, 0) == told, "{tx}: {:?}, not {told:?}", world.history(tx, 0));
    }
    // A reorg takes back what was reported before the move, and brings one of it again.
    let height = world.anvil.position(&reported).await?.context("the payment is not on the chain")?.block.height;
    world.anvil.reorg(world.anvil.tip().await?.height - height + 1, &[(&failed, 1)]).await?;
    world.mine(3).await?;
    ensure!(world.history(&reported, 0) == [1, 2], "{:?}", world.history(&reported, 0));
    ensure!(world.history(&failed, 0) == [1, 2, 3], "{:?}", world.history(&failed, 0));
    ensure!(world.history(&pending, 0) == [1, 2], "{:?}", world.history(&pending, 0));
    world.ensure_books_match().await?;

    // And back into a folder.
    pay(&world.anvil, 1, ALICE, 23).await?;
    world.anvil.mine(1).await?;
    world.service.until_tip(NAME, &world.anvil.tip().await?).await?;
    world.service.terminate().await?;
    let third = export(&world.service, "third").await?;
    ensure!(!running(&third)?, "the dump says that an instance ran");
    let mut back = place(&config)?;
    import(&back, &third, &[]).await?;
    verify(&back).await?;
    same(&third, &export(&back, "fourth").await?)?;
    back.run().await?;
    world.service = back;
    world.mine(2).await?;
    let height = world.anvil.position(&failed).await?.context("the payment is not on the chain")?.block.height;
    world.anvil.reorg(world.anvil.tip().await?.height - height + 1, &[]).await?;
    world.mine(3).await?;
    ensure!(world.history(&failed, 0) == [1, 2, 3, 4], "{:?}", world.history(&failed, 0));
    ensure!(world.history(&settled, 0) == [1], "{:?}", world.history(&settled, 0));
    world.service.kill_and_run().await?;
    world.mine(1).await?;
    world.ensure_books_match().await
}
