//! The drill of `docs/postgres.md` for a shared state: dumped, lost, put back.

use super::page;
use crate::evm_world::{ALICE, BOB, CHAIN, NAME};
use crate::postgres_sink::page::fenced;
use anyhow::{Result, ensure};
use e2e::{Postgres, SOON};

const DRILL: &str = "## Backup and restore of a shared state, as a drill";

pub(super) async fn restored() -> Result<()> {
    let mut shop = page::shop().await?;
    shop.pay(1, ALICE, 100).await?;
    shop.anvil.mine(2).await?;
    shop.told().await?;
    let folder = tempfile::tempdir()?;
    shop.cluster.shell(folder.path(), &fenced(DRILL, "sh", 0)?)?;

    // Life goes on: one deposit that is mined again, and one that is confirmed and taken back.
    let kept = shop.pay(1, ALICE, 20).await?;
    let moved = shop.pay(2, BOB, 3).await?;
    shop.anvil.mine(2).await?;
    shop.told().await?;
    shop.anvil.reorg(2, &[(&kept, 0)]).await?;
    shop.anvil.mine(3).await?;
    shop.told().await?;
    shop.ensure_right().await?;
    ensure!(shop.customer.history(CHAIN, &moved, 0) == [1, 2], "{}", shop.customer.describe());

    for service in &mut shop.services {
        service.terminate().await?;
    }
    shop.cluster.shell(folder.path(), &fenced(DRILL, "sh", 1)?)?;
    let reporting = shop.cluster.connect("reporting", Postgres::SUPERUSER.1, shop.database).await?;
    ensure!(reporting.query("select * from confirmd_state.deposits", &[]).await?.len() == 1, "another moment came back");
    // One of them, once.
    let first = shop.services[0].instance();
    first.run(&["--restored", "--no-progress"])?;
    first.stderr()?.wait_for("the start", SOON, |line| line.contains("confirmd runs")).await?;
    shop.services[1].run().await?;
    shop.services[2].run().await?;
    shop.told().await?;
    shop.pay(2, BOB, 9).await?;
    shop.anvil.mine(2).await?;
    shop.told().await?;
    shop.ensure_right().await?;
    let ask = "select count(distinct record::json->>'epoch') from confirmd_state.event";
    let epochs: i64 = shop.admin().await?.query_one(ask, &[]).await?.get(0);
    ensure!(epochs == 2, "{epochs} epochs");
    shop.services[1].until_chain(NAME, "following", |chain| chain["phase"] == "following").await.map(drop)
}
