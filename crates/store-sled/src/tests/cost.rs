//! What the census costs, beside what a commit and an open cost.

use super::support::*;
use crate::census::SPENT_NS;
use crate::{OpenOptions, SledStore};
use confirmd_core::*;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Commits of so many deposits each, and how many of them.
const SHAPES: [(u64, u64); 2] = [(1, 2_000), (100, 500)];

#[tokio::test]
#[ignore = "prints figures: cargo test --release -p confirmd-store-sled --lib cost -- --ignored --nocapture"]
async fn print_what_the_census_costs() {
    let directory = tempfile::tempdir().unwrap();
    let options = || OpenOptions { init: true, ..OpenOptions::default() };
    let store = SledStore::open(directory.path(), options()).await.unwrap();
    let (mut version, mut next) = (0, 0);
    for (deposits, commits) in SHAPES {
        SPENT_NS.store(0, Relaxed);
        let began = Instant::now();
        for _ in 0..commits {
            let mut set = ChangeSet::new(chain(), StateVersion(version));
            set.changes.push(Change::TrailPushed(block(version + 1)));
            for n in next..next + deposits {
                set.changes.push(reported(n, version + 1, 1));
                set.push_event(event_of(&chain(), n, version + 1, 1));
                // Another one, reported before, is final.
                if let Some(old) = n.checked_sub(200) {
                    set.changes.push(Change::ReportedDropped(key(old)));
                    set.changes.push(archived(old, version + 1, 1));
                }
            }
            store.commit(set).await.unwrap();
            (version, next) = (version + 1, next + deposits);
        }
        let (all, census) = (began.elapsed().as_micros(), u128::from(SPENT_NS.load(Relaxed) / 1000));
        println!(
            "{deposits} deposits a commit: {} us a commit, of which the census {} us",
            all / u128::from(commits),
            census / u128::from(commits)
        );
    }
    store.close().await.unwrap();
    SPENT_NS.store(0, Relaxed);
    let began = Instant::now();
    let store = SledStore::open(directory.path(), options()).await.unwrap();
    let spent = SPENT_NS.load(Relaxed) / 1_000_000;
    println!("open with {next} deposits: {} ms, of which the census {spent} ms", began.elapsed().as_millis());
    store.close().await.unwrap();
}
