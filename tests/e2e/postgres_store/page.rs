//! `docs/postgres.md` is true of a shared state: its roles suffice, its queries answer.

use super::fleet;
use super::shop::Shop;
use crate::evm_world::{ALICE, BOB, balance, bare_chain, ledger};
use crate::postgres_sink::page::{about, block, configured, of_today, run};
use anyhow::{Context, Result, ensure};
use e2e::{Anvil, Config, Postgres};
use tokio_postgres::Client;

/// The operator's side as the page supposes it.
const LEDGER: &str = "
create schema ledger;
create table ledger.told (event jsonb not null);
create function ledger.apply(event jsonb) returns void
language sql security definer set search_path = ledger as $$ insert into ledger.told values (event) $$;
revoke all on all functions in schema ledger from public;";

/// The database of the page, as strict as an operator may be, with its roles but those who read.
pub(super) async fn prepared(cluster: &Postgres) -> Result<Client> {
    cluster.admin("postgres").await?.batch_execute("create database confirmd").await?;
    let admin = cluster.admin("confirmd").await?;
    admin.batch_execute(LEDGER).await.context("make the operator's ledger")?;
    admin.batch_execute("revoke all on database confirmd from public").await?;
    run(&admin, &roles(false)?, Postgres::SUPERUSER.1).await?;
    Ok(admin)
}

/// The statements about roles, before or after the first start.
pub(super) fn roles(after: bool) -> Result<Vec<String>> {
    let mut first = block("## Roles of a shared state", 0)?;
    let at = first.iter().position(|statement| statement.contains("After the first start")).context("what comes after")?;
    let rest = first.split_off(at);
    Ok(if after { rest } else { first })
}

/// The page's `[state]`; the password stands where that of all trials stands.
pub(super) fn state(cluster: &Postgres) -> Result<String> {
    let lines = configured("# A state that instances share", cluster, &["path", "lease"])?.join("\n");
    Ok(format!("{}\nlease = \"3s\"\n", lines.replace("CONFIRMD_STATE_PASSWORD", fleet::PASSWORD_ENV)))
}

/// Three instances by the page's roles and configuration.
pub(super) async fn shop() -> Result<Shop> {
    let anvil = Anvil::start().await?;
    anvil.mine(2).await?;
    let cluster = Postgres::start_with(&["max_connections=120"]).await?;
    let admin = prepared(&cluster).await?;
    let section = state(&cluster)?;
    ensure!(section.contains("on_event") && section.contains("/confirmd\""), "{section}");
    let shop = Shop::of(anvil, cluster, |anvil, _, customer, _| {
        Config::new().chain(bare_chain(anvil, "default = 2", 12)).sink(ledger(customer)).state(&section)
    });
    let shop = Shop { database: "confirmd", ..shop.await? };
    run(&admin, &roles(true)?, Postgres::SUPERUSER.1).await?;
    Ok(shop)
}

pub(super) async fn holds() -> Result<()> {
    let shop = shop().await?;
    let admin = shop.admin().await?;
    shop.pay(1, ALICE, 250).await?;
    shop.anvil.mine(3).await?;
    let gone = shop.pay(2, BOB, 7).await?;
    shop.anvil.mine(2).await?;
    shop.told().await?;
    // Taken back, credited again, and taken back for good.
    shop.anvil.reorg(2, &[(&gone, 0)]).await?;
    shop.anvil.mine(3).await?;
    shop.told().await?;
    let height = shop.anvil.position(&gone).await?.context("the payment is not on the chain")?.block.height;
    shop.anvil.reorg(shop.anvil.tip().await?.height - height + 1, &[]).await?;
    shop.anvil.mine(2).await?;
    let pending = shop.pay(3, ALICE, 1).await?;
    shop.anvil.mine(1).await?;
    shop.told().await?;

    let reporting = shop.cluster.connect("reporting", Postgres::SUPERUSER.1, "confirmd").await?;
    let queries = block("## Queries on a shared state", 0)?;
    for query in &queries {
        reporting.simple_query(&of_today(&admin, query).await?).await.with_context(|| query.clone())?;
    }
    let standing = about(&queries, "Credited and standing")?.trim().trim_end_matches(';').to_owned();
    let rows = reporting.query(&standing, &[]).await?;
    ensure!(rows.len() == 1 && rows[0].get::<_, &str>("reference") == "alice", "{rows:?}");
    let sum: String = reporting.query_one(&format!("select sum(base_units)::text from ({standing}) as q"), &[]).await?.get(0);
    ensure!(sum == "250" && balance(&shop.anvil, ALICE).await?.to_string() == "251", "{sum}");
    let day = of_today(&admin, about(&queries, "Deposits of a day")?).await?;
    ensure!(reporting.query(&day, &[]).await?.len() == 3);
    let waiting = reporting.query(about(&queries, "What is pending")?, &[]).await?;
    ensure!(waiting.len() == 1 && waiting[0].get::<_, &str>("tx_id") == pending, "{waiting:?}");
    let taken_back = reporting.query(about(&queries, "What was taken back")?, &[]).await?;
    ensure!(taken_back.len() == 1 && taken_back[0].get::<_, &str>("tx_id") == gone, "{taken_back:?}");
    ensure!(reporting.query(about(&queries, "Who has not got")?, &[]).await?.is_empty());
    ensure!(reporting.query("select * from confirmd_state.event", &[]).await.is_err(), "who reads may read everything");
    // Each decision took effect once, in its own transaction.
    let row =
        admin.query_one("select (select count(*) from ledger.told), (select count(*) from confirmd_state.event)", &[]).await?;
    ensure!(row.get::<_, i64>(0) == 5 && row.get::<_, i64>(1) == 5, "{row:?}");
    shop.anvil.mine(1).await?;
    shop.told().await?;
    shop.ensure_right().await
}
