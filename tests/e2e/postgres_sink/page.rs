//! `docs/postgres.md` is true: its roles suffice, its queries answer.

use super::bench::PASSWORD;
use crate::evm_world::{ALICE, BOB, NAME, balance, bare_chain, pay};
use anyhow::{Context, Result, ensure};
use e2e::{Anvil, Config, Postgres, Service, SinkSection, workspace_root};
use tokio_postgres::Client;

/// A fenced block of the page, word for word: the n-th one in this language below a heading, from 0.
pub(crate) fn fenced(heading: &str, language: &str, number: usize) -> Result<String> {
    let page = std::fs::read_to_string(workspace_root().join("docs/postgres.md")).context("read the page")?;
    let page = format!("\n{page}");
    let (_, below) = page.split_once(&format!("\n{heading}\n")).with_context(|| format!("the page has no {heading}"))?;
    let below = below.split("\n## ").next().unwrap_or_default();
    let block = below.split(&format!("```{language}\n")).skip(1).nth(number).and_then(|rest| rest.split("```").next());
    block.map(str::to_owned).with_context(|| format!("{heading} has no block {number} of {language}"))
}

/// The statements of a block of SQL, each with the comment above it.
pub(crate) fn block(heading: &str, number: usize) -> Result<Vec<String>> {
    let mut statements = vec![String::new()];
    for line in fenced(heading, "sql", number)?.lines() {
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

/// The lines of a block of a configuration that this machine can't have otherwise: the server is ours, on loopback and without TLS.
pub(crate) fn configured(heading: &str, cluster: &Postgres, without: &[&str]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for line in fenced(heading, "toml", 0)?.lines().filter(|line| !line.starts_with('[')) {
        let key = line.split('=').next().unwrap_or_default().trim();
        if without.contains(&key) {
            continue;
        }
        // postgres://USER@HOST/DATABASE?OPTIONS
        let url = line.split_once("\"postgres://").and_then(|(_, rest)| rest.split_once('@'));
        let url = url.and_then(|(user, rest)| Some((user, rest.split_once('/')?.1.split(['?', '"']).next()?)));
        lines.push(match url {
            Some((user, database)) => format!("url = \"{}\"", cluster.url(user, database)),
            None => line.to_owned(),
        });
    }
    ensure!(lines.iter().any(|line| line.contains("127.0.0.1")), "{heading} names no server: {lines:?}");
    Ok(lines)
}

/// The block's statements, one after the other; the password takes the place of the dots.
pub(crate) async fn run(admin: &Client, statements: &[String], password: &str) -> Result<()> {
    for statement in statements {
        admin.batch_execute(&statement.replace('…', password)).await.with_context(|| statement.clone())?;
    }
    Ok(())
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
revoke all on all functions in schema ledger from public;";

/// The section of the page.
fn section(name: &str, cluster: &Postgres) -> Result<SinkSection> {
    let lines = configured("# PostgreSQL", cluster, &["kind", "ca_file"])?;
    let section = SinkSection::of_kind(name, "postgres").retry(&["50ms"; 90]);
    Ok(lines.iter().fold(section, |section, line| section.line(line)))
}

pub(super) async fn holds() -> Result<()> {
    let anvil = Anvil::start().await?;
    anvil.mine(2).await?;
    let cluster = Postgres::start().await?;
    cluster.admin("postgres").await?.batch_execute("create database shop").await?;
    let admin = cluster.admin("shop").await?;
    admin.batch_execute(LEDGER).await.context("make the operator's ledger")?;
    // As strict as an operator may be.
    admin.batch_execute("revoke all on database shop from public").await?;
    run(&admin, &block("## Roles", 0)?, PASSWORD).await?;
    let config = |name: &str| -> Result<Config> {
        Ok(Config::new().chain(bare_chain(&anvil, "default = 2", 12)).sink(section(name, &cluster)?))
    };
    let mut service = Service::new(&config("ledger")?)?;
    service.instance().env("LEDGER_DB_PASSWORD", PASSWORD);
    service.run().await?;
    service.until_tip(NAME, &anvil.tip().await?).await?;
    service.kill_and_run().await?;
    pay(&anvil, 1, ALICE, 250).await?;
    anvil.mine(3).await?;
    let gone = pay(&anvil, 2, BOB, 7).await?;
    anvil.mine(2).await?;
    service.until_told(NAME, &anvil.tip().await?).await?;
    // Taken back, credited again, and taken back for good.
    anvil.reorg(2, &[(&gone, 0)]).await?;
    anvil.mine(3).await?;
    service.until_told(NAME, &anvil.tip().await?).await?;
    let height = anvil.position(&gone).await?.context("the payment is not on the chain")?.block.height;
    anvil.reorg(anvil.tip().await?.height - height + 1, &[]).await?;
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
    ensure!(reporting.query(&life, &[]).await?.len() == 4);
    ensure!(reporting.query(about(&queries, "How far each consumer")?, &[]).await?.len() == 1);
    ensure!(reporting.batch_execute("delete from confirmd.event").await.is_err(), "who reads may write");
    // What a later version adds is covered as well.
    admin.batch_execute("set role confirmd; create table confirmd.later (what text); reset role").await?;
    reporting.simple_query("select * from confirmd.later").await.context("who reads can't read what came later")?;
    admin.batch_execute("drop table confirmd.later").await?;
    let row = admin.query_one("select sum(balance)::text from ledger.account", &[]).await?;
    ensure!(row.get::<_, String>(0) == "250", "{row:?}");
    // Retention as on the page: nothing is old enough to go.
    let before: i64 = admin.query_one("select count(*) from confirmd.event", &[]).await?.get(0);
    let retention = block("## Retention", 0)?;
    admin.batch_execute(&retention.concat()).await.context("retention")?;
    ensure!(admin.query_one("select count(*) from confirmd.event", &[]).await?.get::<_, i64>(0) == before);
    // Everything is: each deposit's last event stays, and the others are moved, or go.
    let archive = block("## Retention", 1)?.concat().replace("2026-01-01", "2000-01-01").replace("2027-01-01", "2200-01-01");
    for way in [archive, retention.concat()] {
        admin.batch_execute(&way.replace("interval '2 years'", "interval '-1 second'")).await.context("retention")?;
        ensure!(admin.query_one("select count(*) from confirmd.event", &[]).await?.get::<_, i64>(0) == 2);
        ensure!(admin.query_one("select count(*) from confirmd_archive.event", &[]).await?.get::<_, i64>(0) == before - 2);
    }

    // Under another name.
    service.terminate().await?;
    service.command(&["consumer", "rename", "ledger", "books"]).await?;
    let rename = block("## Who feeds it", 0)?.concat().replace("OLD", "ledger").replace("NEW", "books");
    admin.batch_execute(&rename).await.context("rename")?;
    service.configure(&config("books")?)?;
    service.run().await?;
    pay(&anvil, 1, ALICE, 3).await?;
    anvil.mine(2).await?;
    service.until_told(NAME, &anvil.tip().await?).await?;
    let row = admin.query_one("select sum(balance)::text from ledger.account", &[]).await?;
    ensure!(row.get::<_, String>(0) == "253", "{row:?}");
    Ok(())
}
