//! What a batch saves.

use super::bench::{self, DATABASE, delivery, feed, recorded, sink};
use super::comparison::{GOAL, compare};
use anyhow::{Result, ensure};
use e2e::{Needs, Postgres, node_trial};
use libtest_mimic::Trial;

const EPOCH: u64 = 1_790_000_000;
/// The goal is the release profile's (`cargo run --release -p benches --bin postgres`); unoptimised, on a loaded machine, it was 26 to 35 times. What
/// else the machine does only ever lowers it: so often it is measured before it counts as missed.
const MEASUREMENTS_MAX: u64 = 3;
const ROUNDS: u64 = 7;
const SINGLES: u64 = 100;

pub(crate) fn trials() -> Vec<Trial> {
    vec![node_trial("postgres_sink::a_batch_is_many_times_as_fast_as_one_event_a_transaction", &[Needs::Postgres], ratio)]
}

/// On one cluster on a real disk, without an effect of the operator's.
async fn ratio() -> Result<()> {
    let folder = tempfile::Builder::new().prefix("confirmd-e2e-disk-").tempdir()?;
    let cluster = bench::prepared(Postgres::start_in(folder, &[]).await?).await?;
    let keys = bench::keys(cluster.port(), "60s");
    let keys: String = keys.lines().filter(|line| !line.starts_with("on_")).map(|line| format!("{line}\n")).collect();
    let target = sink(&keys, Some(feed(1, EPOCH)))?;
    let (mut sent, mut best) = (0, 0);
    for _ in 0..MEASUREMENTS_MAX {
        let measured = compare(&target, ROUNDS, SINGLES, sent, |number| Ok(delivery(number, 1, EPOCH))).await?;
        println!("{measured:?}: {}x", measured.hundredths() / 100);
        sent += measured.sent;
        best = best.max(measured.hundredths());
        ensure!(measured.batch == 500, "{measured:?}");
        if best >= GOAL * 100 {
            break;
        }
    }
    ensure!(recorded(&cluster.admin(DATABASE).await?).await?.0 == i64::try_from(sent)?, "not all of {sent} events are there");
    ensure!(best >= GOAL * 100, "in {MEASUREMENTS_MAX} measurements at best {best} hundredths");
    Ok(())
}
