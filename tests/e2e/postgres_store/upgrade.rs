//! One instance after the other becomes another version, in both directions, while the others go on.

use super::fleet::{PASSWORD_ENV, state};
use super::shop::{Shop, config};
use crate::evm_world::{ALICE, BOB, bare_chain};
use anyhow::{Context, Result, ensure};
use e2e::{Customer, Postgres, Service};
use libtest_mimic::Trial;
use std::path::PathBuf;

/// Names the binary of an earlier version.
const OLDER_ENV: &str = "CONFIRMD_E2E_OLDER_BINARY";

/// The trial with a real earlier version, where one is named.
pub(super) fn trial() -> Trial {
    let name = "postgres_store::g11_instances_of_an_earlier_version_are_replaced_one_after_the_other";
    let needs = &[e2e::Needs::Anvil, e2e::Needs::Postgres];
    match std::env::var_os(OLDER_ENV).map(PathBuf::from) {
        Some(older) => e2e::node_trial(name, needs, move || replaced(older)),
        None => Trial::test(name, || Ok(()))
            .with_kind("no earlier version: set CONFIRMD_E2E_OLDER_BINARY to one, see docs/postgres.md")
            .with_ignored_flag(true),
    }
}

async fn replaced(older: PathBuf) -> Result<()> {
    let anvil = e2e::Anvil::start().await?;
    anvil.mine(2).await?;
    let cluster = Postgres::start_with(&["max_connections=120"]).await?;
    let customer = Customer::start().await?;
    let configured = config(bare_chain(&anvil, "default = 2", 12), &cluster, &customer);
    let mut old = Vec::new();
    for _ in 0..3 {
        let mut service = Service::of_program(&older, &configured)?;
        service.instance().env(PASSWORD_ENV, Postgres::SUPERUSER.1);
        service.run().await?;
        old.push(service);
    }
    let mut shop = Shop { anvil, cluster, customer, services: Vec::new(), database: "postgres" };
    for (number, mut old) in old.into_iter().enumerate() {
        shop.pay(1, ALICE, 100).await?;
        shop.anvil.mine(2).await?;
        // The first in an orderly way, the others as they fall.
        match number {
            0 => old.terminate().await?,
            _ => drop(old.instance().kill()?),
        }
        let mut service = Service::new(&configured)?;
        service.instance().env(PASSWORD_ENV, Postgres::SUPERUSER.1);
        service.run().await?;
        let raw = shop.pay(2, BOB, 7).await?;
        shop.anvil.mine(2).await?;
        if number == 1 {
            shop.anvil.reorg(2, &[(&raw, 0)]).await?;
            shop.anvil.mine(3).await?;
        }
        shop.services.push(service);
    }
    shop.told().await?;
    shop.ensure_right().await
}

/// What a later version does to the schema, as far as an earlier one may notice: a migration on record that adds and takes nothing away.
const LATER: &str = "alter table confirmd_state.event add column later text;
    create table confirmd_state.later (what text);
    insert into confirmd_state.migration (part, version) values ('store', 99)";
const NOT_LATER: &str = "drop table confirmd_state.later; alter table confirmd_state.event drop column later;
    delete from confirmd_state.migration where version = 99";

pub(super) async fn later() -> Result<()> {
    let mut shop = Shop::usual().await?;
    shop.pay(1, ALICE, 5).await?;
    shop.anvil.mine(2).await?;
    shop.admin().await?.batch_execute(LATER).await?;
    // Those that run go on, also on new connections.
    for _ in 0..3 {
        shop.pay(1, ALICE, 7).await?;
        shop.anvil.mine(2).await?;
        shop.admin()
            .await?
            .batch_execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'confirmd%'")
            .await?;
    }
    shop.told().await?;
    // One that is started again is refused, and says what to do; the others are not disturbed.
    shop.services[0].terminate().await?;
    let (code, _, said) = shop.services[0].attempt(&["run"]).await?;
    ensure!(code == Some(1) && said.contains("version 99") && said.contains("newer"), "{code:?}: {said}");
    shop.pay(2, BOB, 9).await?;
    shop.anvil.mine(2).await?;
    let tip = shop.anvil.tip().await?;
    for service in shop.services.iter().skip(1) {
        service.until_told(crate::evm_world::NAME, &tip).await?;
    }
    // Back again.
    shop.admin().await?.batch_execute(NOT_LATER).await?;
    shop.services[0].run().await?;
    shop.pay(2, BOB, 11).await?;
    shop.anvil.mine(2).await?;
    shop.told().await?;
    shop.ensure_right().await
}

/// Instances of different builds differ in what they are told as well: one polls slowly, one knows a deeper policy, one is told of no address.
pub(super) async fn differing() -> Result<()> {
    let mut shop = Shop::usual().await?;
    let url = shop.cluster.url(Postgres::SUPERUSER.0, "postgres");
    for round in 0..3_u64 {
        for number in 0..3 {
            let chain = bare_chain(&shop.anvil, "default = 2", 12);
            let chain = match (u64::try_from(number)? + round) % 3 {
                0 => chain.line("poll_interval = \"400ms\""),
                1 => chain.line("fork_grace = \"1s\""),
                _ => chain,
            };
            shop.services[number].terminate().await?;
            let sink = crate::evm_world::ledger(&shop.customer);
            shop.services[number].configure(&e2e::Config::new().chain(chain).sink(sink).state(&state(&url)))?;
            shop.pay(1, ALICE, 100).await?;
            shop.anvil.mine(1).await?;
            shop.services[number].run().await.context("started with another configuration")?;
        }
    }
    shop.anvil.mine(2).await?;
    shop.told().await?;
    shop.ensure_right().await
}
