//! What a batch saves.

use super::bench::{self, DATABASE, delivery, feed, recorded, sink};
use anyhow::{Result, ensure};
use confirmd_core::{Delivery, Sink};
use e2e::{Needs, Postgres, node_trial};
use libtest_mimic::Trial;
use std::time::Instant;

const EPOCH: u64 = 1_790_000_000;
/// The goal of the release profile (`cargo run --release -p benches --bin postgres`); unoptimised, on a loaded machine, it was 26 to 35 times.
const GOAL: f64 = 20.0;
/// What else the machine does only ever lowers it: so often it is measured before it counts as missed.
const ROUNDS_MAX: i64 = 3;

pub(crate) fn trials() -> Vec<Trial> {
    vec![node_trial("postgres_sink::a_batch_is_many_times_as_fast_as_one_event_a_transaction", &[Needs::Postgres], ratio)]
}

/// Alternating rounds on one cluster on a real disk, without an effect of the operator's; the medians are compared.
#[allow(clippy::float_arithmetic)]
async fn ratio() -> Result<()> {
    let folder = tempfile::Builder::new().prefix("confirmd-e2e-disk-").tempdir()?;
    let cluster = bench::prepared(Postgres::start_in(folder, &[]).await?).await?;
    let keys = bench::keys(cluster.port(), "60s");
    let keys: String = keys.lines().filter(|line| !line.starts_with("on_")).map(|line| format!("{line}\n")).collect();
    let target = sink(&keys, Some(feed(1, EPOCH)))?;
    let batch_max = target.profile().batch_max.get();
    let mut number = 0;
    let mut next = |count: usize| -> Vec<Delivery> {
        let from = number;
        number += u64::try_from(count).unwrap_or_default();
        (from..number).map(|number| delivery(number, 1, EPOCH)).collect()
    };
    target.deliver(&next(batch_max)).await?;
    let mut best = 0.0_f64;
    let mut rounds = 0;
    while best < GOAL && rounds < ROUNDS_MAX {
        rounds += 1;
        let (mut single, mut batched) = (Vec::new(), Vec::new());
        for _ in 0..7 {
            let events = next(100);
            let began = Instant::now();
            for event in &events {
                target.deliver(std::slice::from_ref(event)).await?;
            }
            single.push(began.elapsed().as_secs_f64() / 100.0);
            let events = next(batch_max);
            let began = Instant::now();
            target.deliver(&events).await?;
            batched.push(began.elapsed().as_secs_f64() / 500.0);
        }
        let (single, batched) = (median(single), median(batched));
        println!(
            "one event a transaction {:.0} us, in a batch {:.1} us an event: {:.1}x",
            single * 1e6,
            batched * 1e6,
            single / batched
        );
        best = best.max(single / batched);
    }
    ensure!(batch_max == 500 && recorded(&cluster.admin(DATABASE).await?).await?.0 == rounds * 7 * 600 + 500);
    ensure!(best >= GOAL, "in {rounds} measurements at best {best:.1}x");
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
