//! B10: rows of the PostgreSQL sink beside plain inserts by `unnest`, and its transactions at the head.

use super::database::Database;
use super::evm_chain::{EvmChain, WATCHED};
use super::instance::Instance;
use super::report::Goal;
use super::restart::Crowd;
use crate::process::scratch;
use crate::ratio::median;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const ROUNDS: usize = 3;
const BATCH: usize = 1_000;
const LOOK: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(120);
/// Blocks at the head.
const BLOCKS: u64 = 30;
/// Payments in each of them.
const PAYMENTS: u64 = 3;
/// One table, as wide as a payment's essentials, with the same body: the least that keeps a deposit once.
const PLAIN: &str = "
drop table if exists plain;
create table plain (id text primary key, chain text not null, tx_id text not null, output_index bigint not null, body text not null)";
const INSERT: &str =
    "insert into plain select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[]) on conflict do nothing";
/// Tells of each statement's last rows when they are committed.
const TELL: &str = "
create schema if not exists SCHEMA;
create function SCHEMA.tell() returns trigger language plpgsql as $$
begin perform pg_notify('bench', (select count(*) from fresh)::text); return null; end $$;";

/// Catching up, then the head.
pub async fn rows(confirmd: &Path, database: &Database, crowd: &Crowd) -> Result<Goal> {
    let client = database.connect().await?;
    let (mut sink, mut plain) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let schema = format!("rows{round}");
        sink.push(catch_up(confirmd, database, crowd, &client, &schema).await?);
        plain.push(unnest(&client, &schema).await?);
    }
    let (sink, plain) = (median(sink), median(plain));
    println!("B10 rows a second: {sink} by confirmd, outbox and acknowledgements included; {plain} by unnest of {BATCH}");
    let goal = Goal::new("B10").at_least_ratio("rows of a catching-up consumer against unnest", sink, plain, 70);
    at_the_head(confirmd, database, &client, goal).await
}

/// Rows a second that a consumer new to the state writes, from the first transaction to the last: both are told of by a trigger.
async fn catch_up(confirmd: &Path, database: &Database, crowd: &Crowd, client: &Client, schema: &str) -> Result<u64> {
    let (listener, told) = database.listening().await?;
    listener.batch_execute("listen bench").await?;
    // The tables are made first, by a run that is given nothing to deliver.
    let (mut instance, _folder) = crowd
        .copied(confirmd, |folder| Ok(database.sink(schema, folder)?.replace("start = \"beginning\"", "start = \"now\"")))?;
    instance.until("the sink's tables are there", LOOK, |metrics| metrics.following())?;
    instance.stop()?;
    client.batch_execute(&TELL.replace("SCHEMA", schema)).await.context("making a trigger's function")?;
    let trigger = format!(
        "create trigger tell after insert on {schema}.event referencing new table as fresh for each statement execute function {schema}.tell()"
    );
    client.batch_execute(&trigger).await.context("making a trigger")?;
    // Another state of the same store: the books forget the first one's.
    let (mut instance, _folder) = crowd.copied(confirmd, |folder| database.sink(schema, folder))?;
    let (mut rows, mut first) = (0, None);
    let began = Instant::now();
    while rows < crowd.deposits {
        instance.alive()?;
        ensure!(began.elapsed() < LIMIT, "{rows} rows of {} in {} s", crowd.deposits, LIMIT.as_secs());
        let Ok((count, at)) = told.recv_timeout(LOOK) else { continue };
        let count: u64 = count.parse()?;
        let (begin, before, _) = *first.get_or_insert((at, count, at));
        first = Some((begin, before, at));
        rows += count;
    }
    instance.kill()?;
    let (begin, before, end) = first.context("there were rows")?;
    per_second(rows - before, end.duration_since(begin))
}

/// The same rows into one plain table, by so many at once.
async fn unnest(client: &Client, schema: &str) -> Result<u64> {
    client.batch_execute(PLAIN).await?;
    let rows = client.query(&format!("select id, chain, tx_id, output_index, body from {schema}.event"), &[]).await?;
    let insert = client.prepare(INSERT).await?;
    let start = Instant::now();
    for part in rows.chunks(BATCH) {
        let text = |column: usize| part.iter().map(|row| row.get::<_, &str>(column)).collect::<Vec<_>>();
        let index: Vec<i64> = part.iter().map(|row| row.get(3)).collect();
        client.execute(&insert, &[&text(0), &text(1), &text(2), &index, &text(4)]).await?;
    }
    per_second(u64::try_from(rows.len())?, start.elapsed())
}

fn per_second(count: u64, time: Duration) -> Result<u64> {
    Ok(count * 1_000_000 / u64::try_from(time.as_micros())?.max(1))
}

/// Writing transactions that blocks with payments cost, one block after the other.
async fn at_the_head(confirmd: &Path, database: &Database, client: &Client, goal: Goal) -> Result<Goal> {
    let mut chain = EvmChain::make(10)?;
    let folder = scratch("rows")?;
    let sections =
        format!("{}{}", chain.section_with(WATCHED, 1_000, "poll_interval = \"50ms\"\n"), database.sink("tip", folder.path())?);
    let mut instance = Instance::start(confirmd, folder.path(), &sections)?;
    let mut http = chain.node.http()?;
    let mut delivered = |tip: u64| {
        instance.until("the blocks were delivered", LOOK, |metrics| {
            metrics.height() >= tip && metrics.following() && metrics.sum("confirmd_deliveries{") == 0
        })
    };
    delivered(chain.tip)?;
    let before = next_transaction(client).await?;
    for _ in 0..BLOCKS {
        for payment in 0..PAYMENTS {
            chain.pay(&mut http, payment)?;
        }
        chain.mine(&mut http)?;
        delivered(chain.tip)?;
    }
    // Asking takes a number itself.
    let transactions = next_transaction(client).await?.saturating_sub(before + 1);
    instance.kill()?;
    println!("B10 at the head: {transactions} writing transactions for {BLOCKS} blocks of {PAYMENTS} payments");
    Ok(goal.at_most(&format!("writing transactions for {BLOCKS} ticks of {PAYMENTS} payments"), transactions, BLOCKS, ""))
}

async fn next_transaction(client: &Client) -> Result<u64> {
    let number: String = client.query_one("select pg_current_xact_id()::text", &[]).await?.get(0);
    Ok(number.parse()?)
}
