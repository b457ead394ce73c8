//! A tick's decision and durable commit, with few and with many settled keys in the store.

use benches::ledger::{Ledger, loads_for_another};
use benches::ratio::{Ratio, median};
use benches::usage::ns;
use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const FEW: u64 = 1_000;
const MANY: u64 = 1_000_000;
/// Ticks before the clock starts: whatever was just loaded is written out, and memory is warm.
const WARM_UP_TICKS: u64 = 5;

fn tick(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut means = Vec::new();
    let mut group = criterion.benchmark_group("tick");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    for settled in [FEW, MANY] {
        let mut kept: Option<Ledger> = None;
        let mut each = Vec::new();
        group.bench_function(BenchmarkId::new("settled", settled), |bencher| {
            bencher.iter_custom(|ticks| {
                // A store of few keys would soon hold many: it is made anew for each sample.
                let stale = kept.as_ref().is_none_or(|ledger| ledger.settled() > settled + settled / 10);
                if stale {
                    kept = Some(runtime.block_on(Ledger::with_settled(settled)).expect("a loaded store"));
                }
                let ledger = kept.as_mut().expect("made above");
                let took = runtime.block_on(timed(ledger, ticks));
                each.push(ns(took) / ticks.max(1));
                took
            });
        });
        means.push(median(each));
    }
    group.finish();
    if let [few, many] = means.as_slice()
        && *few > 0
        && *many > 0
    {
        println!("tick 1e3 vs 1e6 settled, wall: {} (the ratios program judges CPU time)", Ratio::of(*many, *few));
    }
}

async fn timed(ledger: &mut Ledger, ticks: u64) -> Duration {
    ledger.ticks(WARM_UP_TICKS).await.expect("ticks");
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
