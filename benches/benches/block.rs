//! A full block: decoded, and decoded and matched against a million watched scripts.

use benches::block::Sample;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::cell::OnceCell;
use std::time::Duration;

const WATCHED: usize = 1_000_000;

fn block(criterion: &mut Criterion) {
    let sample = Sample::find().expect("a block");
    let watch = OnceCell::new();
    let mut group = criterion.benchmark_group("block");
    group.sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    group.throughput(Throughput::Bytes(u64::try_from(sample.bytes.len()).expect("a block is small")));
    group.bench_function("decode", |bencher| bencher.iter(|| sample.decode().expect("a good block").outputs.len()));
    group.bench_function(BenchmarkId::new("decode and match", WATCHED), |bencher| {
        let watch = watch.get_or_init(|| sample.watch(WATCHED).expect("a million scripts"));
        bencher.iter(|| sample.decode_and_match(watch).expect("a good block").len());
    });
    group.finish();
    println!("block: {}", sample.origin);
}

criterion_group!(benches, block);
criterion_main!(benches);
