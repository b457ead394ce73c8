//! The store under `kill -9` and on a full disk, in processes of their own.

use super::support::*;
use crate::SledStore;
use confirmd_core::*;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const DIRECTORY: &str = "CONFIRMD_TEST_STATE";

fn child_args() -> [&'static str; 5] {
    ["--exact", "tests::crash::a_child_commits_until_it_can_not", "--ignored", "--nocapture", "--test-threads=1"]
}

/// Commit `n` finds deposit `n` and reports it: one event. One address is added, an older one removed.
fn nth(n: u64) -> ChangeSet {
    let mut set = ChangeSet::new(chain(), StateVersion(n - 1));
    set.changes = vec![Change::TrailPushed(block(n)), reported(n, n, 1), Change::WatchPut(watch(n))];
    set.changes.push(Change::WatchForgotten(watch(n.saturating_sub(9)).address.bytes().into()));
    set.push_event(event_of(&chain(), n, n, 1));
    set
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{text}").unwrap();
    out.flush().unwrap();
}

#[tokio::test]
#[ignore = "started by the other tests of this file in a process of its own"]
async fn a_child_commits_until_it_can_not() {
    let path = std::env::var(DIRECTORY).unwrap();
    let store = open(Path::new(&path)).await.unwrap();
    let mut n = store.load(&chain()).await.unwrap().unwrap_or_default().version.0;
    let name = ConsumerName::new("ledger").unwrap();
    store.register(&ConsumerSpec { name: name.clone(), filter: ConsumerFilter::default(), start: None }).await.unwrap();
    let error = loop {
        n += 1;
        if let Err(error) = one_round(&store, &name, n).await {
            break error;
        }
    };
    say(&format!("unknown {}", matches!(error, StoreError::Unknown { .. })));
    let next = store.due(&name, Timestamp(0), 10).await;
    say(&format!("poisoned {}", matches!(next, Err(StoreError::Unknown { .. }))));
    std::process::exit(3);
}

/// One commit, and what a pump would do: half of what is due is delivered, the last of it fails.
async fn one_round(store: &SledStore, name: &ConsumerName, n: u64) -> Result<(), StoreError> {
    store.commit(nth(n)).await?;
    say(&format!("committed {n}"));
    let positions: Vec<_> = store.due(name, Timestamp(0), 2).await?.iter().map(|delivery| delivery.position).collect();
    let delivered = &positions[..positions.len() / 2];
    store.acknowledge(name, delivered).await?;
    for position in delivered {
        say(&format!("acknowledged {position}"));
    }
    match positions.last() {
        Some(last) => store.retry_later(name, *last, attempt(1, 0), Timestamp(0)).await,
        None => Ok(()),
    }
}

/// What the child said it had done.
#[derive(Default)]
struct Said {
    committed: u64,
    acknowledged: Vec<u64>,
    lines: Vec<String>,
}

fn run_child(mut command: Command, path: &Path, kill_after: Option<u64>) -> Said {
    let mut child = command.env(DIRECTORY, path).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = Said::default();
    let mut seen = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(n) = line.strip_prefix("committed ") {
            said.committed = n.parse().unwrap();
            seen += 1;
        }
        if let Some(n) = line.strip_prefix("acknowledged ") {
            said.acknowledged.push(n.parse().unwrap());
        }
        said.lines.push(line);
        if kill_after == Some(seen) {
            // What is still in the pipe was said before it died.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    said
}

/// Everything that was answered is there, and nothing half.
async fn check(path: &Path, said: &Said) -> u64 {
    let store = SledStore::open(path, options(false)).await.unwrap();
    let state = store.load(&chain()).await.unwrap().unwrap_or_default();
    let version = state.version.0;
    assert!(version >= said.committed, "commit {} was answered, the state has {version}", said.committed);
    let mut expected = ChainState::default();
    (1..=version).for_each(|n| expected.apply(&nth(n)));
    assert_eq!(state, expected);
    let all = store.deposits(&DepositFilter::default(), None, 1000).await.unwrap();
    assert_eq!(all.len(), usize::try_from(version).unwrap().min(1000));
    let name = ConsumerName::new("ledger").unwrap();
    let left: Vec<_> =
        store.list(&DeliveryFilter::default(), None, 1000).await.unwrap().iter().map(|record| record.position.0).collect();
    if version <= 1000 {
        for position in &said.acknowledged {
            assert!(!left.contains(position), "{position} was acknowledged and is back");
        }
    }
    store.register(&ConsumerSpec { name: name.clone(), filter: ConsumerFilter::default(), start: None }).await.unwrap();
    let status = &store.consumers().await.unwrap()[0];
    let given: std::collections::BTreeSet<_> = said.acknowledged.iter().collect();
    let missing = version.saturating_sub(status.waiting).saturating_sub(u64::try_from(given.len()).unwrap());
    // One acknowledgement per round may have been durable without having been said.
    assert!(missing <= 1, "{missing} events are neither waiting nor acknowledged");
    version
}

#[tokio::test]
async fn t1_t2_g5_g6_kill_9_at_any_moment_loses_nothing_that_was_answered() {
    let mut version = 0;
    for round in 0..8u64 {
        let directory = tempfile::tempdir().unwrap();
        let mut said = Said::default();
        // Twice on one directory: the second life starts from what the first left.
        for life in 0..2 {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(child_args());
            let more = run_child(command, directory.path(), Some(1 + round * 7 + life * 3));
            said.committed = more.committed;
            said.acknowledged.extend(more.acknowledged);
            if life == 0 {
                check(directory.path(), &said).await;
            }
        }
        version += check_twice(directory.path(), &said).await;
    }
    assert!(version > 16);
}

/// The second life may have one more unsaid acknowledgement than the first.
async fn check_twice(path: &Path, said: &Said) -> u64 {
    let store = SledStore::open(path, options(false)).await.unwrap();
    let version = store.load(&chain()).await.unwrap().unwrap_or_default().version.0;
    assert!(version >= said.committed);
    let left = store.list(&DeliveryFilter::default(), None, 1000).await.unwrap();
    assert!(left.iter().all(|record| !said.acknowledged.contains(&record.position.0)));
    version
}

#[tokio::test]
async fn t12_a_disk_that_takes_no_more_is_an_unknown_outcome_and_loses_nothing_that_was_answered() {
    let directory = tempfile::tempdir().unwrap();
    // A limit on the size of files stands in for the full disk, which only root can make.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(child_args());
    let said = run_child(command, directory.path(), None);
    assert!(said.lines.iter().any(|line| line == "unknown true"), "{:?}", said.lines.last());
    assert!(said.lines.iter().any(|line| line == "poisoned true"));
    assert!(said.committed > 10);
    check_twice(directory.path(), &said).await;
}
