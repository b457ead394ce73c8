//! Both at once: a shared state, and a sink into the operator's own ledger from three instances, whoever is killed, stopped or gone.

use super::fleet::{self, LEASE, state};
use super::shop::Shop;
use crate::evm_world::{ALICE, BOB, balance, bare_chain};
use crate::postgres_sink::bench::{DATABASE, ROLE, prepared};
use crate::postgres_sink::service::section;
use anyhow::{Result, ensure};
use e2e::{Anvil, Config, Postgres};
use std::time::Duration;

pub(super) async fn storm() -> Result<()> {
    let anvil = Anvil::start().await?;
    anvil.mine(2).await?;
    let cluster = prepared(Postgres::start_with(&["max_connections=120"]).await?).await?;
    // One variable holds the password of both.
    let word = format!("alter role {ROLE} password '{}'", Postgres::SUPERUSER.1);
    cluster.admin("postgres").await?.batch_execute(&word).await?;
    let mut shop = Shop::of(anvil, cluster, |anvil, cluster, _, _| {
        let state = state(&cluster.url(Postgres::SUPERUSER.0, "postgres"));
        Config::new().chain(bare_chain(anvil, "default = 2", 12)).sink(section(cluster)).state(&state)
    })
    .await?;
    for round in 0..12_u64 {
        for wei in 0..6 {
            shop.pay(1, ALICE, 100 + u128::from(round * 10 + wei)).await?;
        }
        let raw = shop.pay(2, BOB, 7).await?;
        shop.anvil.mine(2).await?;
        tokio::time::sleep(Duration::from_millis(11 * round)).await;
        let number = usize::try_from(round % 3)?;
        match round % 4 {
            0 => shop.services[number].kill_and_run().await?,
            1 => {
                shop.services[number].instance().signal("STOP")?;
                shop.pay(1, ALICE, 3).await?;
                shop.anvil.mine(2).await?;
                tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
                shop.services[number].instance().signal("CONT")?;
            }
            2 => {
                shop.services[number].instance().kill()?;
                shop.cluster.kill()?;
                shop.cluster.start_again().await?;
                shop.services[number].run().await?;
            }
            _ => {
                let cut = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'confirmd%'";
                shop.admin().await?.batch_execute(cut).await?;
            }
        }
        if round == 5 {
            shop.anvil.reorg(2, &[(&raw, 0)]).await?;
            shop.anvil.mine(3).await?;
        }
    }
    shop.told().await?;
    let admin = shop.cluster.admin(DATABASE).await?;
    for (address, account) in [(ALICE, "alice"), (BOB, "bob")] {
        let on_chain = balance(&shop.anvil, address).await?.to_string();
        let ask = "select coalesce((select sum(amount) from ledger.posting where account = $1), 0)::text";
        let booked: String = admin.query_one(ask, &[&account]).await?.get(0);
        ensure!(on_chain == booked, "{account}: chain {on_chain}, ledger {booked}");
    }
    let twice = admin.query("select event_id from ledger.posting group by 1 having count(*) > 1", &[]).await?;
    ensure!(twice.is_empty(), "posted twice: {twice:?}");
    fleet::ensure_events(&shop.admin().await?).await
}
