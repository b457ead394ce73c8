//! `docs/postgres.md` is true: its roles suffice, its queries answer.

use super::bench::{PASSWORD, PASSWORD_ENV};
use crate::evm_world::{ALICE, BOB, NAME, balance, bare_chain, pay};
use anyhow::{Context, Result, ensure};
use e2e::{Anvil, Config, Postgres, Service, SinkSection, workspace_root};
use tokio_postgres::Client;

/// The statements of a block of the page, each with the comment above it: the n-th block of SQL below a heading, from 0.
pub(crate) fn block(heading: &str, number: usize) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(workspace_root().join("docs/postgres.md")).context("read the page")?;
    let (_, below) = page.split_once(&format!("\n{heading}\n")).with_context(|| format!("the page has no {heading}"))?;
    let below = below.split("\n## ").next().unwrap_or_default();
    let block = below.split("```sql\n").skip(1).nth(number).and_then(|rest| rest.split("```").next());
    let block = block.with_context(|| format!("{heading} has no block {number}"))?;
    let mut statements = vec![String::new()];
    for line in block.lines() {
        let code = line.split("--").next().unwrap_or_default().trim_end();
        let last = statements.last_mut().context("a statement")?;
        last.push_str(line);
        last.push('\n');
        if code.ends_with(';') {
            statements.push(String::new());
        }
    }
    Ok(statements.into_iter().filter(|statement| statement.contains(';')).collect())
}

/// The statement whose comment says this.
pub(crate) fn about<'a>(statements: &'a [String], says: &str) -> Result<&'a str> {
    let found = statements.iter().find(|statement| statement.contains(says));
    found.map(String::as_str).with_context(|| format!("the page has no statement about {says:?}"))
}

/// Today and tomorrow instead of the dates of the page.
pub(crate) async fn of_today(admin: &Client, statement: &str) -> Result<String> {
    let row = admin.query_one("select current_date::text, (current_date + 1)::text", &[]).await?;
    Ok(statement.replace("2026-01-31", row.get(0)).replace("2026-02-01", row.get(1)))
}

/// The operator's side as the page supposes it.
const LEDGER: &str = "
create schema ledger;
create table ledger.account (name text primary key, balance numeric not null default 0);
create function ledger.credit(event text, account text, asset text, amount numeric) returns void
language sql security definer set search_path = ledger as $$
    insert into account as a values ($2, $4) on conflict (name) do update set balance = a.balance + excluded.balance $$;
create function ledger.debit(event text, account text, asset text, amount numeric) returns void
language sql security definer set search_path = ledger as $$ update account set balance = balance - $4 where name = $2 $$;
revoke all on all functions in schema ledger from public;
create role reporting login password 'correct-horse-battery';";

fn section(cluster: &Postgres) -> SinkSection {
    SinkSection::of_kind("ledger", "postgres")
        .retry(&["50ms"; 90])
        .line(&format!("url = \"{}\"", cluster.url("confirmd", "shop")))
        .line(&format!("password = {{ env = \"{PASSWORD_ENV}\" }}"))
        .line("on_confirmed = \"select ledger.credit($1, $9, $11, $14)\"")
        .line("on_reverted = \"select ledger.debit($1, $9, $11, $14)\"")
}

pub(super) async fn holds() -> Result<()> {
    let anvil = Anvil::start().await?;
    anvil.mine(2).await?;
    let cluster = Postgres::start().await?;
    cluster.admin("postgres").await?.batch_execute("create database shop").await?;
    let admin = cluster.admin("shop").await?;
    admin.batch_execute(LEDGER).await.context("make the operator's ledger")?;
    let roles = block("## Roles", 0)?;
    let after = roles.iter().position(|statement| statement.contains("After the first start")).context("what comes after")?;
    for statement in roles.iter().take(after) {
        admin.batch_execute(&statement.replace('…', PASSWORD)).await.with_context(|| statement.clone())?;
    }
    let config = Config::new().chain(bare_chain(&anvil, "default = 2", 12)).sink(section(&cluster));
    let mut service = Service::new(&config)?;
    service.instance().env(PASSWORD_ENV, PASSWORD);
    service.run().await?;
    service.until_tip(NAME, &anvil.tip().await?).await?;
    for statement in roles.iter().skip(after) {
        admin.batch_execute(statement).await.with_context(|| statement.clone())?;
    }
    service.terminate().await?;
    service.run().await.context("without the right to create")?;
    pay(&anvil, 1, ALICE, 250).await?;
    anvil.mine(3).await?;
    let gone = pay(&anvil, 2, BOB, 7).await?;
    anvil.mine(2).await?;
    service.until_told(NAME, &anvil.tip().await?).await?;
    anvil.reorg(2, &[]).await?;
    anvil.mine(2).await?;
    service.until_told(NAME, &anvil.tip().await?).await?;

    let reporting = cluster.connect("reporting", PASSWORD, "shop").await?;
    let queries = block("## Queries", 0)?;
    for query in &queries {
        reporting.simple_query(&of_today(&admin, query).await?).await.with_context(|| query.clone())?;
    }
    let standing = reporting.query(about(&queries, "Credited and standing")?.trim(), &[]).await?;
    ensure!(standing.len() == 1 && standing[0].get::<_, &str>("reference") == "alice", "{standing:?}");
    let sum = format!(
        "select sum(base_units)::text from ({}) as q",
        about(&queries, "Credited and standing")?.trim().trim_end_matches(';')
    );
    ensure!(reporting.query_one(&sum, &[]).await?.get::<_, String>(0) == balance(&anvil, ALICE).await?.to_string());
    let day = of_today(&admin, about(&queries, "Deposits of a day")?).await?;
    ensure!(reporting.query(&day, &[]).await?.len() == 2);
    let taken_back = reporting.query(about(&queries, "What was taken back")?, &[]).await?;
    ensure!(taken_back.len() == 1 && taken_back[0].get::<_, &str>("tx_id") == gone, "{taken_back:?}");
    let life = about(&queries, "The whole life")?.replace("0x…", &gone);
    ensure!(reporting.query(&life, &[]).await?.len() == 2);
    ensure!(reporting.query(about(&queries, "How far each consumer")?, &[]).await?.len() == 1);
    ensure!(reporting.batch_execute("delete from confirmd.event").await.is_err(), "who reads may write");
    let row = admin.query_one("select sum(balance)::text from ledger.account", &[]).await?;
    ensure!(row.get::<_, String>(0) == "250", "{row:?}");
    // Retention as on the page: nothing is old enough to go.
    let before: i64 = admin.query_one("select count(*) from confirmd.event", &[]).await?.get(0);
    let retention = block("## Retention", 0)?;
    admin.batch_execute(&retention.concat()).await.context("retention")?;
    ensure!(admin.query_one("select count(*) from confirmd.event", &[]).await?.get::<_, i64>(0) == before);
    // Everything is: each deposit's last event stays.
    admin.batch_execute(&retention.concat().replace("interval '2 years'", "interval '-1 second'")).await?;
    ensure!(admin.query_one("select count(*) from confirmd.event", &[]).await?.get::<_, i64>(0) == 2);
    Ok(())
}
