//! What a batch saves: full batches against one event a transaction, in turn. The trial and the benchmark measure by this.

use anyhow::{Result, anyhow, ensure};
use confirmd_core::{DeliverError, Delivery, Sink};
use std::time::Instant;

/// The goal: so many times as fast, at least.
pub(super) const GOAL: u64 = 20;

/// Medians over the rounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparison {
    /// Events in a batch.
    pub(super) batch: u64,
    /// Events delivered altogether.
    pub(super) sent: u64,
    /// Nanoseconds an event, one a transaction.
    pub(super) single: u64,
    /// Nanoseconds an event, in batches.
    pub(super) batched: u64,
}

impl Comparison {
    /// How many times as fast, in hundredths; rounded down, against the goal.
    pub(super) fn hundredths(&self) -> u64 {
        self.single.saturating_mul(100) / self.batched.max(1)
    }
}

/// Rounds of `singles` single events and one batch each, so that what else the machine does weighs on both. `make` gives the n-th event, of a
/// deposit of its own; the first one is `from`.
pub(super) async fn compare(
    sink: &dyn Sink,
    rounds: u64,
    singles: u64,
    from: u64,
    make: impl Fn(u64) -> Result<Delivery>,
) -> Result<Comparison> {
    let batch = u64::try_from(sink.profile().batch_max.get())?;
    ensure!(rounds > 0 && singles > 0, "nothing to measure");
    let mut number = from;
    let mut next = |count: u64| {
        number += count;
        (number - count..number).map(&make).collect::<Result<Vec<_>>>()
    };
    let taken = |outcome: Result<(), DeliverError>| outcome.map_err(|error| anyhow!("{error}"));
    // The first prepares everything.
    taken(sink.deliver(&next(batch)?).await)?;
    let (mut single, mut batched) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let events = next(singles)?;
        let began = Instant::now();
        for event in &events {
            taken(sink.deliver(std::slice::from_ref(event)).await)?;
        }
        single.push(u64::try_from(began.elapsed().as_nanos())? / singles);
        let events = next(batch)?;
        let began = Instant::now();
        taken(sink.deliver(&events).await)?;
        batched.push(u64::try_from(began.elapsed().as_nanos())? / batch);
    }
    Ok(Comparison { batch, sent: number - from, single: median(single), batched: median(batched) })
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
