//! Exports while instances work.

use super::desk::{export, import, in_postgres, lines, place, refused, running, text, verify};
use crate::evm_world::{ALICE, BOB, NAME, World, bare_chain, ledger, pay};
use anyhow::{Result, ensure};
use e2e::{Anvil, Config, Customer, Postgres};

pub(super) async fn one_moment() -> Result<()> {
    let mut world = World::start("default = 2", 4).await?;
    let mut dumps = Vec::new();
    for round in 0..6_usize {
        let name = format!("dump-{round}");
        let (dump, worked) = tokio::join!(export(&world.service, &name), async {
            for number in 0..8 {
                pay(&world.anvil, 1 + number % 3, if number % 2 == 0 { ALICE } else { BOB }, 5).await?;
                world.anvil.mine(1).await?;
            }
            if round == 3 {
                world.anvil.reorg(2, &[]).await?;
                world.anvil.mine(3).await?;
            }
            anyhow::Ok(())
        });
        worked?;
        dumps.push(dump?);
        world.told().await?;
    }
    let config = Config::new().chain(bare_chain(&world.anvil, "default = 2", 4)).sink(ledger(&world.customer));
    for dump in &dumps {
        ensure!(running(dump)?, "{} says that nothing ran", dump.display());
        let copy = place(&config)?;
        refused(&copy, dump, &[], &["while an instance ran", "Stop the instance", "--restored"]).await?;
        import(&copy, dump, &["--restored"]).await?;
        verify(&copy).await?;
    }
    // Through stdout it is the same; nothing happens meanwhile.
    let stdout = world.service.command(&["state", "export", "-"]).await?;
    let file = export(&world.service, "last").await?;
    ensure!(stdout.lines().skip(1).eq(lines(&file)?.iter().skip(1)), "stdout got another dump");
    ensure!(std::fs::metadata(&file)?.len() > 1_000, "a short dump");
    world.ensure_rows_match().await?;

    // An old copy goes on under a new epoch: whoever follows the rule books nothing twice.
    world.service.terminate().await?;
    let mut copy = place(&config)?;
    import(&copy, &dumps[1], &["--restored"]).await?;
    copy.instance().env("CONFIRMD_LOG", "info");
    copy.run().await?;
    world.service = copy;
    pay(&world.anvil, 1, ALICE, 7).await?;
    world.mine(3).await?;
    world.customer.ensure_sound()?;
    world.ensure_rows_match().await
}

pub(super) async fn shared() -> Result<()> {
    let anvil = Anvil::start().await?;
    anvil.mine(2).await?;
    let (cluster, customer) = (Postgres::start().await?, Customer::start().await?);
    let config = in_postgres(Config::new().chain(bare_chain(&anvil, "default = 2", 12)).sink(ledger(&customer)), &cluster);
    let (mut works, looks) = (place(&config)?, place(&config)?);
    works.run().await?;
    pay(&anvil, 1, ALICE, 5).await?;
    anvil.mine(3).await?;
    works.until_told(NAME, &anvil.tip().await?).await?;
    // From a machine where none runs.
    ensure!(running(&export(&looks, "while").await?)?, "another instance was not seen");
    works.terminate().await?;
    let after = export(&looks, "after").await?;
    ensure!(!running(&after)?, "an instance that has stopped was seen");
    let (code, _, said) = looks.attempt(&["state", "import", text(&after)?]).await?;
    ensure!(code == Some(1) && said.contains("holds a state already") && said.contains("state.schema"), "{said}");
    verify(&looks).await
}
