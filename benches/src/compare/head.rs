//! B5: from a mined block to a webhook received, and to a row in PostgreSQL.

use super::database::Database;
use super::evm_chain::{EvmChain, WATCHED};
use super::instance::{Instance, webhook_sink};
use super::probe::SyncProbe;
use super::receiver::{Answer, Receiver};
use super::report::Goal;
use crate::process::scratch;
use crate::ratio::percentile;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCKS: u64 = 100;
/// How often confirmd looks.
const POLL: Duration = Duration::from_millis(200);
const ALLOWED: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_micros(200);
const LIMIT: Duration = Duration::from_secs(30);
/// With a push from the node: from the block to its receiver.
const PUSHED: Duration = Duration::from_millis(30);
/// Tells of a row when its transaction is committed, so that nobody has to look for it.
const TELL: &str = "
create function SCHEMA.tell() returns trigger language plpgsql as $$
begin perform pg_notify('bench', new.tx_id); return null; end $$;
create trigger tell after insert on SCHEMA.event for each row execute function SCHEMA.tell();";

/// Each block's latencies, in microseconds.
#[derive(Debug, Default)]
struct Latencies {
    webhook: Vec<u64>,
    row: Vec<u64>,
}

/// By polling alone, then with a push from the node beside it.
pub async fn head(confirmd: &Path, database: &Database) -> Result<Goal> {
    let (found, syncs) = follow(confirmd, database, "polled", false).await?;
    let goal = judge_polled(&found, &syncs)?;
    match follow(confirmd, database, "pushed", true).await {
        Ok((found, syncs)) => judge_pushed(goal, &found, &syncs),
        Err(error) => {
            println!("B5 with a push from the node: {error:#}");
            Ok(goal.lacks("with a push from the node it was not measured"))
        }
    }
}

/// One block after the other, each with a payment, at random moments between two polls; one confirmation. Latencies, and what
/// syncs took meanwhile.
async fn follow(confirmd: &Path, database: &Database, schema: &str, push: bool) -> Result<(Latencies, Vec<u64>)> {
    let mut chain = EvmChain::make(10)?;
    let receiver = Receiver::start(Answer::After(Duration::ZERO), true)?;
    let folder = scratch("head")?;
    let mut lines = format!("poll_interval = \"{}ms\"\n", POLL.as_millis());
    if push {
        lines.push_str(&format!("push = \"ws://{}\"\n", chain.node.host));
    }
    let sections = format!(
        "{}{}{}",
        chain.section_with(WATCHED, 64, &lines),
        webhook_sink("hook", receiver.port, 16),
        database.sink(schema, folder.path())?
    );
    let mut instance = Instance::start(confirmd, folder.path(), &sections)?;
    instance.until("the first blocks were delivered", Duration::from_millis(50), |metrics| {
        metrics.following() && metrics.sum("confirmd_deliveries{") == 0
    })?;
    let (client, told) = database.listening().await?;
    client.batch_execute(&TELL.replace("SCHEMA", schema)).await.context("making a trigger")?;
    client.batch_execute("listen bench").await?;
    let (mut probe, mut found) = (SyncProbe::new(folder.path())?, Latencies::default());
    let mut http = chain.node.http()?;
    for block in 0..BLOCKS {
        std::thread::sleep(POLL.mul_f64(fastrand::f64()));
        probe.once()?;
        let tx = chain.pay(&mut http, block)?;
        let mined = Instant::now();
        chain.mine(&mut http)?;
        while receiver.arrival(&tx).is_none() {
            ensure!(mined.elapsed() < LIMIT, "no webhook for block {block}");
            std::thread::sleep(LOOK);
        }
        let hook = receiver.arrival(&tx).context("it has arrived")?;
        let row = loop {
            let (id, at) = told.recv_timeout(LIMIT).with_context(|| format!("no row for block {block}"))?;
            if id == tx {
                break at;
            }
        };
        found.webhook.push(u64::try_from(hook.duration_since(mined).as_micros())?);
        found.row.push(u64::try_from(row.duration_since(mined).as_micros())?);
    }
    instance.kill()?;
    Ok((found, probe.took_us()))
}

fn judge_polled(found: &Latencies, syncs: &[u64]) -> Result<Goal> {
    let (poll, allowed) = (u64::try_from(POLL.as_micros())?, u64::try_from(ALLOWED.as_micros())?);
    let sync = |hundredths| percentile(syncs.to_vec(), hundredths);
    let mut goal = Goal::new("B5");
    for (what, values) in [("webhook", &found.webhook), ("row in PostgreSQL", &found.row)] {
        let (p50, p99) = (percentile(values.clone(), 50), percentile(values.clone(), 99));
        println!("B5 mined to {what}: p50 {} ms, p99 {} ms of {} blocks", p50 / 1_000, p99 / 1_000, values.len());
        goal = goal.at_most(&format!("mined to {what}, p50"), p50, poll / 2 + allowed + 2 * sync(50), "us").at_most(
            "p99",
            p99,
            poll + allowed + 2 * sync(99),
            "us",
        );
    }
    println!("B5 a sync of the same disk meanwhile: p50 {} us, p99 {} us", sync(50), sync(99));
    Ok(goal)
}

fn judge_pushed(mut goal: Goal, found: &Latencies, syncs: &[u64]) -> Result<Goal> {
    let most = u64::try_from(PUSHED.as_micros())? + 2 * percentile(syncs.to_vec(), 99);
    for (what, values) in [("webhook", &found.webhook), ("row in PostgreSQL", &found.row)] {
        let (p50, p99) = (percentile(values.clone(), 50), percentile(values.clone(), 99));
        println!("B5 pushed, mined to {what}: p50 {p50} us, p99 {p99} us of {} blocks", values.len());
        goal = goal.at_most(&format!("pushed, mined to {what}, p99"), p99, most, "us");
    }
    println!("B5 a sync meanwhile: p50 {} us, p99 {} us", percentile(syncs.to_vec(), 50), percentile(syncs.to_vec(), 99));
    Ok(goal)
}
