//! The drill of `docs/postgres.md`: the operator's database is put back to an earlier moment, the state is whole.

use super::bench::DATABASE;
use super::service::{Shop, begin_anew, config, section, shop};
use crate::evm_world::{ALICE, BOB, NAME, bare_chain, pay};
use anyhow::{Context, Result};
use e2e::Config;
use std::path::Path;
use tempfile::TempDir;

/// The database as it is now, in a file.
async fn backup(shop: &Shop, folder: &Path) -> Result<String> {
    let file = folder.join("dump");
    std::fs::write(&file, shop.cluster.tool("pg_dump", &["-Fc", DATABASE])?)?;
    Ok(file.to_str().context("a path")?.to_owned())
}

async fn put_back(shop: &Shop, file: &str) -> Result<()> {
    shop.admin().await?.batch_execute("drop schema confirmd cascade; drop schema ledger cascade").await?;
    shop.cluster.tool("pg_restore", &["-d", DATABASE, file]).map(drop)
}

/// A shop that had a customer, and its backup in a folder.
async fn backed_up() -> Result<(Shop, TempDir, String)> {
    let shop: Shop = shop().await?;
    shop.pay(ALICE, 100).await?;
    shop.told().await?;
    let folder = tempfile::tempdir()?;
    let file = backup(&shop, folder.path()).await?;
    Ok((shop, folder, file))
}

pub(super) async fn told_again() -> Result<()> {
    let (mut shop, _folder, file) = backed_up().await?;

    // Life goes on: new deposits, and one that is taken back.
    shop.pay(ALICE, 20).await?;
    pay(&shop.anvil, 2, BOB, 3).await?;
    shop.anvil.mine(2).await?;
    shop.told().await?;
    shop.anvil.reorg(2, &[]).await?;
    shop.pay(BOB, 9).await?;
    shop.told().await?;
    shop.ensure_right().await?;

    shop.service.terminate().await?;
    put_back(&shop, &file).await?;
    // What came after the dump is delivered: it does not come by itself.
    shop.service.command(&["consumer", "purge", "ledger", "--yes"]).await?;
    let chain = bare_chain(&shop.anvil, "default = 2", 12);
    shop.service.configure(&Config::new().chain(chain).sink(section(&shop.cluster).line("start = \"beginning\"")))?;
    shop.service.run().await?;
    shop.told().await?;
    shop.ensure_right().await?;
    shop.pay(BOB, 1).await?;
    shop.told().await?;
    // The key may stay or go.
    shop.service.terminate().await?;
    shop.service.configure(&config(&shop.anvil, &shop.cluster))?;
    shop.service.run().await?;
    shop.pay(ALICE, 2).await?;
    shop.service.until_told(NAME, &shop.anvil.tip().await?).await?;
    shop.ensure_right().await
}

/// Events since the backup are older than history: a new state reads the chain from its beginning.
pub(super) async fn told_anew() -> Result<()> {
    let (mut shop, _folder, file) = backed_up().await?;
    shop.pay(ALICE, 20).await?;
    shop.pay(BOB, 9).await?;
    // Settled and forgotten.
    shop.anvil.mine(20).await?;
    shop.told().await?;
    shop.service.terminate().await?;
    put_back(&shop, &file).await?;
    let state = shop.service.instance_dir().join("state");
    std::fs::rename(&state, shop.service.instance_dir().join("away"))?;
    let chain = bare_chain(&shop.anvil, "default = 2", 12).line("start = 1");
    shop.service.configure(&Config::new().chain(chain).sink(section(&shop.cluster)))?;
    begin_anew(&mut shop).await?;
    shop.ensure_right().await?;
    shop.pay(BOB, 1).await?;
    shop.told().await?;
    shop.ensure_right().await
}
