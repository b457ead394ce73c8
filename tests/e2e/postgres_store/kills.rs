//! Instances that are killed, stopped and continued; a server that is restarted; the time it takes.

use super::fleet::LEASE;
use super::shop::Shop;
use crate::evm_world::{ALICE, BOB, CHAIN, bare_chain};
use anyhow::{Result, ensure};
use e2e::{SOON, Switch};
use std::time::{Duration, Instant};

/// Far above what a turn takes to pass on.
const TAKE_OVER_MAX: Duration = Duration::from_secs(10);

pub(super) async fn storm() -> Result<()> {
    let mut shop = Shop::usual().await?;
    for round in 0..10_usize {
        shop.pay(1, ALICE, 100 + u128::try_from(round)?).await?;
        let raw = shop.pay(2, BOB, 7).await?;
        shop.anvil.mine(2).await?;
        tokio::time::sleep(Duration::from_millis(13 * u64::try_from(round)?)).await;
        match round % 5 {
            // Whoever reads, and whoever does not.
            0 | 3 => {
                let busy = shop.busy().unwrap_or(round % 3);
                shop.services[busy].kill_and_run().await?;
            }
            1 => shop.services[round % 3].kill_and_run().await?,
            2 => {
                let busy = shop.busy().unwrap_or(round % 3);
                shop.services[busy].instance().signal("STOP")?;
                shop.pay(1, ALICE, 3).await?;
                shop.anvil.mine(2).await?;
                // Past its turn and its leases; then it goes on where it stood.
                tokio::time::sleep(LEASE + Duration::from_secs(2)).await;
                shop.services[busy].instance().signal("CONT")?;
            }
            _ => {
                shop.cluster.kill()?;
                shop.cluster.start_again().await?;
            }
        }
        if round == 5 {
            shop.anvil.reorg(2, &[(&raw, 0)]).await?;
            shop.anvil.mine(3).await?;
        }
    }
    // One instance after the other is replaced, as in an upgrade.
    for number in 0..3 {
        shop.services[number].terminate().await?;
        shop.pay(1, BOB, 11).await?;
        shop.anvil.mine(2).await?;
        shop.services[number].run().await?;
    }
    shop.told().await?;
    shop.ensure_right().await
}

pub(super) async fn take_over() -> Result<()> {
    let mut shop = Shop::usual().await?;
    let mut took = Vec::new();
    for round in 0..6 {
        let busy = shop.busy()?;
        shop.services[busy].instance().kill()?;
        let killed = Instant::now();
        let paid = shop.pay(1, ALICE, 5).await?;
        shop.anvil.mine(2).await?;
        shop.customer.until_at(CHAIN, &paid, 0, (1, true), SOON).await?;
        took.push(killed.elapsed());
        ensure!(killed.elapsed() < TAKE_OVER_MAX, "round {round}: {took:?}");
        shop.services[busy].run().await?;
    }
    took.sort();
    eprintln!("from killing the busy instance to the next delivered decision: {took:?}");
    shop.told().await?;
    shop.ensure_right().await
}

pub(super) async fn blind() -> Result<()> {
    let dead = Switch::to("http://127.0.0.1:9").await?;
    let url = dead.url();
    let shop = Shop::open(|anvil, number| {
        let chain = bare_chain(anvil, "default = 2", 12);
        if number == 0 { chain.line(&format!("rpc = [{{ url = \"{url}\" }}]")) } else { chain }
    })
    .await?;
    for _ in 0..4 {
        let paid = shop.pay(1, BOB, 9).await?;
        shop.anvil.mine(2).await?;
        shop.customer.until_at(CHAIN, &paid, 0, (1, true), SOON).await?;
    }
    shop.told().await?;
    shop.ensure_right().await
}
