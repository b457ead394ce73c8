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
const SCHEMA: &str = "head";
/// Tells of a row when its transaction is committed, so that nobody has to look for it.
const TELL: &str = "
create function head.tell() returns trigger language plpgsql as $$
begin perform pg_notify('bench', new.tx_id); return null; end $$;
create trigger tell after insert on head.event for each row execute function head.tell();";

/// Each block's latencies, in microseconds.
#[derive(Debug, Default)]
struct Latencies {
    webhook: Vec<u64>,
    row: Vec<u64>,
}

/// One block after the other, each with a payment, at random moments between two polls; one confirmation.
pub async fn head(confirmd: &Path, database: &Database) -> Result<Goal> {
    let mut chain = EvmChain::make(10)?;
    let receiver = Receiver::start(Answer::After(Duration::ZERO), true)?;
    let folder = scratch("head")?;
    let lines = format!("poll_interval = \"{}ms\"\n", POLL.as_millis());
    let sections = format!(
        "{}{}{}",
        chain.section_with(WATCHED, 64, &lines),
        webhook_sink("hook", receiver.port, 16),
        database.sink(SCHEMA, folder.path())?
    );
    let mut instance = Instance::start(confirmd, folder.path(), &sections)?;
    instance.until("the first blocks were delivered", Duration::from_millis(50), |metrics| {
        metrics.following() && metrics.sum("confirmd_deliveries{") == 0
    })?;
    let (client, told) = database.listening().await?;
    client.batch_execute(TELL).await.context("making a trigger")?;
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
    judge(&found, &probe.took_us())
}

fn judge(found: &Latencies, syncs: &[u64]) -> Result<Goal> {
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
    Ok(goal.lacks("a push from the node is not built"))
}
