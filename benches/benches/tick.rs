//! A tick's decision and durable commit, with few and with many settled keys in the store.

use benches::ledger::{Ledger, loads_for_another};
use benches::ratio::{Ratio, median};
use benches::usage::ns;
use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const FEW: u64 = 1_000;
const MANY: u64 = 1_000_000;

fn tick(criterion: &mut Criterion) {
    // Stores are loaded before criterion looks at its clock; a list of names needs none.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let runtime = Runtime::new().expect("a runtime");
    let mut medians = Vec::new();
    let mut group = criterion.benchmark_group("tick");
    // Short, since each tick settles a few keys, and a store of few keys would soon hold many.
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600));
    for settled in [FEW, MANY] {
        let mut ledger = runtime.block_on(Ledger::with_settled(settled)).expect("a loaded store");
        let mut each = Vec::new();
        group.bench_function(BenchmarkId::new("settled", settled), |bencher| {
            bencher.iter_custom(|ticks| {
                let took = runtime.block_on(timed(&mut ledger, ticks));
                each.push(ns(took) / ticks.max(1));
                took
            });
        });
        println!("tick: {} keys are settled by the end", ledger.settled());
        medians.push(median(each));
    }
    group.finish();
    if let [few, many] = medians.as_slice() {
        println!("tick 1e3 vs 1e6 settled, wall: {} (the ratios program judges CPU time)", Ratio::of(*many, *few));
    }
}

async fn timed(ledger: &mut Ledger, ticks: u64) -> Duration {
    let start = Instant::now();
    ledger.ticks(ticks).await.expect("ticks");
    start.elapsed()
}

criterion_group!(benches, tick);

fn main() {
    if !loads_for_another().expect("a loaded store") {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
